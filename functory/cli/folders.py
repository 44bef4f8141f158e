"""`functory deploy DIR...`: register folders as the handlers of their types."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from functory.cli.commands import Commands
from functory.cli.progress import StepLine
from functory.cli.remote import add_remote

if TYPE_CHECKING:
    from functory.client import Client


def add_commands(commands: Commands) -> None:
    deploy = commands.add_parser("deploy", help="register folders as the handlers of their types")
    deploy.add_argument(
        "folders", type=Path, nargs="+", metavar="DIR", help="an entry file (main.py, ...), and what it needs"
    )
    deploy.add_argument("--type", help="the type, of one folder (default: the name of the folder)")
    deploy.add_argument(
        "--settings", metavar="NAME", help="the file of the folder in place of its functory.toml: production.toml"
    )
    deploy.add_argument("--upgrade", action="store_true", help="resolve the packages that it asks for anew")
    add_remote(deploy, run_deploy)


class _Packed(NamedTuple):
    """A folder that is ready to be sent."""

    folder: Path
    type_name: str
    archive: bytes


async def run_deploy(client: "Client", arguments: argparse.Namespace) -> int:
    """All are packed before the first is sent: what is wrong here leaves every type as it is."""
    import asyncio  # noqa: PLC0415 (not for the parser)

    from functory.errors import InvalidInput  # noqa: PLC0415

    if arguments.type and len(arguments.folders) > 1:
        raise InvalidInput("--type is the type of one folder: leave it out, or deploy them one by one")
    packed = [await asyncio.to_thread(_pack, folder, arguments) for folder in arguments.folders]
    for one in packed:
        await _deploy(client, arguments, one)
    return 0


def _pack(folder: Path, arguments: argparse.Namespace) -> _Packed:
    from functory.errors import InvalidInput  # noqa: PLC0415
    from functory.folders.packing import check_folder, pack_folder  # noqa: PLC0415
    from handlers.folders.project import PROJECT_FILE  # noqa: PLC0415
    from vocabulary.names import TYPE_RULE, is_type  # noqa: PLC0415

    place = check_folder(folder)
    name = arguments.type or place.name
    if not arguments.type and not is_type(name):
        raise InvalidInput(f"The name of the folder, {name!r}, is not a type ({TYPE_RULE}). Name one with --type.")
    if inner := _handlers_below(place):
        command = f"functory deploy {' '.join(shlex.quote(str(folder / it)) for it in inner)}"
        raise InvalidInput(f"{folder} has no entry file of its own, its folders have: {command}")
    return _Packed(folder, name, pack_folder(place, arguments.settings or PROJECT_FILE))


def _handlers_below(folder: Path) -> list[str]:
    """Folders in a folder that are handlers, if it is none itself."""
    from handlers.folders.project import PROJECT_FILE  # noqa: PLC0415
    from handlers.languages import LANGUAGE_OF_ENTRY  # noqa: PLC0415

    marks = [PROJECT_FILE, *(f"main{suffix}" for suffix in LANGUAGE_OF_ENTRY)]
    if any((folder / mark).exists() for mark in marks):
        return []
    return sorted(it.name for it in folder.iterdir() if any((it / mark).is_file() for mark in marks))


async def _deploy(client: "Client", arguments: argparse.Namespace, packed: _Packed) -> None:
    from functory.cli.handler_file import named_files  # noqa: PLC0415
    from functory.cli.handlers import hint_at_domain, hint_at_targets, tell_active  # noqa: PLC0415
    from functory.errors import FunctoryError  # noqa: PLC0415

    try:
        with StepLine() as line, named_files({"body": f"the entry file of {packed.folder}"}):
            handler = await client.put_folder(
                packed.type_name, packed.archive, upgrade=arguments.upgrade, tell=line.show
            )
    except FunctoryError:
        if len(arguments.folders) > 1:
            print(f"{packed.folder} is not deployed, and none after it:", file=sys.stderr)
        raise
    tell_active(arguments, handler)
    await hint_at_targets(client, [handler.handler.get("then"), handler.handler.get("on_failure")])
    await hint_at_domain(client, handler.handler.get("domain"))
