"""`functory invoke FILE`: run a handler file once, here, in the same sandbox as the service does, without a server."""

import argparse
import asyncio
import sys
from pathlib import Path

from functory.cli.answers import print_stopped
from functory.cli.commands import Commands
from functory.cli.handlerfile import read_handler
from functory.config import Settings
from functory.isolation import choose_isolation
from functory.tenantbook import Allowance
from functory.workbench import Workbench
from handlers.model import Handler
from runner.outcome import Stopped
from runner.runner import Runner


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("invoke", help="run a handler file once in the sandbox, without a server")
    parser.add_argument("file", type=Path, metavar="FILE", help="the handler's body; its suffix tells the language")
    parser.add_argument("--payload", help="the job's payload; - reads standard input (default: empty)")
    parser.add_argument("--lang", help="the language, if the suffix does not tell")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="default: 60")
    parser.add_argument("--network", action="store_true", help="let the handler reach the network")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run_invoke)


def run_invoke(arguments: argparse.Namespace) -> int:
    """Exits 0 for a 2xx, 1 for anything else."""
    handler = read_handler(arguments.file, arguments.lang, timeout_s=arguments.timeout, network=arguments.network)
    payload = sys.stdin.buffer.read() if arguments.payload == "-" else (arguments.payload or "").encode()
    stopped = asyncio.run(invoke(handler, payload))
    print_stopped(stopped, as_json=arguments.json)
    return 0 if stopped.code == "ok" else 1


async def invoke(handler: Handler, payload: bytes) -> Stopped:
    isolation = await choose_isolation(Settings())
    runner = Runner(isolation.launcher)
    await runner.start()
    try:
        bench = Workbench(runner, lambda _: Allowance(network=True), isolation.refusal)
        await bench.check("local-handler", handler)
        return await bench.invoke("local-handler", handler, payload)
    finally:
        await runner.close()
