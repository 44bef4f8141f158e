"""Commands that talk to a server: its address and key, a client for the length of a command, answers as JSON.

The parsers of these commands are made for every `--help`, so this module and those that use it import the client, the
event loop and the codec only when a command runs.
"""

import argparse
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from functory.cli.arguments import decoded
from functory.cli.table import render_table
from functory.errors import InvalidInput
from functory.wire.server_url import DEFAULT_URL

if TYPE_CHECKING:
    from functory.client import Client

Remote = Callable[["Client", argparse.Namespace], Awaitable[int]]

_PATIENCE_S: Final = 90.0


def add_remote(
    parser: argparse.ArgumentParser, run: Remote, *, tenant: bool = True, key: bool = True, json: bool = True
) -> None:
    """Add the flags that all such commands have, and what the command does. json: it can print what was answered."""
    group = parser.add_argument_group("server")
    default = os.environ.get("FUNCTORY_URL", DEFAULT_URL)
    group.add_argument("--url", default=default, help=f"default: FUNCTORY_URL, or {DEFAULT_URL}")
    if key:
        group.add_argument("--key", default=os.environ.get("FUNCTORY_KEY"), help="your API key (default: FUNCTORY_KEY)")
        group.add_argument("--key-file", type=Path, metavar="FILE", help="read the key from this file")
    if tenant:
        group.add_argument("--tenant", default=os.environ.get("FUNCTORY_TENANT"), help="default: FUNCTORY_TENANT")
    if json:
        parser.add_argument("--json", action="store_true", help="print the server's response as JSON")

    def run_it(arguments: argparse.Namespace) -> int:
        import asyncio  # noqa: PLC0415 (see above)

        return asyncio.run(_run(run, arguments, needs_tenant=tenant, needs_key=key))

    parser.set_defaults(run=run_it)


@asynccontextmanager
async def open_client(arguments: argparse.Namespace) -> "AsyncIterator[Client]":
    """A client by the flags that `add_remote` gives. Raises InvalidInput when one is missing."""
    from functory.client import Client  # noqa: PLC0415 (see above)

    key = await _key(arguments)
    if not arguments.tenant:
        raise InvalidInput("No tenant. Set FUNCTORY_TENANT, or use --tenant.")
    async with Client(arguments.url, key, arguments.tenant) as client:
        yield client


async def _run(run: Remote, arguments: argparse.Namespace, *, needs_tenant: bool, needs_key: bool) -> int:
    from functory.client import Client  # noqa: PLC0415 (see above)

    key = await _key(arguments) if needs_key else ""
    if needs_tenant and not arguments.tenant:
        raise InvalidInput("No tenant. Set FUNCTORY_TENANT, or use --tenant.")
    timeout_s = getattr(arguments, "patience_s", _PATIENCE_S)
    async with Client(arguments.url, key, arguments.tenant if needs_tenant else "", timeout_s=timeout_s) as client:
        return await run(client, arguments)


async def _key(arguments: argparse.Namespace) -> str:
    import aiofiles  # noqa: PLC0415 (see above)

    key = arguments.key or ""
    if arguments.key_file is not None:
        async with aiofiles.open(arguments.key_file, "rb") as file:
            key = decoded(await file.read(), str(arguments.key_file)).strip()
        if len(key.split()) > 1:
            raise InvalidInput(f"{arguments.key_file} has more in it than a key: it must have the key alone, fk_...")
    if not key:
        raise InvalidInput("No key. Set FUNCTORY_KEY, or use --key or --key-file.")
    return key


def print_json(answer: object) -> None:
    import json  # noqa: PLC0415 (see above)

    import msgspec  # noqa: PLC0415

    print(json.dumps(msgspec.to_builtins(answer), indent=2))


def show(arguments: argparse.Namespace, answer: object, text: str) -> int:
    """Print the answer as the user wants it. Returns the exit code of a command that worked."""
    print_json(answer) if arguments.json else print(text)
    return 0


def show_table(
    arguments: argparse.Namespace, answer: object, headers: Sequence[str], rows: Sequence[Sequence[Any]], empty: str
) -> int:
    """As `show`. `empty` is what to say, on standard error, when there is no row."""
    if not rows and not arguments.json:
        print(empty, file=sys.stderr)
        return 0
    return show(arguments, answer, render_table(headers, rows))
