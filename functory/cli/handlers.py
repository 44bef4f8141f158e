"""`functory handler put | get | list | versions | rollback | rm`"""

import argparse
import asyncio
from pathlib import Path

from functory.cli.answers import moment
from functory.cli.commands import Commands
from functory.cli.handlerfile import read_handler
from functory.cli.remote import add_remote, print_json
from functory.cli.table import render_table
from functory.client import Client
from functory.wire.handlers import Handler, HandlerRow


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("handler", help="register and look at handlers")
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    put = actions.add_parser("put", help="register a file as the handler of a type")
    put.add_argument("type")
    put.add_argument("file", type=Path, metavar="FILE", help="the body; its suffix tells the language")
    put.add_argument("--lang", help="the language, if the suffix does not tell")
    put.add_argument("--timeout", type=float, metavar="SECONDS", help="per job")
    put.add_argument("--memory-mb", type=int)
    add_remote(put, run_put)

    get = actions.add_parser("get", help="print the body of a handler")
    get.add_argument("type")
    get.add_argument("--version", type=int, help="an older one")
    add_remote(get, run_get)

    listing = actions.add_parser("list", help="the handlers in force")
    add_remote(listing, run_list)
    for name, run, text in (("versions", run_versions, "all kept versions"), ("rm", run_remove, "put none in force")):
        action = actions.add_parser(name, help=text)
        action.add_argument("type")
        add_remote(action, run)

    rollback = actions.add_parser("rollback", help="put an older version in force again")
    rollback.add_argument("type")
    rollback.add_argument("version", type=int)
    add_remote(rollback, run_rollback)


async def run_put(client: Client, arguments: argparse.Namespace) -> int:
    limits = {"timeout_s": arguments.timeout, "memory_mb": arguments.memory_mb}
    given = {name: value for name, value in limits.items() if value is not None}
    handler = await asyncio.to_thread(read_handler, arguments.file, arguments.lang, **given)
    put = await client.put_handler(arguments.type, handler.lang, handler.body, **given)
    _tell(put, as_json=arguments.json)
    return 0


async def run_get(client: Client, arguments: argparse.Namespace) -> int:
    handler = await client.get_handler(arguments.type, version=arguments.version)
    print_json(handler) if arguments.json else print(handler.handler["body"])
    return 0


async def run_list(client: Client, arguments: argparse.Namespace) -> int:
    answer = await client.list_handlers()
    print_json(answer) if arguments.json else print(_table(answer.handlers))
    return 0


async def run_versions(client: Client, arguments: argparse.Namespace) -> int:
    answer = await client.list_versions(arguments.type)
    print_json(answer) if arguments.json else print(_table(answer.handlers))
    return 0


async def run_rollback(client: Client, arguments: argparse.Namespace) -> int:
    _tell(await client.roll_back(arguments.type, arguments.version), as_json=arguments.json)
    return 0


async def run_remove(client: Client, arguments: argparse.Namespace) -> int:
    await client.delete_handler(arguments.type)
    print_json({"ok": True}) if arguments.json else print(f"{arguments.type} has no handler now")
    return 0


def _tell(handler: Handler, *, as_json: bool) -> None:
    print_json(handler) if as_json else print(f"{handler.type}: version {handler.version} is in force")


def _table(rows: list[HandlerRow]) -> str:
    headers = ["type", "version", "lang", "bytes", "since", "in force"]
    return render_table(
        headers,
        [(r.type, r.version, r.lang, r.size_bytes, moment(r.created_ms), "yes" if r.current else "") for r in rows],
    )
