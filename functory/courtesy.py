"""Courtesy: who has much to do takes short steps while somebody is here who has little.

A step (a batch that is claimed, read from the journal or recorded) is what everybody else waits for: the event loop,
the store's one writer and a sync. Alone, long steps are the fastest; beside a tenant that waits for single jobs they
are most of what it waits for. So each tenant's steps are cut short for a moment after another one was seen with a few
jobs and nothing else under way. That costs the first one throughput, and only while it is not alone.
"""

from typing import Final

from journal import Clock

FEW: Final = 20
"""Jobs of a tenant on their way to the store: with more of them it has much to do, too."""
SHORT_STEP: Final = 100
_MEMORY_S: Final = 1.0
_MOST_REMEMBERED: Final = 1000


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
        latest = reversed(self._seen)
        other = next((name for name in latest if name != tenant), None)
        if other is None or self._clock.monotonic_s() - self._seen[other] > _MEMORY_S:
            return most
        return min(most, SHORT_STEP)
