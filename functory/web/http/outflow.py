"""Large answers on their way out: in pieces, as fast as the client reads, and not many at once.

An answer that a client does not read is memory of ours. So a large one is written piece by piece, and the next piece is
made when the one before has left; a tenant has only a few under way, and all tenants together have not many more.

Ensures: the buffer of one connection holds about one piece. Of each tenant at most `of_one` large answers are sent, and
as many wait for their turn, within a number of bytes; a GET beyond that is refused before it is sent (503). Requests
whose answer cannot be refused, because they have done something, ask before they do it (`check`), or before they make
what is large of it (`ahead`). A client that reads
more slowly than `_LEAST_BYTES_PER_S` is cut off, so a place is never held for long.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

from aiohttp import web

from functory.errors import FunctoryError, NotReadyYet

log = logging.getLogger("functory.web")

LARGE_BYTES: Final = 256 * 1024
PIECE_BYTES: Final = 64 * 1024
_LEAST_BYTES_PER_S: Final = 16 * 1024
_GRACE_S: Final = 30.0
_IN_ALL: Final = 24
_OF_ONE: Final = 3
"""Answers that are sent at a time, of all tenants and of one. As many may wait."""
_IN_ALL_BYTES: Final = 64 << 20

Pieces = Callable[[], AsyncIterator[bytes]]
Write = Callable[[bytes, AsyncIterator[bytes]], Awaitable[None]]
"""Takes the first piece and those after it."""


class LargeAnswer(web.StreamResponse):
    """An answer that is made while it is sent. `size_bytes` is about how long it is, `held_bytes` what it keeps in
    memory until then, `may_refuse` whether the client can ask again."""

    def __init__(
        self,
        pieces: Pieces,
        size_bytes: int,
        *,
        status: int = 200,
        headers: dict[str, str],
        held_bytes: int | None = None,
        may_refuse: bool = False,
    ) -> None:
        super().__init__(status=status, headers=headers)
        self.pieces = pieces
        self.size_bytes = size_bytes
        self.held_bytes = size_bytes if held_bytes is None else held_bytes
        self.may_refuse = may_refuse


class Around(NamedTuple):
    """An answer that has begun, and what stands before and after a large one in it."""

    answer: web.StreamResponse
    head: bytes
    tail: bytes

    async def write(self, first: bytes, rest: AsyncIterator[bytes]) -> None:
        await self.answer.write(self.head + first)
        async for piece in rest:
            await asyncio.sleep(0)
            await self.answer.write(piece)
        await self.answer.write(self.tail)


class Outflow:
    def __init__(self, of_one_bytes: int = 32 << 20) -> None:
        self._of_one_bytes = of_one_bytes
        self._sending: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._held_bytes: Counter[str] = Counter()
        """Of answers that are sent or wait."""
        self._left = asyncio.Condition()

    def check(self, tenant: str) -> None:
        """Raises NotReadyYet while as many answers of the tenant wait as may."""
        if self._waiting[tenant] >= _OF_ONE:
            raise NotReadyYet("too many large answers are on their way: read them, then ask again", retry_after_s=1.0)

    async def send(self, request: web.Request, tenant: str, answer: web.StreamResponse) -> web.StreamResponse:
        """Send an answer if it is a large one; aiohttp finds it sent then. Raises NotReadyYet."""
        large = as_large(answer)
        if large is not None:
            await self._deliver(request, tenant, large, partial(_write, request, large))
        return large or answer

    async def send_within(self, request: web.Request, tenant: str, large: LargeAnswer, around: Around) -> None:
        """Send a large answer as a part of one that has begun, in a place and in pieces like any other. Raises
        NotReadyYet, and what its first piece raises; nothing of it is sent then."""
        await self._deliver(request, tenant, large, around.write)

    async def send_bytes(self, tenant: str, answer: bytes, write: Callable[[bytes], Awaitable[None]]) -> bool:
        """Send a large answer that is all there, with its head. False if its client read too slowly: cut it off."""
        try:
            async with self._place(tenant, len(answer)), _in_time(len(answer)):
                for piece in cut(answer):
                    await write(piece)
                    await asyncio.sleep(0)
        except TimeoutError as error:
            _log_cut_off(tenant, error)
            return False
        return True

    @asynccontextmanager
    async def ahead(self, tenant: str, size_bytes: int, patience_s: float) -> AsyncIterator[bool]:
        """Count an answer as one that is on its way while it is made, for as long as the block lasts. False if there is
        no room for it in this time: nothing is counted then. Where nothing of the tenant is on its way, there is."""
        has_room = await self._comes_room(tenant, size_bytes, patience_s)
        held_bytes = size_bytes if has_room else 0
        self._held_bytes[tenant] += held_bytes
        try:
            yield has_room
        finally:
            try:
                async with self._left:
                    self._left.notify_all()
            finally:  # last: before whoever waits comes to look, the answer itself is counted
                _less(self._held_bytes, tenant, held_bytes)

    async def _comes_room(self, tenant: str, size_bytes: int, patience_s: float) -> bool:
        if not self._fits(tenant, size_bytes):
            try:
                async with asyncio.timeout(patience_s), self._left:
                    await self._left.wait_for(lambda: self._fits(tenant, size_bytes))
            except TimeoutError:
                return False
        return True

    async def _deliver(self, request: web.Request, tenant: str, large: LargeAnswer, write: Write) -> None:
        may_refuse = large.may_refuse or request.method == "GET"
        if may_refuse and not self._may_wait(tenant, large.held_bytes):
            raise NotReadyYet("too many large answers are on their way: read them, then ask again", retry_after_s=1.0)
        async with self._place(tenant, large.held_bytes):
            pieces = large.pieces()
            first = await anext(pieces, b"")  # before the head is sent: what it raises is still an answer
            try:
                async with _in_time(large.size_bytes):
                    await write(first, pieces)
            except ConnectionError:
                log.debug("connection.lost_before_answer")
            except (TimeoutError, FunctoryError) as error:  # nobody reads it, or the rest of it is gone
                _log_cut_off(tenant, error)
                if request.transport is not None:
                    request.transport.abort()

    def _may_wait(self, tenant: str, held_bytes: int) -> bool:
        is_among_few = self._waiting[tenant] < _OF_ONE and self._waiting.total() < _IN_ALL
        return is_among_few and self._fits(tenant, held_bytes)

    def _fits(self, tenant: str, held_bytes: int) -> bool:
        mine_bytes, all_bytes = self._held_bytes[tenant], self._held_bytes.total()
        return not mine_bytes or (
            mine_bytes + held_bytes <= self._of_one_bytes and all_bytes + held_bytes <= _IN_ALL_BYTES
        )

    @asynccontextmanager
    async def _place(self, tenant: str, held_bytes: int) -> AsyncIterator[None]:
        self._waiting[tenant] += 1
        self._held_bytes[tenant] += held_bytes
        try:
            try:
                async with self._left:
                    await self._left.wait_for(lambda: self._has_room(tenant))
                    self._sending[tenant] += 1
            finally:
                _less(self._waiting, tenant, 1)
            try:
                yield
            finally:
                _less(self._sending, tenant, 1)
        finally:
            _less(self._held_bytes, tenant, held_bytes)
            async with self._left:
                self._left.notify_all()

    def _has_room(self, tenant: str) -> bool:
        return self._sending[tenant] < _OF_ONE and self._sending.total() < _IN_ALL


def _in_time(size_bytes: int) -> asyncio.Timeout:
    return asyncio.timeout(_GRACE_S + size_bytes / _LEAST_BYTES_PER_S)


def _log_cut_off(tenant: str, reason: Exception) -> None:
    log.info("connection.cut_off", extra={"tenant": tenant, "reason": str(reason)})


def _less(counts: Counter[str], tenant: str, number: int) -> None:
    counts[tenant] -= number
    if not counts[tenant]:
        del counts[tenant]


def as_large(answer: web.StreamResponse) -> LargeAnswer | None:
    """The same answer in pieces, if it is large and not sent yet."""
    if isinstance(answer, LargeAnswer):
        return answer
    if not isinstance(answer, web.Response) or answer.prepared:
        return None
    body = answer.body
    if not isinstance(body, bytes) or len(body) <= LARGE_BYTES:
        return None

    async def pieces() -> AsyncIterator[bytes]:
        for piece in cut(body):
            yield piece

    large = LargeAnswer(pieces, len(body), status=answer.status, headers=dict(answer.headers))
    large.content_length = len(body)
    return large


def cut(data: bytes, size_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
    for start in range(0, len(data), size_bytes):
        yield data[start : start + size_bytes]


async def _write(request: web.Request, answer: LargeAnswer, first: bytes, rest: AsyncIterator[bytes]) -> None:
    await answer.prepare(request)
    if request.method != "HEAD":
        await answer.write(first)
        async for piece in rest:
            await asyncio.sleep(0)
            await answer.write(piece)
    await answer.write_eof()
