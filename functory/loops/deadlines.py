"""What is due some fixed time after it began, unless it is over by then, as nearly always.

All of it shares one timer of the event loop: a timer for each that is cancelled a moment later would cost more than
most of what is timed.
"""

import asyncio
from collections.abc import Callable
from itertools import takewhile
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Deadline(Generic[_T]):
    """That of one; `cancel` when it is over."""

    __slots__ = ("_among", "at_s", "what")

    def __init__(self, what: _T, at_s: float, among: "dict[Deadline[_T], None]") -> None:
        self.what = what
        self.at_s = at_s
        self._among = among
        among[self] = None

    def cancel(self) -> None:
        """Idempotent."""
        self._among.pop(self, None)


class Deadlines(Generic[_T]):
    """Belongs to one event loop. Ensures: each is told once, when its time has come, or never if it was cancelled."""

    def __init__(self, after_s: float, when_due: Callable[[_T], object]) -> None:
        self._after_s = after_s
        self._when_due = when_due
        self._ahead: dict[Deadline[_T], None] = {}
        """The next one first: all come equally late."""
        self._timer: asyncio.TimerHandle | None = None
        """Set for one that was the next, which may be over meanwhile."""

    def begin(self, what: _T) -> Deadline[_T]:
        loop = asyncio.get_running_loop()
        deadline = Deadline(what, loop.time() + self._after_s, self._ahead)
        if self._timer is None:
            self._timer = loop.call_at(deadline.at_s, self._look)
        return deadline

    def close(self) -> None:
        """None is told any more of those that have begun."""
        self._ahead.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        due = list(takewhile(lambda deadline: deadline.at_s <= now_s, self._ahead))
        for deadline in due:
            deadline.cancel()
        left = next(iter(self._ahead), None)
        self._timer = None if left is None else loop.call_at(left.at_s, self._look)
        for deadline in due:
            self._when_due(deadline.what)
