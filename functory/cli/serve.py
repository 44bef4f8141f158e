"""`functory serve`: run a daemon, or several, until asked to stop."""

import argparse
import asyncio
import os
import sys

from functory.cli.commands import Commands
from functory.cli.settings import add_settings, config_of
from functory.config import Settings
from functory.daemon.descriptors import allow_descriptors
from functory.daemon.garbage_collector import return_memory, settle_garbage
from functory.daemon.server import Server
from functory.errors import StillRunning
from functory.logs import configure_logging
from functory.setting_values import Address
from functory.supervision.notifier import Notifier
from functory.supervision.processes import OwnPorts, run_processes
from functory.supervision.stop_signals import stop_with_parent, when_asked_to_stop
from journal.errors import JournalLocked


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("serve", help="run a daemon until it is asked to stop")
    add_settings(parser)
    parser.set_defaults(run=run_serve)


def run_serve(arguments: argparse.Namespace) -> int:
    stop_with_parent()
    settings = config_of(arguments).settings
    os.umask(0o077)  # only the owner may read what a daemon writes
    return_memory()
    allow_descriptors()
    configure_logging(settings.log_style, settings.log_level)
    notifier = Notifier.from_environment()
    if settings.processes > 1:
        given = sys.argv[sys.argv.index("serve") + 1 :]
        wake = settings.wake or Address("", 0)
        ports = OwnPorts(settings.status_port, wake.port, wake.host)
        return asyncio.run(run_processes(settings.processes, given, ports, notifier))
    asyncio.run(serve(settings, notifier))
    return 0


async def serve(settings: Settings, notifier: Notifier | None = None) -> None:
    """Run until SIGTERM, SIGINT or SIGHUP; a second one of the first two shortens the stop."""
    server = Server(settings, notifier)
    when_asked_to_stop(server.quit)
    try:
        await server.start()
    except JournalLocked as error:
        raise StillRunning(
            f"a daemon already runs with this data: {error}. Another needs a --data-dir and a --port of its own"
        ) from error
    if not server.is_open:
        return  # it was asked to stop while it waited for the store
    settle_garbage()
    print(server.welcome(), file=sys.stderr, flush=True)
    await server.run()
