"""The `functory` command: its parser, and the one place that turns errors into messages and exit codes.

0   done
1   done, and what was looked for is bad: damage found, a job failed, isolation too low
2   the command line or the input is wrong
3 and up   it could not be done; `functory.statuses` says which number means what

A command is imported when it is asked for: the parser of `functory job get` knows nothing of daemons.
"""

import argparse
import os
import sys
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from typing import Final

import functory

GROUPS: Final = {
    "serve": ("serve",),
    "health": ("health",),
    "demo": ("demo",),
    "tenants": ("tenant", "key"),
    "handlers": ("handler",),
    "jobs": ("job", "results"),
    "scoreboard": ("scoreboard",),
    "invoke": ("invoke",),
    "doctor": ("doctor",),
    "settings": ("config",),
    "journal": ("journal",),
    "backup": ("backup", "restore"),
    "migrate": ("migrate",),
    "store": ("store",),
    "completion": ("completion", "openapi"),
}
"""The modules of this package that have commands, and which, in the order in which they are listed."""


def main(argv: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if argv is None else argv
    arguments = make_parser(groups_for(given)).parse_args(given)
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return run(arguments)
    except BrokenPipeError:
        # Whoever read our output has seen enough; without this the interpreter complains when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from functory.cli.failures import exit_code_of_failure  # noqa: PLC0415 (it knows the errors of all packages)

        status = exit_code_of_failure(error)
        if status is None:
            raise
        print(f"functory: {error}", file=sys.stderr)
        return status


def groups_for(argv: Sequence[str]) -> Collection[str]:
    """Those that the arguments can be of: the one that has the command, or all, so that help lists everything."""
    if argv and argv[0] == "--version":
        return ()
    word = argv[0] if argv else ""
    return [name for name, commands in GROUPS.items() if word in commands] or GROUPS


def make_parser(groups: Collection[str] = GROUPS.keys()) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="functory", description="Multi-tenant function runner on a durable job queue."
    )
    parser.add_argument("--version", action="version", version=f"functory {functory.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in groups:
        import_module(f"functory.cli.{name}").add_commands(commands)
    return parser
