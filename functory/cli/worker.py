"""`functory worker module:worker`: run the tasks of a Python module until it is asked to stop (docs/workers.md)."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import functory
from functory.cli.arguments import decoded, positive
from functory.cli.commands import Commands
from functory.wire.server_url import DEFAULT_URL

if TYPE_CHECKING:
    from functory.queue.worker import Worker

_RESERVED: Final = ("functory", "handlers", "journal", "runner", "scheduler", "store", "vocabulary")
"""The names of our own packages: a program in the same process cannot have modules of these names."""


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("worker", help="run Python functions as tasks, until it is asked to stop")
    parser.add_argument("module", metavar="MODULE:NAME", help="where the worker is, such as tasks:worker")
    parser.add_argument("--concurrency", type=positive, default=1, metavar="N", help="jobs at once (default: 1)")
    parser.add_argument(
        "--name", default="", help="as the list of workers shows it (default: host, process and a random part)"
    )
    parser.add_argument("--lease-s", type=float, metavar="SECONDS", help="of each job (default: the type's)")
    parser.add_argument(
        "--grace-s", type=float, default=30.0, metavar="SECONDS", help="for running jobs at a stop (default: 30)"
    )
    group = parser.add_argument_group("server")
    default = os.environ.get("FUNCTORY_URL", DEFAULT_URL)
    group.add_argument("--url", default=default, help=f"a server or a store; default: FUNCTORY_URL, or {DEFAULT_URL}")
    group.add_argument("--key", help="of a server; default: FUNCTORY_KEY")
    group.add_argument("--key-file", type=Path, metavar="FILE", help="read the key from this file")
    group.add_argument("--tenant", help="default: FUNCTORY_TENANT for a server, main for a store")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    import asyncio  # noqa: PLC0415 (the parser is made for every --help)

    is_server = arguments.url.startswith(("http://", "https://"))  # the variables tell of a server, and not of a store
    environ = os.environ if is_server else {}
    tenant = environ.get("FUNCTORY_TENANT", "") if arguments.tenant is None else arguments.tenant
    key = environ.get("FUNCTORY_KEY", "") if arguments.key is None else arguments.key
    if arguments.key_file:
        key = decoded(arguments.key_file.read_bytes(), str(arguments.key_file)).strip()
    asyncio.run(_run(load_worker(arguments.module), arguments, key, tenant))
    return 0


def load_worker(text: str) -> "Worker":
    """Import it from the current folder, or from where Python finds modules. Raises InvalidInput."""
    from importlib import import_module  # noqa: PLC0415

    from functory.errors import InvalidInput  # noqa: PLC0415
    from functory.queue.worker import Worker  # noqa: PLC0415

    module, _, name = text.partition(":")
    if not module or module.startswith("."):
        raise InvalidInput(f"{text!r} is not MODULE:NAME, such as tasks:worker")
    _check_names(Path.cwd())
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(import_module(module), name or "worker", None)
    except ModuleNotFoundError as error:
        why = f"there is no module {error.name} in this folder or on the path"
        if error.name is not None and error.name.partition(".")[0] in _RESERVED:
            why += f". {_rule()}"
        raise InvalidInput(f"{text}: {why}") from error
    if not isinstance(found, Worker):
        raise InvalidInput(f"{text}: {module} has no Worker of that name; write worker = functory.queue.Worker()")
    return found


def _check_names(folder: Path) -> None:
    """Raises InvalidInput if a module of the folder and a package of ours would be taken for each other."""
    from importlib.machinery import PathFinder  # noqa: PLC0415

    from functory.errors import InvalidInput  # noqa: PLC0415

    if folder == Path(functory.__file__).resolve().parents[1]:
        return  # the modules are our own
    for name in _RESERVED:
        found = PathFinder.find_spec(name, [str(folder)])
        if found is not None and found.origin is not None:  # otherwise a folder without __init__.py: ours goes first
            raise InvalidInput(f"{found.origin} cannot have that name. {_rule()}")


def _rule() -> str:
    return f"Functory's own packages are {', '.join(_RESERVED)}: rename yours"


async def _run(worker: "Worker", arguments: argparse.Namespace, key: str, tenant: str) -> None:
    import asyncio  # noqa: PLC0415
    import signal  # noqa: PLC0415

    from functory.logs import configure_logging  # noqa: PLC0415
    from functory.queue.opening import open_queue  # noqa: PLC0415

    configure_logging("text", has_traces_below=True)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, worker.stop)
    os.register_at_fork(after_in_child=_handle_no_signals)
    async with open_queue(
        arguments.url, key=key, tenant=tenant, name=arguments.name, lease_s=arguments.lease_s
    ) as queue:
        await worker.run(
            queue,
            concurrency=arguments.concurrency,
            grace_s=arguments.grace_s,
            begun=lambda: print(f"Working on {', '.join(worker.types)}.", file=sys.stderr, flush=True),
        )
    print("Stopped.", file=sys.stderr)


def _handle_no_signals() -> None:
    """In a process that a task forks, as `multiprocessing.Pool` does: it shares the socket by which signals wake the
    loop, so one that is sent to it would stop the worker."""
    import signal  # noqa: PLC0415

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
