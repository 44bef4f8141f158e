"""One end of a connection: what arrives is handed on at once, and while it cannot be, nothing is read."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from functory.egress.connection import Connection

PIECE_BYTES: Final = 64 * 1024
_BUFFER: Final = memoryview(bytearray(PIECE_BYTES))
"""One for all: it is filled and emptied within one step of the event loop."""


class Side(asyncio.BufferedProtocol):
    """One end. It reads while nothing holds it."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._holds: set[str] = set()
        self.transport: asyncio.Transport | None = None
        self.has_ended = False
        self._resting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=0)  # one piece at a time
        self.transport = transport
        if self._holds:
            transport.pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 (the protocol's)
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        self._connection.received(self, bytes(_BUFFER[:nbytes]))

    def eof_received(self) -> bool:
        self.has_ended = True
        self._connection.ended(self)
        return True  # the other direction goes on

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (how it ended is nobody's business)
        self.transport = None
        self._connection.lost(self)

    def pause_writing(self) -> None:
        self._connection.other(self).hold("full")

    def resume_writing(self) -> None:
        self._connection.other(self).let_go("full")

    def hold(self, why: str) -> None:
        self._holds.add(why)
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def let_go(self, why: str) -> None:
        self._holds.discard(why)
        if not self._holds and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def rest(self, for_s: float) -> None:
        """Read nothing for so long, from now on."""
        if self._resting is not None:
            self._resting.cancel()
        self._resting = asyncio.get_running_loop().call_later(for_s, self.let_go, "pace")
        self.hold("pace")

    def write(self, data: bytes) -> None:
        if data and self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def end(self) -> None:
        """No more bytes go to this side."""
        if self.transport is not None and not self.transport.is_closing():
            with contextlib.suppress(OSError):
                self.transport.write_eof()

    def close(self) -> None:
        """Close it when what was written has been sent."""
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
