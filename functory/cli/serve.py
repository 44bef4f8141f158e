"""`functory serve`: run a daemon, or several, until asked to stop."""

import argparse
import asyncio
import os
import signal
import sys

from functory.cli.commands import Commands
from functory.cli.settings import add_settings, config_of
from functory.config import Settings
from functory.garbage import settle_garbage
from functory.logs import configure_logging
from functory.notify import Notifier
from functory.processes import run_processes
from functory.serving import Server


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("serve", help="run a daemon until it is asked to stop")
    add_settings(parser)
    parser.set_defaults(run=run_serve)


def run_serve(arguments: argparse.Namespace) -> int:
    settings = config_of(arguments).settings
    os.umask(0o077)  # whatever a daemon writes is its owner's business
    configure_logging(settings.log_style, settings.log_level)
    notifier = Notifier.from_environment()
    if settings.processes > 1:
        given = sys.argv[sys.argv.index("serve") + 1 :]
        return asyncio.run(run_processes(settings.processes, given, settings.status_port, notifier))
    asyncio.run(serve(settings, notifier))
    return 0


async def serve(settings: Settings, notifier: Notifier | None = None) -> None:
    """Until SIGTERM or SIGINT; a second one hurries."""
    server = Server(settings, notifier)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.quit)
    await server.start()
    settle_garbage()
    print(server.welcome(), file=sys.stderr, flush=True)
    await server.run()
