"""`functory health`: ask a daemon for its health, for supervisors and containers that have no other way to ask."""

import argparse
from typing import TYPE_CHECKING

from functory.cli.commands import Commands
from functory.cli.remote import add_remote, show

if TYPE_CHECKING:
    from functory.client import Client


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("health", help="whether a daemon accepts jobs; exits 0 if it does, 1 if not")
    parser.add_argument("--live", action="store_true", help="only whether it is alive")
    add_remote(parser, run_health, tenant=False, key=False)


async def run_health(client: "Client", arguments: argparse.Namespace) -> int:
    health = await client.health(is_live_enough=arguments.live)
    show(arguments, health, health.status + (f": {', '.join(health.problems)}" if health.problems else ""))
    return 0 if health.status == "ok" else 1
