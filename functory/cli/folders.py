"""`functory deploy DIR`: register a folder as the handler of a type."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from functory.cli.commands import Commands
from functory.cli.progress import StepLine
from functory.cli.remote import add_remote

if TYPE_CHECKING:
    from functory.client import Client


def add_commands(commands: Commands) -> None:
    deploy = commands.add_parser("deploy", help="register a folder as the handler of a type")
    deploy.add_argument("folder", type=Path, metavar="DIR", help="an entry file (main.py, ...), and what it needs")
    deploy.add_argument("--type", help="the type (default: the name of the folder)")
    deploy.add_argument("--upgrade", action="store_true", help="resolve the packages that it asks for anew")
    add_remote(deploy, run_deploy)


async def run_deploy(client: "Client", arguments: argparse.Namespace) -> int:
    import asyncio  # noqa: PLC0415 (not for the parser)

    from functory.cli.handler_file import named_files  # noqa: PLC0415
    from functory.cli.handlers import hint_at_targets, tell_active  # noqa: PLC0415
    from functory.errors import InvalidInput  # noqa: PLC0415
    from functory.folders.packing import check_folder, pack_folder  # noqa: PLC0415
    from vocabulary.names import TYPE_RULE, is_type  # noqa: PLC0415

    folder = await asyncio.to_thread(check_folder, arguments.folder)
    packed = await asyncio.to_thread(pack_folder, folder)
    name = arguments.type or folder.name
    if not arguments.type and not is_type(name):
        raise InvalidInput(f"The name of the folder, {name!r}, is not a type ({TYPE_RULE}). Name one with --type.")
    with StepLine() as line, named_files({"body": f"the entry file of {arguments.folder}"}):
        handler = await client.put_folder(name, packed, upgrade=arguments.upgrade, tell=line.show)
    status = tell_active(arguments, handler)
    await hint_at_targets(client, [handler.handler.get("then"), handler.handler.get("on_failure")])
    return status
