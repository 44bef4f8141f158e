"""`functory invoke FILE`: run a handler file once, here, in the same sandbox as the service does, without a server."""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from functory.cli.answers import print_stopped
from functory.cli.commands import Commands
from functory.cli.handler_file import named_files, read_handler
from functory.cli.standard_input import read_all
from functory.cli.workbench import open_workbench
from handlers.model import Handler
from runner.outcome import Stopped


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("invoke", help="run a handler file once in the sandbox, without a server")
    parser.add_argument("file", type=Path, metavar="FILE", help="the handler's body; its extension tells the language")
    parser.add_argument("--payload", help="the job's payload; - reads standard input (default: empty)")
    parser.add_argument("--lang", help="the language, if the extension does not tell")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="default: 60")
    parser.add_argument("--network", action="store_true", help="let the handler reach the network")
    parser.add_argument(
        "--host", action="append", metavar="HOST[:PORT]", help="let it call this host; * for names below"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run_invoke)


def run_invoke(arguments: argparse.Namespace) -> int:
    """Exits 0 for a 2xx, 1 for anything else."""
    stopped = asyncio.run(_read_and_invoke(arguments))
    print_stopped(stopped, as_json=arguments.json)
    return 0 if stopped.code == "ok" else 1


async def _read_and_invoke(arguments: argparse.Namespace) -> Stopped:
    limits = {"timeout_s": arguments.timeout, "network": arguments.network, "hosts": arguments.host or []}
    handler = await read_handler(arguments.file, arguments.lang, **limits)
    payload = await read_all() if arguments.payload == "-" else os.fsencode(arguments.payload or "")
    with named_files({"body": str(arguments.file)}):
        return await invoke(handler, payload)


async def invoke(handler: Handler, payload: bytes) -> Stopped:
    async with open_workbench(_say) as bench:
        return await bench.run(await bench.load(handler), payload)


def _say(text: str) -> None:
    """Beside the result, which may be piped on."""
    print(text, file=sys.stderr)
