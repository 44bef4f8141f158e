"""`functory health`: ask a daemon how it is, for supervisors and containers that have no other way to ask."""

import argparse
import asyncio
import os

from functory.cli.commands import Commands
from functory.client import Client

_TIMEOUT_S = 5.0


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("health", help="whether a daemon takes jobs; exits 0 if it does, 1 if not")
    default = os.environ.get("FUNCTORY_URL", "http://127.0.0.1:8484")
    parser.add_argument("--url", default=default, help="FUNCTORY_URL; the status port will do")
    parser.add_argument("--live", action="store_true", help="only whether it is alive")
    parser.set_defaults(run=run_health)


def run_health(arguments: argparse.Namespace) -> int:
    return asyncio.run(_ask(arguments.url, is_live_enough=arguments.live))


async def _ask(url: str, *, is_live_enough: bool) -> int:
    async with Client(url, "", timeout_s=_TIMEOUT_S) as client:
        health = await client.health(is_live_enough=is_live_enough)
    print(health.status + (f": {', '.join(health.problems)}" if health.problems else ""))
    return 0 if health.status == "ok" else 1
