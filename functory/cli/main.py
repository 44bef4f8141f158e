"""The `functory` command: its parser, and the one place that turns errors into messages and exit codes.

0   done
1   done, and what was looked for is bad: damage found, a job failed, isolation too low
2   the command line or the input is wrong
3 and up   it could not be done; `functory.statuses` says which number means what
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence

import functory
from functory.cli import (
    backup,
    completion,
    demo,
    doctor,
    handlers,
    health,
    invoke,
    jobs,
    journal,
    migrate,
    scoreboard,
    serve,
    settings,
    store,
    tenants,
)
from functory.client import ClientError, ServerUnreachable
from functory.errors import FunctoryError
from functory.statuses import exit_code_of, exit_code_of_status
from handlers.errors import HandlerError
from journal import JournalError
from runner.errors import RunnerError
from store.errors import StoreError

_NO_FILE = 8
_GROUPS = (
    serve,
    health,
    demo,
    tenants,
    handlers,
    jobs,
    scoreboard,
    invoke,
    doctor,
    settings,
    journal,
    backup,
    migrate,
    store,
    completion,
)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = make_parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return run(arguments)
    except BrokenPipeError:
        # Whoever read our output has seen enough; without this the interpreter complains when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except (FunctoryError, HandlerError, JournalError, RunnerError, StoreError, OSError) as error:
        print(f"functory: {error}", file=sys.stderr)
        return _exit_code(error)


def _exit_code(error: Exception) -> int:
    """What a server answered counts as if it had happened here."""
    if isinstance(error, OSError):
        return _NO_FILE
    if isinstance(error, ClientError):
        return exit_code_of_status(error.status)
    return exit_code_of_status(503) if isinstance(error, ServerUnreachable) else exit_code_of(error)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="functory", description="Multi-tenant function runner on a durable job queue."
    )
    parser.add_argument("--version", action="version", version=f"functory {functory.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for group in _GROUPS:
        group.add_commands(commands)
    return parser
