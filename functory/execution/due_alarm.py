"""Whoever starts jobs is woken when the next deferred one comes due, instead of finding it at the next poll.

What comes due is the store's to say. It is asked after news of jobs that may be due later, once what it said has come,
and every poll: so a job that nobody told of starts a poll late at most, as without this.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Final

from functory.execution.endings import Ending
from store.base import Archive, Discard, Finish, Store
from store.errors import StoreUnavailable
from vocabulary.clock import Clock

_PAUSE_S: Final = 0.05
"""Between two questions at least: jobs that come due one after the other are looked for together."""
_ASK_PART: Final = 9
"""And this many times as long as a question takes."""
_OVER: Final = frozenset({Archive, Discard, Finish})
_RELEASE: Final = itemgetter(1)
_WANTED: Final = itemgetter(2)


class DueAlarm:
    def __init__(self, store: Store, clock: Clock, poll_s: float, ring: Callable[[], None]) -> None:
        self._store = store
        self._clock = clock
        self._poll_s = poll_s
        self._ring = ring
        self._news = asyncio.Event()

    def ask(self) -> None:
        """Jobs may have been added that are due later."""
        self._news.set()

    def released(self, endings: Sequence[Ending]) -> None:
        """These were recorded. Some may be tried again, wait for their next round, or have made jobs for later."""
        if not _OVER.issuperset(map(type, map(_RELEASE, endings))) or any(map(_WANTED, endings)):
            self.ask()

    async def run(self) -> None:
        """Run until cancelled."""
        rung_ms = self._clock.now_ms()
        while True:
            self._news.clear()
            now_ms = self._clock.now_ms()
            rung_ms = min(rung_ms, now_ms)  # the clock may have been set back
            asked_s = self._clock.monotonic_s()
            next_ms = await self._next_after(rung_ms)
            pause_s = max(_PAUSE_S, _ASK_PART * (self._clock.monotonic_s() - asked_s))
            await self._until(next_ms)
            now_ms = self._clock.now_ms()
            if next_ms <= now_ms:
                rung_ms = now_ms
                self._ring()
            await asyncio.sleep(pause_s)

    async def _next_after(self, after_ms: int) -> float:
        try:
            next_ms = await self._store.get_next_due(after_ms=after_ms)
        except StoreUnavailable:  # others tell of it
            return math.inf
        return math.inf if next_ms is None else next_ms

    async def _until(self, next_ms: float) -> None:
        """Wait until then, for news, or for a poll."""
        left_s = (next_ms - self._clock.now_ms()) / 1000
        if left_s > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left_s + 0.001, self._poll_s)):
                    await self._news.wait()
