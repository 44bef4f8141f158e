"""How often the consumers of a tenant look at their windows.

A look costs by the number of indexes in the window, for the store and for the event loop, and a tenant may have a
hundred windows of ten thousand. Ensures: all looks of a tenant together are at INDEXES_PER_S indexes, first come, first
served. Windows of usual size hardly notice it.
"""

from typing import Final

from vocabulary.clock import Clock

INDEXES_PER_S: Final = 30_000
MOST_AHEAD_S: Final = 60.0
"""A turn is no later than this, however many were taken by consumers that are gone by now."""


class LookPace:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._free_s: dict[str, float] = {}
        """By tenant: when the last turn that was taken is over. Without those that are over."""

    def take_turn_s(self, tenant: str, indexes: int) -> float:
        """When a look at so many indexes may begin, by the monotonic clock: now, or after those before it."""
        now_s = self._clock.monotonic_s()
        at_s = min(max(now_s, self._free_s.get(tenant, now_s)), now_s + MOST_AHEAD_S)
        self._free_s = {name: free_s for name, free_s in self._free_s.items() if free_s > now_s}
        self._free_s[tenant] = at_s + indexes / INDEXES_PER_S
        return at_s
