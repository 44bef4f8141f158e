"""Server-sent events as a stream of bytes brings them, however it is cut."""

from collections.abc import AsyncIterable, AsyncIterator
from typing import NamedTuple


class ServerEvent(NamedTuple):
    name: str
    data: bytes


class EventReader:
    """The events of this server: a name, and one line of data. Comments are left out."""

    def __init__(self, parts: AsyncIterable[bytes]) -> None:
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[ServerEvent]:
        name = ""
        async for line in self._lines():
            if line.startswith(b"event: "):
                name = line[7:].decode("utf-8", "replace")
            elif line.startswith(b"data: "):
                yield ServerEvent(name, line[6:])

    async def _lines(self) -> AsyncIterator[bytes]:
        """Of any length: an answer of many megabytes is one."""
        begun: list[bytes] = []
        async for part in self._parts:
            *whole, rest = part.split(b"\n")
            for line in whole:
                yield b"".join([*begun, line])
                begun.clear()
            if rest:
                begun.append(rest)
