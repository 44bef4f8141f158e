"""Which indexes of a sequence may be worked on, and how far it is done without a gap. Pure: no I/O, no clock.

A consumer works through the indexes 1, 2, 3, ... in order of their start, several at a time, and they end in any order:

    1 2 3 4 5 6 7 8 9 ...          processed = 3: everything up to there is done
    d d d w d w d . .              started = 7: 4 and 6 are in work, 5 and 7 are done ahead of the gap at 4

Ensures:
- Indexes start in order, each once: none is skipped, and none starts again while it is in work or after it is done.
- `processed` never falls, and everything up to it is done.
- At most `max_processing` are in work, and none above `processed + max_search_ahead` starts. So what is kept in memory,
  the indexes that are done ahead of the gap, is fewer than `max_search_ahead`, however long the index at the gap takes.
- `processed` alone is enough to go on after a crash: a new window from it starts what may not be done, in order. Work
  that was done ahead of the gap is then done again, unless its worker finds that out.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from scheduler.errors import InvalidOptions, NotStarted

MAX_INDEX: Final = (1 << 63) - 1


class WindowLimits(NamedTuple):
    """How many indexes may be in work, and how far beyond the last processed one."""

    max_processing: int
    max_search_ahead: int

    def check(self) -> None:
        """Raises InvalidOptions."""
        for name, value in self._asdict().items():
            if value < 1:
                raise InvalidOptions(f"consumer: {name} must be 1 or more, not {value}")


class Span(NamedTuple):
    """Indexes from first to last, all done or all in work."""

    first: int
    last: int
    is_done: bool


class IndexWindow:
    def __init__(self, processed: int, limits: WindowLimits) -> None:
        """processed: the last index below which nothing is missing. Raises InvalidOptions."""
        if not 0 <= processed <= MAX_INDEX:
            raise InvalidOptions(f"consumer: the processed index must be from 0 to {MAX_INDEX}, not {processed}")
        limits.check()
        self.limits = limits
        """May be changed at any time. What is in work stays in work."""
        self._processed = processed
        self._started = processed
        self._done: set[int] = set()
        """Ahead of the gap."""

    @property
    def processed(self) -> int:
        return self._processed

    @property
    def started(self) -> int:
        """The last index that was started."""
        return self._started

    @property
    def in_work(self) -> int:
        """How many are in work."""
        return self._started - self._processed - len(self._done)

    @property
    def done_ahead(self) -> int:
        """How many are done ahead of the gap."""
        return len(self._done)

    def is_in_work(self, index: int) -> bool:
        return self._processed < index <= self._started and index not in self._done

    def startable(self, head: int) -> range:
        """The indexes that may start now, in the order in which they must. head: the last one that there is."""
        free = self.limits.max_processing - self.in_work
        last = min(head, self._processed + self.limits.max_search_ahead, self._started + max(free, 0))
        return range(self._started + 1, last + 1)

    def start(self, index: int) -> None:
        """The next index is in work from now on. Raises NotStarted for any other: it would leave a gap."""
        if index != self._started + 1:
            raise NotStarted(f"index {index} cannot start: the next is {self._started + 1}")
        self._started = index

    def finish(self, index: int) -> bool:
        """An index is done. Returns whether `processed` has moved; what is done already may be reported again.
        Raises NotStarted."""
        if index > self._started:
            raise NotStarted(f"index {index} cannot be done: it has not started, the last that has is {self._started}")
        if index <= self._processed or index in self._done:
            return False
        if index != self._processed + 1:
            self._done.add(index)
            return False
        while index + 1 in self._done:
            index += 1
            self._done.remove(index)
        self._processed = index
        return True

    def spans(self) -> Iterator[Span]:
        """The indexes after `processed` that have started, in order, as few spans as there can be."""
        first = self._processed + 1
        for index in range(first, self._started + 1):
            is_last = index == self._started
            if is_last or (index in self._done) != (index + 1 in self._done):
                yield Span(first, index, index in self._done)
                first = index + 1
