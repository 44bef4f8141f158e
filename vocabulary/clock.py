"""The wall clock for times that are kept, a monotonic one for deadlines and ages. Tests bring their own."""

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """UTC, in milliseconds; may step in either direction."""

    def monotonic_s(self) -> float: ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic_s = staticmethod(time.monotonic)
