"""`functory init | test | dev`: a handler's folder on this machine, in the service's sandbox, without a service."""

import argparse
import asyncio
import shlex
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from functory.cli.answers import indented, inert, left_behind
from functory.cli.commands import Commands
from functory.cli.remote import add_remote, open_client
from functory.cli.workbench import Say, Workbench, open_workbench
from functory.errors import FunctoryError, InvalidInput
from functory.folders.examples import FOLDER, Example, differences, read_examples
from functory.folders.local import LocalTrees, look
from functory.folders.packing import check_folder, pack_folder
from functory.folders.starter import LANGUAGES, write_first_handler
from handlers.errors import HandlerError
from runner.errors import RunnerError
from runner.outcome import Stopped

if TYPE_CHECKING:
    from functory.client import Client

_LOOK_EVERY_S: Final = 0.1


def add_commands(commands: Commands) -> None:
    init = commands.add_parser("init", help="write a first handler with examples into a new folder")
    init.add_argument("folder", type=Path, metavar="DIR")
    init.add_argument("--lang", choices=LANGUAGES, default="python", help="default: python")
    init.set_defaults(run=run_init)
    test = commands.add_parser("test", help="run the examples of handlers' folders and compare their results")
    test.add_argument(
        "folders", type=Path, nargs="+", metavar="DIR", help="examples/NAME.payload, NAME.expected, NAME.exitcode"
    )
    test.set_defaults(run=lambda arguments: asyncio.run(run_tests(arguments.folders)))
    dev = commands.add_parser("dev", help="run a handler's folder here, in the sandbox, on its examples")
    dev.add_argument("folder", type=Path, metavar="DIR")
    dev.add_argument("--watch", action="store_true", help="run it again whenever a file is saved")
    dev.add_argument("--follow", action="store_true", help="deploy it to the tenant, too, each time it loads")
    dev.add_argument("--type", help="the type to deploy it as (default: the name of the folder)")
    add_remote(dev, _no_command)
    dev.set_defaults(run=lambda arguments: asyncio.run(run_dev(arguments)))


async def _no_command(_client: "Client", _arguments: argparse.Namespace) -> int:
    raise InvalidInput("`functory dev` runs here")


def run_init(arguments: argparse.Namespace) -> int:
    names = write_first_handler(arguments.folder, arguments.lang)
    print("\n".join(f"{arguments.folder}/{name}" for name in names))
    folder = shlex.quote(str(arguments.folder))
    print(f"\nNext: functory test {folder}    functory dev {folder} --watch")
    return 0


async def run_tests(folders: Sequence[Path], say: Say = print) -> int:
    """Exits 0 if all examples of all folders gave what they expect, 1 if not."""
    status = 0
    for folder in folders:
        if len(folders) > 1:
            say(f"{folder}:")
        status |= await run_test(folder, say)
    return status


async def run_test(folder: Path, say: Say = print) -> int:
    """Exits 0 if all examples gave what they expect, 1 if not."""
    folder = await asyncio.to_thread(check_folder, folder)
    examples = await asyncio.to_thread(read_examples, folder)
    if not examples:
        raise InvalidInput(f"{folder}/{FOLDER} has no example: write NAME.payload and NAME.expected there")
    async with LocalTrees.opened() as trees, open_workbench(say, trees) as bench:
        handler = await bench.load(*await trees.take(folder))
        failed = 0
        for example in examples:
            stopped = await bench.run(handler, example.payload)
            wrong = differences(example, stopped)
            failed += bool(wrong)
            say(f"{'FAILED' if wrong else 'ok    '} {example.name}  {stopped.duration_ms:.1f} ms")
            if wrong:
                say(indented(inert("\n".join(wrong).encode("utf-8", "backslashreplace"))))
                if stopped.noted_log:
                    say("  log:\n" + indented(indented(inert(stopped.noted_log))))
    say(f"{len(examples) - failed} of {len(examples)} examples gave what they expect")
    return 1 if failed else 0


async def run_dev(arguments: argparse.Namespace, say: Say = print) -> int:
    """Exits 1 if the last run was not good; with --watch only when it is ended."""
    folder = await asyncio.to_thread(check_folder, arguments.folder)
    async with AsyncExitStack() as stack:
        deploy: Callable[[], Awaitable[str]] | None = None
        if arguments.follow:
            client = await stack.enter_async_context(open_client(arguments))
            deploy = _deployer(client, folder, arguments.type or folder.name)
        trees = await stack.enter_async_context(LocalTrees.opened())
        bench = await stack.enter_async_context(open_workbench(say, trees))
        seen = await asyncio.to_thread(look, folder)
        is_good = await _round(bench, trees, folder, deploy, say)
        while arguments.watch:
            await asyncio.sleep(_LOOK_EVERY_S)
            now = await asyncio.to_thread(look, folder)
            if now and now != seen:
                changed = sorted(name for name in now.keys() | seen.keys() if now.get(name) != seen.get(name))
                seen = now
                say(f"\n{', '.join(map(repr, changed[:5]))} changed")
                is_good = await _round(bench, trees, folder, deploy, say)
    return 0 if is_good else 1


def _deployer(client: "Client", folder: Path, job_type: str) -> Callable[[], Awaitable[str]]:
    async def deploy() -> str:
        handler = await client.put_folder(job_type, await asyncio.to_thread(pack_folder, folder))
        return f"deployed: {handler.type}, version {handler.version} is active"

    return deploy


async def _round(
    bench: Workbench, trees: LocalTrees, folder: Path, deploy: Callable[[], Awaitable[str]] | None, say: Say
) -> bool:
    """Run the folder on all examples, and deploy it. What is wrong with it is said, and ends nothing."""
    try:
        handler = await bench.load(*await trees.take(folder))
        examples = await asyncio.to_thread(read_examples, folder)
        good = [
            _tell(one, await bench.run(handler, one.payload), say)
            for one in examples or [Example("empty payload", b"")]
        ]
        if deploy is not None:
            say(await deploy())
    except (FunctoryError, HandlerError, RunnerError, OSError) as error:
        say(inert(str(error).encode("utf-8", "backslashreplace")))
        return False
    return all(good)


def _tell(example: Example, stopped: Stopped, say: Say) -> bool:
    wrong = differences(example, stopped)
    say(f"{example.name}: {stopped.exitcode} {stopped.code} in {stopped.duration_ms:.1f} ms")
    for name, data in (("", stopped.result), ("log:\n", stopped.noted_log)):
        if data:
            say(indented(name + inert(data)))
    for line in left_behind(stopped.new_jobs, stopped.carried):
        say(indented(line))
    if wrong and example.expected is not None:
        say(indented("not as expected:\n" + inert("\n".join(wrong).encode("utf-8", "backslashreplace"))))
    return not wrong
