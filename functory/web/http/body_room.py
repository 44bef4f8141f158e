"""Room for large bodies: how many bytes of them are in memory, of one tenant and in all.

A body of 16 MiB can come in 16 KiB of gzip, on any number of connections. Before a large one is read, room is taken for
as much as it can become; who finds none waits, with the body still on its way. A tenant waits for its own bodies, and
for those of others only when all tenants together have many.

Bodies may come slowly, and tenants may send as many as they like. Ensures: a tenant that has none under way goes before
those that have some, however long theirs have waited; and these leave a part of the room free for it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from aiohttp import web

from functory.errors import NotReadyYet
from functory.web.http.body import Grown
from vocabulary.sizes import MIB

_LEFT_PART: Final = 5
"""One in so many bytes is for tenants that have nothing under way."""
_MOST_PACKED: Final = 1032
"""Bytes that one byte of deflate can become."""
_LONGEST_WAIT_S: Final = 10.0
"""For room, of somebody without a key."""


class BodyRoom:
    """A body up to `free_bytes` needs no room.

    While its jobs are made a body of short lines costs four times its size: itself, its lines, and what is written.
    """

    def __init__(self, in_all_bytes: int = 40 * MIB, of_one_bytes: int = 20 * MIB, free_bytes: int = MIB // 4) -> None:
        self._in_all_bytes = in_all_bytes
        self._of_one_bytes = of_one_bytes
        self.free_bytes = free_bytes
        self._taken: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        """Bodies that wait, by tenant."""
        self._left = asyncio.Condition()

    @asynccontextmanager
    async def of(self, tenant: str, size_bytes: int) -> AsyncIterator[bool]:
        """Room for a body of the tenant's, for as long as the block lasts. Yields whether it had to wait."""
        if size_bytes <= self.free_bytes:
            yield False
            return
        async with self._left:
            has_waited = not self._fits(tenant, size_bytes)
            if has_waited:
                await self._wait(tenant, size_bytes)
            self._taken[tenant] += size_bytes
        try:
            yield has_waited
        finally:
            self._taken[tenant] -= size_bytes
            self._taken = +self._taken
            async with self._left:
                self._left.notify_all()

    @asynccontextmanager
    async def growing(self, tenant: str, size_bytes: int) -> AsyncIterator[Grown]:
        """The same for a body of a sender whom nobody knows. It has no room before more than `free_bytes` have come: to
        say that a body is large, and then to send nothing, would keep out others. Yields what is to be told how many
        have come, which raises NotReadyYet if there is no room for long."""
        async with AsyncExitStack() as taken:
            has_room = False

            async def grow(come_bytes: int) -> None:
                nonlocal has_room
                if has_room or come_bytes <= self.free_bytes:
                    return
                try:
                    async with asyncio.timeout(_LONGEST_WAIT_S):
                        await taken.enter_async_context(self.of(tenant, size_bytes))
                except TimeoutError:
                    raise NotReadyYet(
                        "too many large bodies come at once: send it again in a moment", detail={"reason": "busy"}
                    ) from None
                has_room = True

            yield grow

    async def _wait(self, tenant: str, size_bytes: int) -> None:
        """Until there is room. The lock is held."""
        self._waiting[tenant] += 1
        try:
            await self._left.wait_for(lambda: self._fits(tenant, size_bytes))
        finally:
            self._waiting[tenant] -= 1
            self._waiting = +self._waiting
            self._left.notify_all()  # others may have stood back for it

    def _fits(self, tenant: str, size_bytes: int) -> bool:
        """What is larger than all room fits when nothing else is there."""
        mine, all_bytes = self._taken[tenant], self._taken.total()
        if not mine:
            return not all_bytes or all_bytes + size_bytes <= self._in_all_bytes
        if any(not self._taken[other] for other in self._waiting):
            return False
        most_bytes = self._in_all_bytes - self._in_all_bytes // _LEFT_PART
        return mine + size_bytes <= self._of_one_bytes and all_bytes + size_bytes <= most_bytes


def most_bytes(request: web.BaseRequest, limit_bytes: int) -> int:
    """How large the body of a request can become, at most."""
    sent_bytes = request.content_length
    if sent_bytes is None:
        return limit_bytes if request.can_read_body else 0
    packed = "Content-Encoding" in request.headers
    return min(limit_bytes, sent_bytes * (_MOST_PACKED if packed else 1))
