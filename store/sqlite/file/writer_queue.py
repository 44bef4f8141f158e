"""The line in front of the writer: short operations go before bulk ones, within reason.

A claim, a renewal or the change of one job takes a fraction of a millisecond, a batch of thousands of jobs many: in
one line the short ones, and with them the tenants that ask for little, would wait for every batch ahead of them.
Ensures: nothing is lost or taken twice; within each kind the order is that of arrival; after MOST_PASSED short
operations one that they passed has its turn, so that no number of them stops the bulk. Put by any thread, taken by one.
"""

import queue
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

MOST_PASSED: Final = 64

T = TypeVar("T")


class WriterQueue(Generic[T]):
    def __init__(self) -> None:
        self._short: deque[T] = deque()
        self._bulk: deque[T] = deque()
        self._waiting: queue.SimpleQueue[None] = queue.SimpleQueue()
        """One token for each operation in the two: what the taker sleeps on."""
        self._passed = 0

    def put(self, operation: T, *, bulk: bool) -> None:
        (self._bulk if bulk else self._short).append(operation)
        self._waiting.put(None)

    def take(self) -> T:
        """The next one, as soon as there is one."""
        self._waiting.get()
        return self._next()

    def take_now(self, *, short_only: bool = False) -> T | None:
        """The next one, or None if there is none. short_only: None also if a bulk one is next."""
        if short_only and not self._short_is_next():
            return None
        try:
            self._waiting.get_nowait()
        except queue.Empty:
            return None
        return self._next()

    def take_short_now(self, fits: Callable[[T], bool]) -> T | None:
        """The next one, if it is a short one that fits."""
        return self.take_now() if self._short_is_next() and fits(self._short[0]) else None

    def _short_is_next(self) -> bool:
        return bool(self._short) and (self._passed < MOST_PASSED or not self._bulk)

    def _next(self) -> T:
        if self._short_is_next():
            self._passed = self._passed + 1 if self._bulk else 0
            return self._short.popleft()
        self._passed = 0
        return self._bulk.popleft()
