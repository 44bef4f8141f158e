"""One worker that waits for jobs, and those that wait with the same patterns."""

import asyncio
from collections import deque
from collections.abc import Callable, Container
from itertools import islice
from typing import Final

from functory.loops.slices import Slices
from functory.workers.values import Order, Taken
from vocabulary.glob import glob_cost, glob_matcher, reading_cost
from vocabulary.names import is_type, jobtype_of, type_of

LOOK_COST: Final = 5
"""Of a group or a type that was compared before, as Slices count."""
MOST_REMEMBERED: Final = 10_000
_TAKERS_AT_ONCE: Final = 64
_JOBS_AT_ONCE: Final = 1000
"""That share a claim."""


class Taker:
    __slots__ = ("deadline_s", "future", "number", "order")

    def __init__(self, order: Order, number: int) -> None:
        loop = asyncio.get_running_loop()
        self.order = order
        self.number = number
        self.deadline_s = loop.time() + order.wait_s
        self.future: asyncio.Future[list[Taken]] = loop.create_future()

    @property
    def is_here(self) -> bool:
        return not self.future.done() and self.order.is_present()

    def answer(self, jobs: list[Taken]) -> None:
        if not self.future.done():
            self.future.set_result(jobs)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Group:
    """Takers with the same patterns."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._patterns = patterns
        self.is_plain = all(map(is_type, patterns))
        """It names types, and has no pattern."""
        self._matchers: list[Callable[[str], bool]] = []
        """Of the patterns that were needed so far."""
        self._known: dict[str, bool] = {}
        self.takers: deque[Taker] = deque()

    def named(self, tenant: str, jobtypes: Container[str]) -> list[str]:
        """Of a plain list: those of its types that are among these."""
        own = (jobtype_of(tenant, name) for name in dict.fromkeys(self._patterns))
        return [jobtype for jobtype in own if jobtype in jobtypes]

    def drop_gone(self) -> bool:
        """Let those at the head go who are not there any more. Returns whether somebody is left."""
        while self.takers and not self.takers[0].is_here:
            self.takers.popleft().answer([])
        return bool(self.takers)

    def first(self, before: float) -> list[Taker]:
        """The first that are still there and ask for the same lease, as many as one claim can serve; one, or those who
        came before that number."""
        found: list[Taker] = []
        jobs = 0
        for taker in islice(self.takers, _TAKERS_AT_ONCE):
            jobs += taker.order.limit
            if found and (jobs > _JOBS_AT_ONCE or taker.order.lease_ms != found[0].order.lease_ms):
                break
            if found and taker.number > before:
                break
            if taker.is_here:
                found.append(taker)
        return found

    async def takes(self, jobtype: str, slices: Slices) -> bool:
        known = self._known.get(jobtype)
        if known is None:
            known = await self._compare(type_of(jobtype), slices)
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[jobtype] = known
        else:
            await slices.spend(LOOK_COST)
        return known

    async def _compare(self, name: str, slices: Slices) -> bool:
        for number, pattern in enumerate(self._patterns):
            if number == len(self._matchers):
                self._matchers.append(glob_matcher(pattern))
                await slices.spend(reading_cost(pattern))
            is_match = self._matchers[number](name)
            await slices.spend(glob_cost(pattern))
            if is_match:
                return True
        return False
