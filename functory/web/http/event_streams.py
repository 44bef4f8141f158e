"""Streams of server-sent events to programs, each as fast as its client reads.

Ensures: the next event is made when the one before has left, so a slow client costs the buffer of its connection. A
client whose key is revoked is disconnected. When the daemon stops listening, every stream ends. What goes wrong when
the answer has begun is an event in it:

    event: error      data: {"status": 422, "error": {...}, "retry_after_s": 1}
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from time import monotonic
from typing import Final

from aiohttp import web

from functory.errors import FunctoryError, NotReadyYet
from functory.operations.principal import Principal
from functory.web.http.edge import REQUEST_ID
from functory.web.http.stream_seats import BEAT_S, HEADERS, StreamSeats

Event = bytes | Callable[[web.StreamResponse], Awaitable[None]]
"""Its text, or for a large one what writes it."""

Refuse = Callable[[Exception], web.StreamResponse]
"""The answer for an error, as a request gets it that has not been answered: JSON."""

_REFUSED: Final = "too many streams are open: close some, then ask again"


class EventStreams:
    def __init__(self, seats: StreamSeats | None = None) -> None:
        self._seats = seats or StreamSeats()
        self._is_closed = False

    def has_room(self, who: Principal) -> bool:
        """Whether `send` would not refuse."""
        return not self._is_closed and self._seats.has_room(who)

    async def send(
        self,
        request: web.Request,
        who: Principal,
        events: AsyncGenerator[Event, None],
        check: Callable[[], Awaitable[object]],
        life_s: float,
        refuse: Refuse,
    ) -> web.StreamResponse:
        """Send events until they end, the client leaves, or its time is up; an empty one is not sent. `check` raises
        when the client may not read on. Raises NotReadyYet, and what the first event raises. What a later one raises is
        the last event, as `refuse` answers it."""
        if self._is_closed:
            raise NotReadyYet(_REFUSED)
        answer = web.StreamResponse(headers={**HEADERS, "X-Request-Id": request.get(REQUEST_ID, "")})
        with self._seats.one(who, _REFUSED):
            async with aclosing(events) as rest:
                with suppress(ConnectionError):
                    try:
                        await self._tell(request, answer, rest, check, monotonic() + life_s)
                    except ConnectionError:
                        raise
                    except Exception as error:
                        if not answer.prepared:
                            raise
                        await answer.write(error_event(refuse(error)))
                    await answer.write_eof()
        return answer

    async def close(self) -> None:
        """End every stream at its next event. Idempotent."""
        self._is_closed = True

    async def _tell(
        self,
        request: web.Request,
        answer: web.StreamResponse,
        events: AsyncGenerator[Event, None],
        check: Callable[[], Awaitable[object]],
        ends_s: float,
    ) -> None:
        beat_s = monotonic() + BEAT_S
        async for event in events:
            if not answer.prepared:
                await answer.prepare(request)
            else:
                try:
                    await check()
                except FunctoryError:
                    break
            if callable(event):
                await event(answer)
            elif event:
                await answer.write(event)
            now_s = monotonic()
            if now_s >= beat_s:
                beat_s = now_s + BEAT_S
                await answer.write(b": still here\n\n")
            if self._is_closed or now_s >= ends_s:
                break


def error_event(refusal: web.StreamResponse) -> bytes:
    """The answer for an error, as an event. It is JSON, an object."""
    assert isinstance(refusal, web.Response)
    assert isinstance(refusal.body, bytes)
    after = refusal.headers.get("Retry-After", "")
    wait = b'"retry_after_s":%s,' % after.encode() if after else b""
    return b'event: error\ndata: {"status":%d,%s%s\n\n' % (refusal.status, wait, refusal.body[1:])
