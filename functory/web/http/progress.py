"""The steps of a request that takes long, as server-sent events, for clients that ask with `Accept: text/event-stream`.

    event: progress   data: "installing"                       any number, none if it was quick
    event: done       data: {"status": 200, "answer": {...}}   what the plain answer would have been
    event: error      data: {"status": 422, "error": {...}, "retry_after_s": 1}

Ensures: the last event is `done` or `error`, and there is one of them. Of the steps that come while the client does not
read, or faster than STEP_GAP_S, the last is kept; at most MOST_STEPS are sent, each with up to STEP_CHARS. A client
that leaves changes nothing: the work goes on as it does for a plain request.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Final

from aiohttp import web

from functory.web.http.answers import error_answer
from functory.web.http.edge import Edge, Trouble
from functory.web.http.event_streams import Event, error_event
from functory.web.http.outflow import Around, as_large
from runner.packages.source import Tell

MOST_STEPS: Final = 500
STEP_CHARS: Final = 200
STEP_GAP_S: Final = 0.2
_LOOK_S: Final = 1.0
"""So often a stream finds out that the daemon stops or its client has left."""

Work = Callable[[Tell], Awaitable[web.StreamResponse]]
"""Does what the request asks for, and returns the plain answer: JSON."""


def wants_progress(request: web.BaseRequest, *, has_room: bool = True) -> bool:
    """Whether the client asks for events. Without room for another stream it gets the plain answer, if it takes one."""
    asked = [kind.partition(";")[0].strip() for kind in request.headers.get("Accept", "").lower().split(",")]
    return "text/event-stream" in asked and (has_room or len(asked) == 1)


class Steps:
    """The steps that one client has not been told: the last of them."""

    def __init__(self) -> None:
        self._last = ""
        self._untold = ""
        self._news = asyncio.Event()

    def tell(self, step: str) -> None:
        shown = step[:STEP_CHARS]
        if shown != self._last:
            self._last = self._untold = shown
            self._news.set()

    def end(self) -> None:
        """Nobody needs to wait for another one."""
        self._news.set()

    async def next(self, timeout_s: float) -> str:
        """The next step; "" when there is none within the time, or no other one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        self._news.clear()
        step, self._untold = self._untold, ""
        return step


class ProgressEvents:
    """The events of one request. `trouble` makes the answer for an error: JSON, an object."""

    def __init__(
        self,
        request: web.Request,
        tenant: str,
        edge: Edge,
        trouble: Trouble = error_answer,
        *,
        gap_s: float = STEP_GAP_S,
    ) -> None:
        self._request = request
        self._tenant = tenant
        self._edge = edge
        self._trouble = trouble
        self._gap_s = gap_s

    async def of(self, work: Work) -> AsyncGenerator[Event, None]:
        steps, sent = Steps(), 0
        task = asyncio.ensure_future(work(steps.tell))
        task.add_done_callback(lambda _: steps.end())
        try:
            while not task.done():
                step = await steps.next(_LOOK_S)
                if step and sent < MOST_STEPS:
                    sent += 1
                    yield _event("progress", json.dumps(step).encode())
                else:
                    yield b""
                await asyncio.wait([task], timeout=self._gap_s)
            yield self._end_of(task)
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # nobody is left to hear of it

    def _end_of(self, task: "asyncio.Future[web.StreamResponse]") -> Event:
        error = task.exception()
        if error is not None:
            return self._failed(error)
        answer = task.result()
        head = b'{"status":%d,"answer":' % answer.status
        large = as_large(answer)
        if large is None:
            return _event("done", head + _body(answer) + b"}")

        async def write(stream: web.StreamResponse) -> None:
            around = Around(stream, b"event: done\ndata: " + head, b"}\n\n")
            try:
                await self._edge.outflow.send_within(self._request, self._tenant, large, around)
            except ConnectionError:
                raise
            except Exception as late:  # noqa: BLE001 (as at the edge: whatever it is, the client gets an answer)
                await stream.write(self._failed(late))

        return write

    def refuse(self, error: Exception) -> web.StreamResponse:
        """The plain answer for an error."""
        return self._edge.refuse(self._request, error, self._trouble)

    def _failed(self, error: BaseException) -> bytes:
        if not isinstance(error, Exception):
            raise error
        return error_event(self.refuse(error))


def _body(answer: web.StreamResponse) -> bytes:
    assert isinstance(answer, web.Response)
    assert isinstance(answer.body, bytes)
    return answer.body


def _event(name: str, data: bytes) -> bytes:
    """JSON has no line ends of its own."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)
