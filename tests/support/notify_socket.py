"""The service manager's end of the notification protocol: a real datagram socket, and what arrived on it."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

_TIMEOUT_S: Final = 60.0


class Heard(asyncio.DatagramProtocol):
    """Every datagram as the lines that it had, in their order."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.messages: list[list[str]] = []
        self._news = asyncio.Event()

    def datagram_received(self, data: bytes, addr: object) -> None:
        self.messages.append(data.decode().split("\n"))
        self._news.set()

    def lines(self) -> list[str]:
        return [line for message in self.messages for line in message]

    def forget(self) -> None:
        self.messages.clear()

    async def hears(self, start: str) -> str:
        """The first line that begins so; one that was heard before will do."""
        async with asyncio.timeout(_TIMEOUT_S):
            while True:
                for line in self.lines():
                    if line.startswith(start):
                        return line
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def notify_socket(directory: Path | None = None) -> AsyncIterator[Heard]:
    """At a path in the directory, or without one at an abstract name."""
    address = f"@functory-test-{secrets.token_hex(8)}" if directory is None else str(directory / "notify")
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.setblocking(False)
    receiver.bind("\0" + address[1:] if directory is None else address)
    heard = Heard(address)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: heard, sock=receiver)
    try:
        yield heard
    finally:
        transport.close()
