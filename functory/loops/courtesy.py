"""Courtesy: a tenant with many jobs takes shorter steps while another tenant with a few jobs waits for them.

A step is a batch of jobs that is claimed, read from the journal or recorded. While it takes the event loop and the
writer of the store, all others wait. So for a moment after a tenant's few jobs were started on the straight way, the
steps of the others are shorter: a little beside one that posts a job now and then, as short as makes sense beside one
that adds one job after the other. Nobody rests, and the moment is little more than such a job takes: who posts one now
and then costs the others nearly nothing.
"""

import math
from typing import Final, NamedTuple

from vocabulary.clock import Clock

FEW: Final = 20
"""Jobs of a tenant on their way to the store; with more, it has much to do itself."""
SHORT_STEP: Final = 250
"""Beside a series of single jobs. Shorter ones cost the others too much."""
MEDIUM_STEP: Final = 500
"""Beside a single job. Shorter ones hardly help it: it meets what is under way when it comes."""
LONG_STEP: Final = 1000
"""Longer ones gain nothing more."""
STEP_COST: Final = 80
"""What a step costs in itself is worth so many jobs."""
_MOMENT_S: Final = 0.05
"""What a single job takes beside a flood, and whoever adds one after the other until the next."""
_PAUSE_S: Final = 0.25
"""Who brings nothing for so long begins a new series."""
_SERIES_S: Final = 0.3
"""After so long a series is one: a job alone is over by then."""
_MOST_SERIES: Final = 1000


class _Sighting(NamedTuple):
    tenant: str = ""
    at_s: float = -math.inf


class _LastSeen:
    """The tenant that was seen last, and the last one but for that: so there is always one that is not the asker."""

    def __init__(self) -> None:
        self._last = self._before = _Sighting()

    def see(self, tenant: str, now_s: float) -> None:
        if tenant != self._last.tenant:
            self._before = self._last
        self._last = _Sighting(tenant, now_s)

    def is_recent(self, asker: str, now_s: float) -> bool:
        """Whether another than the asker was seen a moment ago."""
        other = self._before if asker == self._last.tenant else self._last
        return now_s - other.at_s <= _MOMENT_S


class Courtesy:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._anybody, self._in_series = _LastSeen(), _LastSeen()
        self._series: dict[str, tuple[float, float]] = {}
        """Since when a tenant brings a few again and again, and when it last did."""

    def seen(self, tenant: str, jobs: int) -> None:
        """A tenant brings jobs, or they have ended; `jobs` of it are on their way now."""
        if jobs > FEW:
            return
        now_s = self._clock.monotonic_s()
        since_s, last_s = self._series.get(tenant, (now_s, now_s))
        if now_s - last_s > _PAUSE_S:
            since_s = now_s
        elif now_s - since_s > _SERIES_S:
            self._in_series.see(tenant, now_s)
        if len(self._series) >= _MOST_SERIES:
            self._series.clear()
        self._series[tenant] = since_s, now_s
        self._anybody.see(tenant, now_s)

    def step(self, tenant: str, most: int) -> int:
        """How many jobs of the tenant go into one step; `most` if nobody else waits for a few."""
        now_s = self._clock.monotonic_s()
        if not self._anybody.is_recent(tenant, now_s):
            return most
        return min(most, SHORT_STEP if self._in_series.is_recent(tenant, now_s) else MEDIUM_STEP)

    def is_asked_of(self, tenant: str) -> bool:
        """Whether somebody else waits for a few."""
        return self._anybody.is_recent(tenant, self._clock.monotonic_s())
