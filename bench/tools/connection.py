"""A minimal HTTP/1.1 client for load generators: requests are prepared bytes, a response is its body.

The client shares two cores with what it measures, so it must be cheap.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

_MOST_ANSWER_BYTES = 1 << 24


class Refused(Exception):
    """The server did not respond with success."""


def message(method: str, path: str, key: str, body: bytes = b"", content_type: str = "text/plain") -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Connection:
    """One kept connection: a request, its response, the next."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def exchange(self, request: bytes) -> bytes:
        """Returns the body of the response. Raises Refused."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        at = head.index(b"Content-Length: ") + 16
        body = await self._reader.readexactly(int(head[at : head.index(b"\r", at)]))
        if not head.startswith(b"HTTP/1.1 2"):
            raise Refused(f"{request[:80]!r} got {head[:40]!r}: {body[:300]!r}")
        return body


@asynccontextmanager
async def connect(port: int) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_MOST_ANSWER_BYTES)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def connect_many(port: int, count: int) -> AsyncIterator[list[Connection]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(connect(port)) for _ in range(count)]
