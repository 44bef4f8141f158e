"""How many jobs a worker ends in a minute."""

from typing import Final

_MINUTE_MS: Final = 60_000


class Pace:
    """Two counts, whatever the pace: of the minute that runs, and of the one before."""

    __slots__ = ("_before", "_minute", "_now")

    def __init__(self) -> None:
        self._minute = self._now = self._before = 0

    def add(self, count: int, now_ms: int) -> None:
        self._turn(now_ms)
        self._now += count

    def per_minute(self, now_ms: int) -> float:
        """Over the last sixty seconds, as if the jobs of the minute before had come evenly."""
        self._turn(now_ms)
        return self._now + self._before * (1 - now_ms % _MINUTE_MS / _MINUTE_MS)

    def _turn(self, now_ms: int) -> None:
        minute = now_ms // _MINUTE_MS
        if minute != self._minute:
            self._before = self._now if minute == self._minute + 1 else 0
            self._now = 0
            self._minute = minute
