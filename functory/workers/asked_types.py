"""Which workers take a type, and when one last asked for it. Patterns are compared in slices that count the work: a
tenant may have hundreds of workers with patterns of their own, and thousands of types."""

from collections.abc import Callable, Iterable

from functory.loops.slices import Slices
from functory.workers.presence import Seen
from vocabulary.glob import glob_cost, glob_matcher, reading_cost


class AskedTypes:
    """Of the workers that it is made with."""

    def __init__(self, workers: Iterable[Seen]) -> None:
        self._workers = list(workers)
        latest: dict[str, int] = {}
        for seen in self._workers:
            for pattern in seen.types:
                latest[pattern] = max(seen.asked_ms, latest.get(pattern, 0))
        self._latest = sorted(latest.items(), key=lambda row: -row[1])
        """Patterns with the last time that somebody asked for them, the latest first."""
        self._matchers: dict[str, Callable[[str], bool]] = {}
        self._slices = Slices()

    async def last_ms(self, type_name: str, since_ms: int) -> int:
        """When one last asked for the type; since_ms if none did after that."""
        for pattern, asked_ms in self._latest:
            if asked_ms <= since_ms:
                break
            if await self._matches(pattern, type_name):
                return asked_ms
        return since_ms

    async def workers_of(self, type_name: str) -> list[Seen]:
        """Those that take the type."""
        fitting = {pattern for pattern, _ in self._latest if await self._matches(pattern, type_name)}
        return [seen for seen in self._workers if not fitting.isdisjoint(seen.types)]

    async def _matches(self, pattern: str, type_name: str) -> bool:
        matcher = self._matchers.get(pattern)
        if matcher is None:
            matcher = self._matchers[pattern] = glob_matcher(pattern)
            await self._slices.spend(reading_cost(pattern))
        is_match = matcher(type_name)
        await self._slices.spend(glob_cost(pattern))
        return is_match
