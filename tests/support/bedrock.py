"""A daemon inside the test's own event loop that serves the protocol of Bedrock::Jobs, and a client of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from functory.bedrock.listener import BedrockListener
from functory.bedrock.settings import BedrockSettings
from functory.operations.keys import create_key
from functory.web.app import WEB, make_app
from functory.web.http.settings import WebSettings
from tests.support.stores import back_end_params
from tests.support.workers import Shop, open_shop
from vocabulary.clock import Clock

on_every_store: Final = pytest.mark.parametrize("bedrock", back_end_params(), indirect=True)
"""For a test of commands whose steps differ from store to store."""


class Reply(NamedTuple):
    status: int
    reason: str
    json: Any = None
    raw: bytes = b""


class Session:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, command: str, **parameters: object) -> None:
        lines = [command, *(f"{name}: {value}" for name, value in parameters.items()), "", ""]
        self.writer.write("\n".join(lines).encode())

    def send_bytes(self, data: bytes) -> None:
        self.writer.write(data)

    async def reply(self) -> Reply:
        """The next answer."""
        async with asyncio.timeout(60):
            raw = await self.reader.readuntil(b"\n")
            status, _, reason = raw.decode().strip().removeprefix("HTTP/1.1 ").partition(" ")
            size = 0
            while (line := await self.reader.readuntil(b"\n")).strip():
                raw += line
                name, _, value = line.decode().partition(":")
                if name.lower() == "content-length":
                    size = int(value)
            raw += line
            body = await self.reader.readexactly(size)
            return Reply(int(status), reason, json.loads(body) if body else None, raw + body)

    async def ask(self, command: str, **parameters: object) -> Reply:
        self.send(command, **parameters)
        return await self.reply()

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        async with asyncio.timeout(60):
            return await self.reader.read()

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


class Bedrock:
    def __init__(self, shop: Shop, listener: BedrockListener) -> None:
        self.shop = shop
        self.listener = listener

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        session = Session(*await asyncio.open_connection("127.0.0.1", self.listener.port))
        try:
            yield session
        finally:
            await session.close()


async def key_of(bedrock: Bedrock, tenant: str = "acme", *scopes: str) -> str:
    """What a request says with a new key of the tenant."""
    _, key = await create_key(bedrock.shop.service, "test", tenant, scopes=scopes or None)
    return f"Bearer {key}"


@asynccontextmanager
async def open_bedrock(
    folder: Path, clock: Clock | None = None, settings: BedrockSettings | None = None, **more: str
) -> AsyncIterator[Bedrock]:
    """The tenant acme needs no key, unless the settings say otherwise."""
    async with open_shop(folder, clock, is_new=True, **more) as shop:
        web = make_app(shop.service, WebSettings())[WEB]
        chosen = replace(settings or BedrockSettings(tenant="acme"), port=0)
        listener = BedrockListener(web, chosen)
        await listener.start()
        try:
            yield Bedrock(shop, listener)
        finally:
            await listener.stop()
