"""The other end of notifier.py: what the parent of several daemons hears from each of them."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from functory.supervision.notifier import SOCKET_VARIABLE, WATCHDOG_VARIABLE, socket_name


class ChildReports(asyncio.DatagramProtocol):
    """Reports of one child. Others cannot know the socket's name: it is random, and only the child is told."""

    def __init__(self, address: str, monotonic_s: Callable[[], float]) -> None:
        self._address = address
        self._monotonic_s = monotonic_s
        self._heard_s = 0.0
        self.ready = asyncio.Event()

    def environment(self, watchdog_s: float | None) -> dict[str, str]:
        """Variables for the child's environment."""
        watchdog = {WATCHDOG_VARIABLE: str(round(watchdog_s * 1e6))} if watchdog_s is not None else {}
        return {SOCKET_VARIABLE: self._address, **watchdog}

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002 (asyncio's signature)
        lines = data.split(b"\n")
        if b"READY=1" in lines or b"WATCHDOG=1" in lines:
            self._heard_s = self._monotonic_s()
        if b"READY=1" in lines:
            self.ready.set()

    async def silence(self, longer_than_s: float) -> None:
        """Wait until the child has been silent for this long."""
        while (left_s := self._heard_s + longer_than_s - self._monotonic_s()) > 0:  # noqa: ASYNC110 (each report moves it)
            await asyncio.sleep(left_s)


@asynccontextmanager
async def listen_to_child(monotonic_s: Callable[[], float]) -> AsyncIterator[ChildReports]:
    address = f"@functory-{secrets.token_hex(16)}"
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    receiver.setblocking(False)
    receiver.bind(socket_name(address))
    reports = ChildReports(address, monotonic_s)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: reports, sock=receiver)
    try:
        yield reports
    finally:
        transport.close()
