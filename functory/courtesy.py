"""Courtesy: who has much to do takes short steps, and rests between them, while somebody is here who has little.

A step (a batch that is claimed, read from the journal or recorded) is what everybody else waits for: the event loop,
the store's one writer and a sync. Alone, long steps without a pause are the fastest; beside a tenant that waits for
single jobs they are most of what it waits for. So for a moment after a tenant was seen with a few jobs and nothing else
under way, the steps of the others are cut short, and claims and reads of many jobs are followed by a rest of some times
their length. That costs them throughput, and only while they are not alone.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from journal import Clock

FEW: Final = 20
"""Jobs of a tenant on their way to the store: with more of them it has much to do, too."""
SHORT_STEP: Final = 150
_MEMORY_S: Final = 1.0
_MOST_REMEMBERED: Final = 1000
REST: Final = 5
"""Times the length of the step before. Ever shorter steps without one are dear, and in the way all the time."""
LONGEST_REST_S: Final = 0.05


class Courtesy:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, float] = {}
        """Tenants with little to do, and when they were last here; the latest are at the end."""

    def seen(self, tenant: str, jobs: int) -> None:
        """A tenant brings jobs, and has so many on their way now."""
        if jobs > FEW:
            return
        self._seen.pop(tenant, None)
        self._seen[tenant] = self._clock.monotonic_s()
        if len(self._seen) > _MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]

    def step(self, tenant: str, most: int) -> int:
        """How many jobs of the tenant go into one step, if it is `most` when nobody else is here."""
        return min(most, SHORT_STEP) if self.is_due_to(tenant) else most

    def is_due_to(self, tenant: str) -> bool:
        """Whether somebody else is here who has little to do."""
        other = next((name for name in reversed(self._seen) if name != tenant), None)
        return other is not None and self._clock.monotonic_s() - self._seen[other] <= _MEMORY_S


class Pace:
    """Of steps of one kind, whoever takes them."""

    def __init__(
        self, courtesy: Courtesy, clock: Clock, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._courtesy = courtesy
        self._clock = clock
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._rested_s = 0.0

    @asynccontextmanager
    async def step(self, tenant: str, jobs: int) -> AsyncIterator[None]:
        """A step of up to so many jobs of the tenant. A few never wait, and keep nobody waiting."""
        if jobs <= FEW or not self._courtesy.is_due_to(tenant):
            yield
            return
        now_s = self._clock.monotonic_s
        async with self._turn:
            if (left_s := self._rested_s - now_s()) > 0:
                await self._sleep(left_s)
            began_s = now_s()
            try:
                yield
            finally:
                ended_s = now_s()
                self._rested_s = ended_s + min(REST * (ended_s - began_s), LONGEST_REST_S)
