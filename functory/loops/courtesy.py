"""Courtesy: a tenant with many jobs takes shorter steps while another tenant with a few jobs is active.

A step is a batch of jobs that is claimed, read from the journal or recorded. While it takes the event loop and the
writer of the store, all others wait. So for a moment after a tenant's few jobs were started on the straight
way, the steps of the others are short, and for a minute they are not long. Nobody rests: that costs the others little.
"""

import math
from typing import Final

from vocabulary.clock import Clock

FEW: Final = 20
"""Jobs of a tenant on their way to the store; with more, it has much to do itself."""
SHORT_STEP: Final = 400
"""Long enough that what a step costs in itself is a small part of it."""
USUAL_STEP: Final = 1000
LONG_STEP: Final = 2000
"""For who has been alone for a while. Longer ones gain nothing more."""
_MOMENT_S: Final = 1.0
_WHILE_S: Final = 60.0
_MOST_REMEMBERED: Final = 1000


class Courtesy:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, float] = {}
        """Tenants with little to do, and when they were last seen, the latest at the end."""

    def seen(self, tenant: str, jobs: int) -> None:
        """A tenant brings jobs; `jobs` of it are on their way now."""
        if jobs > FEW:
            return
        self._seen.pop(tenant, None)
        self._seen[tenant] = self._clock.monotonic_s()
        if len(self._seen) > _MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]

    def step(self, tenant: str, most: int) -> int:
        """How many jobs of the tenant go into one step; `most` when nobody else was here for a while."""
        ago_s = self._seen_ago_s(tenant)
        if ago_s > _WHILE_S:
            return most
        return min(most, SHORT_STEP if ago_s <= _MOMENT_S else USUAL_STEP)

    def _seen_ago_s(self, tenant: str) -> float:
        """Since another tenant with little to do was seen."""
        other = next((name for name in reversed(self._seen) if name != tenant), None)
        return math.inf if other is None else self._clock.monotonic_s() - self._seen[other]
