"""The `functory` command: its parser, and the one place that turns errors into messages and exit codes.

0   done
1   done, and the result is bad: damage found, a job failed, isolation too low
2   the command line or the input is wrong
3 and up   it could not be done; `functory.statuses` says what each number means

A command is imported only when it is used: the parser of `functory job get` knows nothing about daemons.
"""

import argparse
import io
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

import functory
from functory.cli.command_parser import CommandParser

GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "serve": {"serve": "run a daemon until it is asked to stop"},
    "health": {"health": "whether a daemon accepts jobs; exits 0 if it does, 1 if not"},
    "demo": {"demo": "show the whole service at work, in a temporary folder"},
    "tenants": {
        "tenant": "create and change tenants (operator)",
        "key": "keys of a tenant, or of the operator (operator)",
    },
    "handlers": {"handler": "register handlers and look at them"},
    "folders": {"deploy": "register folders as the handlers of their types"},
    "dev": {
        "init": "write a first handler with examples into a new folder",
        "test": "run the examples of handlers' folders and compare their results",
        "dev": "run a handler's folder here, in the sandbox, on its examples",
    },
    "jobs": {
        "job": "add jobs and look after them",
        "results": "list jobs (the same as `functory job list`)",
        "export": "print whole jobs as JSON, one a line: payload, result, log",
    },
    "scoreboard": {"scoreboard": "waiting, running and ended jobs by type"},
    "limits": {"limits": "what the tenant has of what it may have"},
    "queues": {
        "replay": "run finished jobs again, chosen by a filter",
        "cancel": "cancel unfinished jobs, chosen by a filter",
        "delete": "delete finished jobs, chosen by a filter",
        "failures": "failed runs, grouped by their error",
        "timeline": "how many jobs ended in each minute, hour or day",
        "type": "pause and resume types; progress of an indexed queue",
    },
    "rates": {"rate": "rate domains: how many jobs may start per second"},
    "secrets": {"secret": "secrets of a tenant: set, list, delete; keys that seal them (operator)"},
    "alerts": {"alert": "alert rules: be told when jobs fail, wait or stay away"},
    "webhooks": {"webhook": "webhooks: addresses that other services post to without a key"},
    "work": {"work": "take jobs of types that workers serve, and report them"},
    "worker": {"worker": "run Python functions as tasks, until it is asked to stop"},
    "consumers": {"consumer": "work through the jobs of a type by number, none skipped"},
    "operator": {
        "daemon": "the daemons of the store (operator)",
        "audit": "who did what, newest first (operator)",
        "metrics": "figures for Prometheus: of a tenant, or of a daemon (operator)",
    },
    "invoke": {"invoke": "run a handler file once in the sandbox, without a server"},
    "doctor": {"doctor": "attack this machine's sandbox and print the level that held"},
    "settings": {"config": "print the effective settings and where each came from"},
    "journal": {"journal": "look into a journal directory"},
    "backup": {
        "backup": "copy journals, embedded store and keys, also while daemons run",
        "restore": "fill an empty data directory from a backup",
    },
    "migrate": {"migrate": "move all content of a store to another, such as from SQLite to MongoDB"},
    "store": {"store": "look at the store as a whole"},
    "completion": {
        "completion": "print a completion script: source <(functory completion bash)",
        "openapi": "print the description of the HTTP interface",
    },
}
"""The modules of this package that have commands, with their commands and what each does, in the order of the help.
The texts stand here too, so that `--help` need not import everything."""


def main(argv: Sequence[str] | None = None) -> int:
    _make_writable()
    try:
        try:
            return _main(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()  # here, where a closed pipe can still be handled, and not at exit
    except BrokenPipeError:
        # The reader of our output has closed it. Without this the interpreter complains when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _make_writable() -> None:
    """Nothing that is printed fails: where nobody listens it is dropped, and what a terminal cannot show is escaped."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before we began
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (for as long as the program runs)
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _main(argv: Sequence[str]) -> int:
    if argv and argv[0] == "help":
        argv = [*argv[1:], "--help"]
    arguments = make_parser(groups_for(argv)).parse_args(argv)
    run: Callable[[argparse.Namespace], int] = arguments.run
    _show_events()
    try:
        return run(arguments)
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from functory.cli.failures import advice_on, exit_code_of_failure  # noqa: PLC0415 (it knows all errors)

        status = exit_code_of_failure(error)
        if status is None:
            raise
        print(f"functory: {error}", file=sys.stderr)
        if advice := advice_on(error, arguments):
            print(f"functory: {advice}", file=sys.stderr)
        return status


def _show_events() -> None:
    """What a command logs that sets up no logging itself is shown with its fields: Python shows only the event."""
    import logging  # noqa: PLC0415 (not for --help)

    from functory.logs import LineFormatter  # noqa: PLC0415

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(LineFormatter("text"))


def groups_for(argv: Sequence[str]) -> Collection[str]:
    """The group with the command. None for help, for which their names are enough; all for a word that is no
    command, which may be one of another command."""
    word = argv[0] if argv else "--help"
    found = [name for name, commands in GROUPS.items() if word in commands]
    return found if found or word.startswith("-") else GROUPS.keys()


def make_parser(groups: Collection[str] = GROUPS.keys()) -> argparse.ArgumentParser:
    """The parser with the commands of these groups, and the names of all others."""
    parser = CommandParser(prog="functory", description="Multi-tenant function runner on a durable job queue.")
    parser.add_argument("--version", action="version", version=f"functory {functory.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, texts in GROUPS.items():
        if name in groups:
            import_module(f"functory.cli.{name}").add_commands(commands)
        else:
            for command, text in texts.items():
                commands.add_parser(command, help=text)
    return parser
