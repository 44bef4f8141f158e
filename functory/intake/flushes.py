"""Who waits until lines of the journal are in the store.

Of all tenants: until everything before a position is there. Of one: until the reader has been there. What it left out
then is on the straight way, and none of it is of that tenant, whose lines were taken from there before.
"""

import asyncio
import heapq
import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from journal import Position
from store.errors import StoreUnavailable
from vocabulary.names import tenant_of

_Waiting = list[tuple[Position, int, "asyncio.Future[None]"]]


class Flushes:
    def __init__(self) -> None:
        self._of_one: _Waiting = []
        self._of_all: _Waiting = []
        self._order = itertools.count()
        self._under_way: Counter[str] = Counter()
        """By tenant; "" for all."""

    def __bool__(self) -> bool:
        """Whether somebody waits for the reader."""
        return bool(self._of_one or self._of_all)

    @contextmanager
    def of(self, tenant: str) -> Iterator[None]:
        """From before lines of the tenant, or all, leave the straight way: they must not be put there again."""
        self._under_way[tenant] += 1
        try:
            yield
        finally:
            self._under_way[tenant] -= 1
            self._under_way = +self._under_way

    def want(self, jobtype: str) -> bool:
        """Whether lines of a type must go to the store."""
        return bool(self or self._under_way.keys() & {"", tenant_of(jobtype)})

    def wait(self, tenant: str, target: Position) -> "asyncio.Future[None]":
        done = asyncio.get_running_loop().create_future()
        waiting = self._of_one if tenant else self._of_all
        heapq.heappush(waiting, (target, next(self._order), done))
        done.add_done_callback(partial(_forget_cancelled, waiting))
        return done

    def settle(self, read: Position, passed: Position) -> None:
        """Everything before `read` is in the store; the reader has been everywhere before `passed`."""
        for waiting, point in ((self._of_one, passed), (self._of_all, read)):
            while waiting and waiting[0][0] <= point:
                _, _, done = heapq.heappop(waiting)
                if not done.done():
                    done.set_result(None)

    def fail(self, reason: str) -> None:
        for _, _, done in self._of_one + self._of_all:
            if not done.done():
                done.set_exception(StoreUnavailable(reason))
        self._of_one, self._of_all = [], []


def _forget_cancelled(waiting: _Waiting, done: "asyncio.Future[None]") -> None:
    """Who did not wait to the end wants nothing any more."""
    if done.cancelled():
        waiting[:] = [each for each in waiting if each[2] is not done]
        heapq.heapify(waiting)
