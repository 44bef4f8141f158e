"""`functory invoke FILE`: run a handler file once, here, in the same sandbox as the service does, without a server."""

import argparse
import asyncio
from pathlib import Path

import aiofiles

from functory.cli.answers import print_stopped
from functory.cli.commands import Commands
from functory.cli.handler_file import read_handler
from functory.config import Settings
from functory.daemon.isolation import choose_isolation
from functory.egress.proxy import EgressProxy
from functory.execution.tenant_book import Allowance
from functory.execution.trial_runs import TrialRuns
from handlers.model import Handler
from runner.outcome import Stopped
from runner.resolver import Resolver
from runner.runner import Runner
from runner.targets import Targets
from scheduler import SchedulerOptions
from scheduler.oldest import OldestFirst


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
    if arguments.payload == "-":
        return await invoke(handler, await aiofiles.stdin_bytes.read())
    return await invoke(handler, (arguments.payload or "").encode())


async def invoke(handler: Handler, payload: bytes) -> Stopped:
    settings = Settings()
    isolation = await choose_isolation(settings)
    egress = EgressProxy(Resolver(Targets(settings.hosts_allowed, settings.http_allowed)))
    runner = Runner(isolation.launcher, egress=egress)
    await runner.start()
    try:
        trial_runs = TrialRuns(
            runner,
            lambda _: Allowance(network=True),
            OldestFirst(SchedulerOptions(slots=1)),
            refusal=isolation.refusal,
        )
        await trial_runs.check("local-handler", handler)
        return await trial_runs.invoke("local-handler", handler, payload)
    finally:
        await runner.close()
        await egress.close()
