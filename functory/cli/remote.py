"""Commands that talk to a server: its address and key, the client for the length of a command, answers as JSON."""

import argparse
import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from functory.client import Client
from functory.errors import InvalidInput

Remote = Callable[[Client, argparse.Namespace], Awaitable[int]]


def add_remote(parser: argparse.ArgumentParser, run: Remote, *, tenant: bool = True) -> None:
    """The flags that every such command has, and what it does."""
    group = parser.add_argument_group("server")
    group.add_argument("--url", default=os.environ.get("FUNCTORY_URL", "http://127.0.0.1:8484"), help="FUNCTORY_URL")
    group.add_argument("--key", default=os.environ.get("FUNCTORY_KEY"), help="FUNCTORY_KEY; or --key-file")
    group.add_argument("--key-file", type=Path, metavar="FILE", help="read the key from this file")
    if tenant:
        group.add_argument("--tenant", default=os.environ.get("FUNCTORY_TENANT"), help="FUNCTORY_TENANT")
    parser.add_argument("--json", action="store_true", help="the server's answer as JSON")

    def run_it(arguments: argparse.Namespace) -> int:
        return asyncio.run(_run(run, arguments, needs_tenant=tenant))

    parser.set_defaults(run=run_it)


async def _run(run: Remote, arguments: argparse.Namespace, *, needs_tenant: bool) -> int:
    key = arguments.key
    if arguments.key_file is not None:
        key = (await asyncio.to_thread(arguments.key_file.read_text)).strip()
    if not key:
        raise InvalidInput("no key: set FUNCTORY_KEY, or say --key or --key-file")
    if needs_tenant and not arguments.tenant:
        raise InvalidInput("no tenant: set FUNCTORY_TENANT, or say --tenant")
    async with Client(arguments.url, key, arguments.tenant if needs_tenant else "") as client:
        return await run(client, arguments)


def print_json(answer: object) -> None:
    print(json.dumps(msgspec.to_builtins(answer), indent=2))
