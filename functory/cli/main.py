"""The `functory` command: its parser, and the one place that turns errors into messages and exit codes.

0   done
1   done, and what was looked for is bad: damage found, a job failed
2   the command line is wrong
3   it could not be done: not found, locked, unreadable
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence

import functory
from functory.cli import journal
from journal import JournalError


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser()
    arguments = parser.parse_args(argv)
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return run(arguments)
    except BrokenPipeError:
        # Whoever read our output has seen enough; without this the interpreter complains when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (JournalError, OSError) as error:
        print(f"functory: {error}", file=sys.stderr)
        return 3


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="functory", description="Multi-tenant function runner on a durable job queue."
    )
    parser.add_argument("--version", action="version", version=f"functory {functory.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    journal.add_commands(commands)
    return parser
