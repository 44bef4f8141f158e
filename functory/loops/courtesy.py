"""Courtesy: a tenant with many jobs takes shorter steps while another tenant with a few jobs waits for them.

A step is a batch of jobs that is claimed, read from the journal or recorded. While it takes the event loop and the
writer of the store, all others wait. So for a moment after a tenant's few jobs were started on the straight
way, the steps of the others are short. Nobody rests, and the moment is little more than such a job takes: who posts one
now and then costs the others nearly nothing.
"""

import math
from typing import Final

from vocabulary.clock import Clock

FEW: Final = 20
"""Jobs of a tenant on their way to the store; with more, it has much to do itself."""
SHORT_STEP: Final = 250
"""Shorter ones cost the others too much."""
STEP_COST: Final = 80
"""What a step costs in itself is worth so many jobs."""
LONG_STEP: Final = 2000
"""Longer ones gain nothing more."""
_MOMENT_S: Final = 0.05
"""What a single job takes beside a flood, and whoever adds one after the other until the next."""


class Courtesy:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = self._before = ("", -math.inf)
        """The tenant with little to do that was seen last, and the last one but for that; and when."""

    def seen(self, tenant: str, jobs: int) -> None:
        """A tenant brings jobs; `jobs` of it are on their way now."""
        if jobs > FEW:
            return
        if tenant != self._last[0]:
            self._before = self._last
        self._last = tenant, self._clock.monotonic_s()

    def step(self, tenant: str, most: int) -> int:
        """How many jobs of the tenant go into one step; `most` if nobody else waits for a few."""
        return min(most, SHORT_STEP) if self.is_asked_of(tenant) else most

    def is_asked_of(self, tenant: str) -> bool:
        """Whether somebody else waits for a few."""
        _, seen_s = self._before if tenant == self._last[0] else self._last
        return self._clock.monotonic_s() - seen_s <= _MOMENT_S
