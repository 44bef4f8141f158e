"""Futures that get an answer when their time is up, on one timer of the event loop.

Most of them have another answer long before. A timer for each would cost more than all else about waiting, and the
event loop sorts it among all others.
"""

import asyncio
import heapq
import itertools
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_FEW: Final = 1000


class Deadlines(Generic[T]):
    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, asyncio.Future[T], T]] = []
        """A heap. Those that have their answer stay in it for a while."""
        self._most = _FEW
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_s = 0.0

    def add(self, at_s: float, told: "asyncio.Future[T]", answer: T) -> None:
        """What `told` is told at this time of its event loop, if it was told nothing before."""
        if len(self._waiting) >= self._most:
            self._waiting = [each for each in self._waiting if not each[2].done()]
            heapq.heapify(self._waiting)
            self._most = 2 * len(self._waiting) + _FEW
        heapq.heappush(self._waiting, (at_s, next(self._numbers), told, answer))
        if self._timer is None or at_s < self._rings_s:
            self._wind(told.get_loop())

    def close(self) -> None:
        """Nobody is told any more."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wind(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_s = self._waiting[0][0]
        self._timer = loop.call_at(self._rings_s, self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now_s = max(loop.time(), self._rings_s)  # a timer may ring a tick of the clock too early
        while self._waiting and (self._waiting[0][0] <= now_s or self._waiting[0][2].done()):
            _, _, told, answer = heapq.heappop(self._waiting)
            if not told.done():
                told.set_result(answer)
        if self._waiting:
            self._wind(loop)
