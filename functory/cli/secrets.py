"""`functory secret set | list | delete`, and for the operator `new-key | rekey`.

A value is never an argument: arguments are in the shell's history and in the list of processes.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from functory.cli.answers import counted, moment
from functory.cli.arguments import decoded
from functory.cli.commands import Commands
from functory.cli.remote import add_remote, show, show_table
from functory.cli.settings import add_settings, config_of
from functory.errors import InvalidInput

if TYPE_CHECKING:
    from functory.client import Client
    from functory.config import Settings
    from functory.vault.vault import Resealed


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser(
        "secret", help="secrets of a tenant: set, list, delete; keys that seal them (operator)"
    )
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    put = actions.add_parser("set", help="set or rotate a secret; its value comes from standard input or a file")
    put.add_argument("name")
    put.add_argument("--file", type=Path, metavar="FILE", help="read the value from this file, all of it")
    add_remote(put, run_set)
    add_remote(actions.add_parser("list", help="names and versions; values are never shown"), run_list)
    remove = actions.add_parser("delete", aliases=["rm"], help="delete a secret")
    remove.add_argument("name")
    add_remote(remove, run_delete)
    new = actions.add_parser("new-key", help="print a line for the file of keys that seal secrets (operator)")
    new.set_defaults(run=run_new_key)
    rekey = actions.add_parser(
        "rekey",
        help="seal all secrets of the store anew with the first key of the key file (operator)",
        description="Run it where the store and the key file can be reached, after every daemon was restarted with a"
        " key file that has the new key first. Then the old keys can be removed from the file.",
    )
    rekey.add_argument("--json", action="store_true", help="one JSON object")
    add_settings(rekey, "data_dir", "store", "secrets_key_file")
    rekey.set_defaults(run=run_rekey)


async def run_set(client: "Client", arguments: argparse.Namespace) -> int:
    value = await _read_value(arguments.file)
    secret = await client.set_secret(arguments.name, value)
    return show(arguments, secret, f"{secret.name} is set, version {secret.version}. The next batch uses it.")


async def run_list(client: "Client", arguments: argparse.Namespace) -> int:
    answer = await client.list_secrets()
    rows = [(row.name, row.version, moment(row.set_ms), row.author) for row in answer.secrets]
    return show_table(arguments, answer, ["name", "version", "set", "by key"], rows, "No secrets.")


async def run_delete(client: "Client", arguments: argparse.Namespace) -> int:
    await client.delete_secret(arguments.name)
    return show(arguments, {"ok": True}, f"{arguments.name} is deleted.")


def run_new_key(_: argparse.Namespace) -> int:
    from functory.vault.key_file import new_key_line  # noqa: PLC0415 (not for the parser)

    print(new_key_line())
    return 0


def run_rekey(arguments: argparse.Namespace) -> int:
    import asyncio  # noqa: PLC0415 (not for the parser)
    import json  # noqa: PLC0415

    from functory.statuses import exit_code_of_status  # noqa: PLC0415

    done, left = asyncio.run(_rekey(config_of(arguments).settings))
    if arguments.json:
        places = [{"tenant": secret.tenant, "name": secret.name, "key": secret.key_id} for secret in left]
        print(json.dumps({"resealed": done, "not_opened": places}))
    else:
        told = ", ".join(f"{secret.tenant}/{secret.name} (key {secret.key_id})" for secret in left)
        print(f"{counted(done, 'secret')} sealed anew" + (f"; not opened: {told}" if left else "."))
    return exit_code_of_status(503) if left else 0


async def _rekey(settings: "Settings") -> "Resealed":
    from functory.transfer.migrate import require_store  # noqa: PLC0415 (not for the parser)
    from functory.vault.place import key_place  # noqa: PLC0415
    from functory.vault.vault import Vault  # noqa: PLC0415
    from store.url import open_store  # noqa: PLC0415

    await require_store(settings.store_url)
    async with open_store(settings.store_url) as store:
        return await Vault(store, key_place(settings)).rekey()


async def _read_value(file: Path | None) -> str:
    """A last newline is the editor's or echo's, and no part of the value."""
    import asyncio  # noqa: PLC0415 (not for the parser)

    from functory.cli.standard_input import read_all, read_unseen  # noqa: PLC0415

    if file is not None:
        value = decoded(await asyncio.to_thread(file.read_bytes), str(file))
    elif sys.stdin is not None and sys.stdin.isatty():
        value = decoded(await read_unseen("Value (not shown): "), "the value")
    else:
        value = decoded(await read_all(), "standard input")
    value = value.removesuffix("\n").removesuffix("\r")
    if not value:
        raise InvalidInput("No value: give it on standard input, or with --file.")
    return value
