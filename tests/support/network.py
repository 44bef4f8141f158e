"""Daemons and workers in network namespaces of their own, each on a link that can be cut or made slow.

A namespace has one veth to this one. What its side wants to reach listens on loopback here, so each link ends in a
small relay at this end: it delays what passes (the kernel's netem is not everywhere). A cut is the link going down:
packets vanish without a word, as with a pulled cable, and nobody gets an error before a timeout.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from ipaddress import IPv4Address
from typing import Final

from tests.support.needs import missing, need_command

_PIECE_BYTES: Final = 65_536
_FIRST: Final = IPv4Address("198.18.0.0")
"""Of the addresses that are set aside for tests of networks: 32,768 nets of four."""
_PROCESSES: Final = 4096
_LINKS: Final = 8
"""Of one process. Tests run side by side, and two links with the same addresses would mix up their packets."""


def need_namespaces() -> None:
    """Skips the test, or fails it in CI, where namespaces cannot be made."""
    need_command("ip", "iproute2")
    if os.geteuid() != 0:
        missing("root", "run this test as root: it makes network namespaces")


def can_make_namespaces() -> bool:
    return shutil.which("ip") is not None and os.geteuid() == 0


class Link:
    """From here to one namespace. `here` and `there` are the addresses of its ends."""

    def __init__(self, number: int) -> None:
        assert number < _LINKS
        net = _FIRST + 4 * (os.getpid() % _PROCESSES * _LINKS + number)
        self.name = f"ft{os.getpid()}-{number}"
        self._device = f"ft{os.getpid() % 100_000}v{number}"
        self.here = str(net + 1)
        self.there = str(net + 2)
        self.delay_s = 0.0
        self._server: asyncio.Server | None = None
        self._pumps: set[asyncio.Task[None]] = set()

    @property
    def prefix(self) -> list[str]:
        """Put before a command to run it on the other side."""
        return ["ip", "netns", "exec", self.name]

    async def up(self, upstream: tuple[str, int]) -> int:
        """Make it, and relay to the upstream; the port at this end."""
        await asyncio.to_thread(self._make)
        self._server = await asyncio.start_server(lambda r, w: self._relay(r, w, upstream), self.here, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def down(self) -> None:
        if self._server is not None:
            self._server.close()
        for pump in list(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        await asyncio.to_thread(self._remove)

    async def cut(self) -> None:
        await asyncio.to_thread(_ip, "link", "set", self._device, "down")

    async def mend(self) -> None:
        await asyncio.to_thread(_ip, "link", "set", self._device, "up")

    def _make(self) -> None:
        _ip("netns", "add", self.name)
        _ip("link", "add", self._device, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        _ip("address", "add", f"{self.here}/30", "dev", self._device)
        _ip("link", "set", self._device, "up")
        for arguments in (
            ["address", "add", f"{self.there}/30", "dev", "eth0"],
            ["link", "set", "eth0", "up"],
            ["link", "set", "lo", "up"],
        ):
            _ip("-netns", self.name, *arguments)

    def _remove(self) -> None:
        with suppress(subprocess.CalledProcessError):
            _ip("link", "del", self._device)
        with suppress(subprocess.CalledProcessError):
            _ip("netns", "del", self.name)

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: tuple[str, int]
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pumps.add(task)
        try:
            from_server, to_server = await asyncio.open_connection(*upstream)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pump(reader, to_server))
                    both.create_task(self._pump(from_server, writer))
            finally:
                to_server.close()
        except* (ConnectionError, asyncio.CancelledError):
            pass  # one side went away, which is what this is about
        finally:
            writer.close()
            self._pumps.discard(task)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while piece := await source.read(_PIECE_BYTES):
            if self.delay_s:
                await asyncio.sleep(self.delay_s)  # the slow link itself, not a wait of the test
            sink.write(piece)
            await sink.drain()
        raise ConnectionResetError("the other side hung up")


@asynccontextmanager
async def links(count: int, upstream: tuple[str, int]) -> AsyncIterator[list[tuple[Link, int]]]:
    """So many namespaces; with each the port at which its side reaches the upstream."""
    made: list[Link] = []
    try:
        ends = []
        for number in range(count):
            link = Link(number)
            made.append(link)
            ends.append((link, await link.up(upstream)))
        yield ends
    finally:
        for link in made:
            await link.down()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
