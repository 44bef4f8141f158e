"""Clocks that move when they are told to."""

from vocabulary.clock import SystemClock


class FakeClock:
    def __init__(self, now_ms: int = 1_800_000_000_000, *, tick_ms: int = 0) -> None:
        """`tick_ms` goes by at every look at the wall clock."""
        self.wall_ms = now_ms
        self.tick_ms = tick_ms
        self.elapsed_s = 0.0

    def now_ms(self) -> int:
        self.wall_ms += self.tick_ms
        return self.wall_ms

    def monotonic_s(self) -> float:
        return self.elapsed_s

    def advance(self, seconds: float) -> None:
        self.wall_ms += round(seconds * 1000)
        self.elapsed_s += seconds


class LeapingClock(SystemClock):
    """As if the daemon had stood still for a while."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


class FakeTime:
    """In place of the module `time`, for code that blocks: who sleeps moves it."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds
