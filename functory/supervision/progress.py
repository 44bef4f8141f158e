"""What the daemon's loops are doing now, and since when. The watchdog uses it to tell slow from stuck.

A loop wraps each piece of work in a step. Outside its steps it waits for work, for as long as it takes. A step that
does not end is a loop that is stuck. Calls to the store have timeouts of their own, so a store that is away causes
short steps that fail, not a long one.
"""

from collections.abc import Callable


class Progress:
    """Belongs to one event loop. Steps of one name may overlap."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._steps: dict[object, tuple[str, float]] = {}

    def step(self, name: str) -> "Step":
        """Work that must come to an end."""
        return Step(self._steps, name, self._monotonic_s())

    def beat(self, name: str) -> None:
        """The steps of this name make progress: for a step with many parts, each of which may take its time."""
        now_s = self._monotonic_s()
        self._steps |= {key: (name, now_s) for key, (known, _) in self._steps.items() if known == name}

    def longest_s(self) -> float:
        """Age of the oldest step under way."""
        now_s = self._monotonic_s()
        return max((now_s - since_s for _, since_s in self._steps.values()), default=0.0)

    def stalled(self, longer_than_s: float) -> list[str]:
        """Names of the loops that have been in one step for longer than this."""
        now_s = self._monotonic_s()
        return sorted({name for name, since_s in self._steps.values() if now_s - since_s > longer_than_s})


class Step:
    """One piece of work, which has begun when this is entered."""

    __slots__ = ("_begun", "_steps")

    def __init__(self, steps: dict[object, tuple[str, float]], name: str, now_s: float) -> None:
        self._steps = steps
        self._begun = (name, now_s)

    def __enter__(self) -> None:
        self._steps[self] = self._begun

    def __exit__(self, *_: object) -> None:
        del self._steps[self]
