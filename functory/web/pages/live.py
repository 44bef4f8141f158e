"""Live pages: while somebody looks at a page, a part of it is rendered again every few seconds, and sent if it changed.

Ensures: the work is per view of an address, not per reader: readers share what is rendered only if it is the same for
them. Nothing is rendered for a view that nobody looks at. A reader gets only what was read after it came: the page that
it has may be newer than what the others were last sent. A reader whose session ends is disconnected at the next turn.
When what a page shows is deleted, its readers are told (`gone`), and the stream ends. When the daemon stops
listening, every stream ends at once.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple

from aiohttp import web

from functory.errors import FunctoryError, Missing, NotReadyYet
from functory.operations.principal import Principal
from functory.web.http.presence import has_gone
from functory.web.http.stream_seats import BEAT_S, HEADERS, SessionSeats, StreamSeats
from store.errors import NotFound, StoreError

log = logging.getLogger("functory.web")

Make = Callable[[], Awaitable[str]]

_REFUSED: Final = "too many live pages are open: this one is refreshed now and then instead"
_LIFE_S: Final = 600.0
"""A stream ends after this, and the browser opens a new one, perhaps on another daemon."""


class View(NamedTuple):
    """All that a live part depends on besides the data. One reader's own must not be in what another gets."""

    address: str
    origin: str
    """What the reader's browser calls this service: it is in commands to copy."""
    tenant_since_ms: int
    """Tells a tenant from an earlier one of its name."""
    scopes: frozenset[str]
    is_suspended: bool


def view_of(address: str, origin: str, who: Principal) -> View:
    return View(address, origin, who.tenant_since_ms, who.scopes, who.suspended)


class _Feed:
    """One view that somebody looks at."""

    def __init__(self) -> None:
        self.readers = 0
        self.text = ""
        self.version = 0
        self.begun = 0
        """The turns in which it was read, also the one under way."""
        self.made = 0
        """The turn that the text is of."""
        self.is_over = False
        self.is_gone = False
        """What it shows does not exist any more."""
        self._changed = asyncio.Event()

    def publish(self, text: str) -> None:
        self.made = self.begun
        if text != self.text:
            self.text = text
            self.version += 1
        self.wake()

    def wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def has_newer(self, version: int, turn: int) -> bool:
        """Whether there is another text than that version, and of a later turn."""
        return self.version != version and self.made > turn

    async def newer_than(self, version: int, turn: int) -> None:
        while not self.has_newer(version, turn) and not self.is_over:
            await self._changed.wait()


class LiveHub:
    def __init__(self, tick_s: float, seats: StreamSeats | None = None) -> None:
        self._tick_s = tick_s
        self._seats = seats or StreamSeats()
        self._of_sessions = SessionSeats()
        self._feeds: dict[View, _Feed] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def stream(
        self,
        request: web.Request,
        who: Principal,
        session: str,
        origin: str,
        make: Make,
        is_welcome: Callable[[], Awaitable[bool]],
    ) -> web.StreamResponse:
        """Send events until the reader leaves. session: any text that is the same for all tabs of a browser.

        Raises NotReadyYet when too many streams are open."""
        if self._is_closed:
            raise NotReadyYet(_REFUSED)
        answer = web.StreamResponse(headers=HEADERS)
        with (
            self._of_sessions.one(session, lambda: has_gone(request), _REFUSED),
            self._seats.one(who, _REFUSED),
        ):
            feed = self._join(view_of(request.path_qs, origin, who), make)
            joined = feed.begun
            try:
                await answer.prepare(request)
                with suppress(ConnectionError):
                    await self._tell(answer, feed, joined, is_welcome)
            finally:
                feed.readers -= 1
        return answer

    async def close(self) -> None:
        """End every stream. Idempotent."""
        self._is_closed = True
        for feed in self._feeds.values():
            feed.is_over = True
            feed.wake()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _tell(
        self, answer: web.StreamResponse, feed: _Feed, joined: int, is_welcome: Callable[[], Awaitable[bool]]
    ) -> None:
        await answer.write(b"retry: 3000\n\n")
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + _LIFE_S
        seen = 0
        while loop.time() < ends_s and await is_welcome():
            if feed.has_newer(seen, joined):
                seen = feed.version
                await answer.write(f"event: live\ndata: {json.dumps(feed.text)}\n\n".encode())
            elif feed.is_over:
                if feed.is_gone:
                    await answer.write(b'event: gone\ndata: ""\n\n')
                break
            else:
                await answer.write(b": still here\n\n")
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await feed.newer_than(seen, joined)
        await answer.write_eof()

    def _join(self, view: View, make: Make) -> _Feed:
        feed = self._feeds.get(view)
        if feed is None:
            feed = self._feeds[view] = _Feed()
            task = asyncio.create_task(self._run(view, feed, make), name=f"live {view.address}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        feed.readers += 1
        return feed

    async def _run(self, view: View, feed: _Feed, make: Make) -> None:
        """Render the page while it has readers. If it cannot be rendered now, try again at the next turn."""
        try:
            while feed.readers:
                feed.begun += 1
                try:
                    feed.publish(await make())
                except (Missing, NotFound):
                    feed.is_gone = True
                    break
                except (FunctoryError, StoreError) as error:
                    log.info("live.skipped", extra={"path": view.address, "reason": str(error)})
                except Exception:
                    log.exception("live.failed", extra={"path": view.address})
                    break
                await asyncio.sleep(self._tick_s)
        finally:
            del self._feeds[view]
            feed.is_over = True
            feed.wake()
