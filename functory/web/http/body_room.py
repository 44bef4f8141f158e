"""Room for large bodies: how many bytes of them are in memory, of one tenant and in all.

A body of 16 MiB can come in 16 KiB of gzip, on any number of connections. Before a large one is read, room is taken for
as much as it can become; who finds none waits, with the body still on its way. A tenant waits for its own bodies, and
for those of others only when all tenants together have many.

Bodies may come slowly, and tenants may send as many as they like. Ensures: a tenant that has none under way goes before
those that have some, however long theirs have waited; and these leave a part of the room free for it. Of tenants that
have none, one that has had room since another waits stands back for it: those that take turns keep nobody out.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
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
_NO_ROOM_NEEDED: Final = nullcontext(False)


class _Waiting:
    """The bodies of a tenant that wait, in their order. since: how many bodies had ended when the first of these began
    to wait, or when the last one of the tenant's own did."""

    __slots__ = ("bodies", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        self.bodies: dict[asyncio.Future[None], int] = {}


class BodyRoom:
    """A body up to `free_bytes` needs no room.

    While its jobs are made a body of short lines costs four times its size: itself, its lines, and what is written.
    """

    def __init__(self, in_all_bytes: int = 40 * MIB, of_one_bytes: int = 20 * MIB, free_bytes: int = MIB // 4) -> None:
        self._in_all_bytes = in_all_bytes
        self._of_one_bytes = of_one_bytes
        self.free_bytes = free_bytes
        self._taken: Counter[str] = Counter()
        self._waiting: dict[str, _Waiting] = {}
        self._ended = 0
        """How many bodies have given their room back."""
        self._last_ended: dict[str, int] = {}
        """Of the tenants that have given room back while somebody waits: which one their last was."""

    def of(self, tenant: str, size_bytes: int) -> AbstractAsyncContextManager[bool]:
        """Room for a body of the tenant's, for as long as the block lasts. Yields whether it had to wait."""
        return _NO_ROOM_NEEDED if size_bytes <= self.free_bytes else self._taken_of(tenant, size_bytes)

    @asynccontextmanager
    async def _taken_of(self, tenant: str, size_bytes: int) -> AsyncIterator[bool]:
        has_waited = size_bytes > self._free_bytes(tenant, self._waits_longest())
        if has_waited:
            await self._wait(tenant, size_bytes)
        else:
            self._take(tenant, size_bytes)
        try:
            yield has_waited
        finally:
            self._give_back(tenant, size_bytes)

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
        """Until room has been taken for it."""
        waiting = self._waiting.setdefault(tenant, _Waiting(self._ended))
        has_room = asyncio.get_running_loop().create_future()
        waiting.bodies[has_room] = size_bytes
        try:
            await has_room
        except asyncio.CancelledError:
            if not has_room.cancelled():
                self._give_back(tenant, size_bytes)
                raise
            self._forget(tenant, has_room)
            if tenant not in self._waiting:
                self._hand_out()  # others may have stood back for it
            raise

    def _take(self, tenant: str, size_bytes: int) -> None:
        self._taken[tenant] += size_bytes

    def _give_back(self, tenant: str, size_bytes: int) -> None:
        self._taken[tenant] -= size_bytes
        self._taken = +self._taken
        self._ended += 1
        if self._waiting:
            self._last_ended[tenant] = self._ended
            if tenant in self._waiting:
                self._waiting[tenant].since = self._ended
            self._hand_out()

    def _hand_out(self) -> None:
        """What is free, to those who wait, in the step in which it has become free: nobody comes between. Those who
        get none are not woken."""
        while (found := self._next()) is not None:
            tenant, has_room = found
            self._take(tenant, self._waiting[tenant].bodies[has_room])
            self._forget(tenant, has_room)
            has_room.set_result(None)

    def _next(self) -> "tuple[str, asyncio.Future[None]] | None":
        longest = self._waits_longest()
        for tenant, waiting in self._waiting.items():
            free_bytes = self._free_bytes(tenant, longest)
            if free_bytes <= self.free_bytes:
                continue
            for has_room, size_bytes in waiting.bodies.items():
                if size_bytes <= free_bytes and not has_room.done():
                    return tenant, has_room
        return None

    def _forget(self, tenant: str, has_room: "asyncio.Future[None]") -> None:
        bodies = self._waiting[tenant].bodies
        del bodies[has_room]
        if not bodies:
            del self._waiting[tenant]
        if not self._waiting:
            self._last_ended.clear()

    def _waits_longest(self) -> int | None:
        """Since when a tenant waits that has nothing under way."""
        return min((it.since for tenant, it in self._waiting.items() if not self._taken[tenant]), default=None)

    def _free_bytes(self, tenant: str, longest: int | None) -> float:
        """How large a body of the tenant's may be now. What is larger than all room fits when nothing else is there."""
        mine, all_bytes = self._taken[tenant], self._taken.total()
        if longest is not None and (mine or self._last_ended.get(tenant, 0) > longest):
            return 0
        if not mine:
            return self._in_all_bytes - all_bytes if all_bytes else math.inf
        most_bytes = self._in_all_bytes - self._in_all_bytes // _LEFT_PART
        return min(self._of_one_bytes - mine, most_bytes - all_bytes)


def most_bytes(request: web.BaseRequest, limit_bytes: int) -> int:
    """How large the body of a request can become, at most."""
    sent_bytes = request.content_length
    if sent_bytes is None:
        return limit_bytes if request.can_read_body else 0
    packed = "Content-Encoding" in request.headers
    return min(limit_bytes, sent_bytes * (_MOST_PACKED if packed else 1))
