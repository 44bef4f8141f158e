"""Jobs of a type that come faster than they end start together.

A run of ten jobs costs little more than a run of one, and so does the transaction that records them. A job that comes
while another of its type is on its way through waits for more of them, until a moment after the start of that one. A
job that finds nothing of its type under way starts at once. So whoever adds one job after the end of another loses no
time, and nobody does who waits for an end: a wait starts what is here.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from vocabulary.clock import Clock

MOMENT_S: Final = 0.01
ENOUGH: Final = 32
"""Jobs of a type that do not wait for more."""
_MOST_TYPES: Final = 1000
"""Starts that are remembered. A job of a type that is forgotten starts at once."""


class Gathering:
    def __init__(self, clock: Clock, start: Callable[[str], None]) -> None:
        """start: what waits of a type can start now."""
        self._clock = clock
        self._start = start
        self._under_way: dict[str, float] = {}
        """Types of which a few jobs are on their way through, and since when; the latest at the end."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        """Types whose jobs wait for more."""

    @property
    def is_idle(self) -> bool:
        return not self._under_way

    def started(self, jobtype: str, jobs: int) -> None:
        self._stop_waiting(jobtype)
        if jobs < ENOUGH:
            self._under_way.pop(jobtype, None)
            self._under_way[jobtype] = self._clock.monotonic_s()
            if len(self._under_way) > _MOST_TYPES:
                del self._under_way[next(iter(self._under_way))]

    def ended(self, jobtypes: Iterable[str]) -> None:
        """Jobs of these types are recorded."""
        for jobtype in jobtypes:
            self._under_way.pop(jobtype, None)

    def waits_for_more(self, jobtype: str, jobs: int) -> bool:
        """Whether so many jobs of the type should wait; then they are started later."""
        if jobs >= ENOUGH:
            return False
        if jobtype in self._timers:
            return True
        began_s = self._under_way.get(jobtype)
        left_s = 0.0 if began_s is None else began_s + MOMENT_S - self._clock.monotonic_s()
        if left_s > 0:
            self._timers[jobtype] = asyncio.get_running_loop().call_later(left_s, self.hurry, jobtype)
        return left_s > 0

    def hurry(self, jobtype: str) -> None:
        """What waits of a type starts now."""
        if self._stop_waiting(jobtype):
            self._start(jobtype)

    def close(self) -> None:
        for jobtype in list(self._timers):
            self._stop_waiting(jobtype)

    def _stop_waiting(self, jobtype: str) -> bool:
        timer = self._timers.pop(jobtype, None) if self._timers else None
        if timer is not None:
            timer.cancel()
        return timer is not None
