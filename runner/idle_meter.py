"""What a context uses while it is idle: it should be doing nothing.

Pure: the times and what was measured come in as arguments.
"""

import math
from typing import Final

_MEASURE_EVERY_S: Final = 5.0
_BURN_S: Final = 0.1
_BURN_PART: Final = 0.02
"""An idle context that used more processor time than this, and this part of the time, is not idle."""
_GROWTH_BYTES: Final = 16 << 20


class IdleMeter:
    __slots__ = ("_burnt_s", "_cpu_s", "_measured_at", "_watched_at", "memory_bytes")

    def __init__(self) -> None:
        self.memory_bytes = 0  # at the last look
        self._measured_at = -math.inf
        self._cpu_s = 0.0  # processor time that it had used at the last look
        self._burnt_s = 0.0  # of that, since it is idle
        self._watched_at = math.inf  # since when that is known

    def rest(self, now: float, cpu_s: float | None) -> None:
        """It is idle from now on. cpu_s: what it has used so far; None if that is not known before the first look."""
        self._burnt_s = 0.0
        self._watched_at = math.inf
        if cpu_s is not None:
            self._cpu_s, self._watched_at = cpu_s, now

    def is_memory_due(self, now: float) -> bool:
        """Whether it is time to measure the memory. If so, it counts as measured now."""
        if now - self._measured_at <= _MEASURE_EVERY_S:
            return False
        self._measured_at = now
        return True

    def charge(self, cpu_s: float) -> float:
        """Returns what it has burnt since the last look."""
        burnt_s = max(cpu_s - self._cpu_s, 0.0)
        self._cpu_s = cpu_s
        self._burnt_s += burnt_s
        return burnt_s

    def look(self, now: float, cpu_s: float, memory_bytes: int) -> tuple[float, bool]:
        """Returns what it has burnt since the last look, and whether it goes on working or grows."""
        if self._watched_at == math.inf:
            self._cpu_s, self._watched_at = cpu_s, now
            return 0.0, False
        burnt_s = self.charge(cpu_s)
        has_grown = bool(self.memory_bytes) and memory_bytes > 2 * self.memory_bytes + _GROWTH_BYTES
        self.memory_bytes = memory_bytes
        return burnt_s, has_grown or self._burnt_s > _BURN_S + _BURN_PART * (now - self._watched_at)
