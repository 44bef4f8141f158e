"""Streams of server-sent events to programs: so many at once, each as fast as its client reads.

Ensures: the next event is made when the one before has left, so a slow client costs the buffer of its connection. A
client whose key is revoked is disconnected. When the daemon stops, every stream ends at once.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from time import monotonic
from typing import Final

from aiohttp import web

from functory.errors import FunctoryError, NotReadyYet

HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Accel-Buffering": "no",
}
_BEAT_S: Final = 15.0
"""Something is sent at least this often, so that proxies keep the connection and a lost client is noticed."""


class EventStreams:
    def __init__(self, max_streams: int = 200, max_per_key: int = 20) -> None:
        self._max_streams = max_streams
        self._max_per_key = max_per_key
        self._open: Counter[str] = Counter()
        self._is_closed = False

    async def send(
        self,
        request: web.Request,
        key_id: str,
        events: AsyncGenerator[bytes, None],
        check: Callable[[], Awaitable[object]],
        life_s: float,
    ) -> web.StreamResponse:
        """Send events until they end, the client leaves, or its time is up; an empty one is not sent. `check` raises
        when the client may not read on. Raises NotReadyYet, and what the first event raises."""
        if self._open.total() >= self._max_streams or self._open[key_id] >= self._max_per_key or self._is_closed:
            raise NotReadyYet("too many streams are open: close some, then ask again")
        answer = web.StreamResponse(headers=HEADERS)
        self._open[key_id] += 1
        try:
            async with aclosing(events) as rest:
                with suppress(ConnectionError):
                    await self._tell(request, answer, rest, check, monotonic() + life_s)
        finally:
            self._open -= Counter({key_id: 1})
        return answer

    async def close(self) -> None:
        """End every stream at its next event. Idempotent."""
        self._is_closed = True

    async def _tell(
        self,
        request: web.Request,
        answer: web.StreamResponse,
        events: AsyncGenerator[bytes, None],
        check: Callable[[], Awaitable[object]],
        ends_s: float,
    ) -> None:
        beat_s = monotonic() + _BEAT_S
        async for event in events:
            if not answer.prepared:
                await answer.prepare(request)
            if event:
                await answer.write(event)
            now_s = monotonic()
            if now_s >= beat_s:
                beat_s = now_s + _BEAT_S
                await answer.write(b": still here\n\n")
                try:
                    await check()
                except FunctoryError:
                    break
            if self._is_closed or now_s >= ends_s:
                break
        await answer.write_eof()
