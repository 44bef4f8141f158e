"""Jobs on the straight way that wait for the scheduler's pick: by type, in their order, bounded in number and bytes.

Those that follow others (followers.py) are counted here, too. So are those that the reader brings, which may take only
a part of the room: others still find some. A part is kept for tenants of which few wait: whoever posts thousands, in
however many types, does not send the single jobs of the others on the long way.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from functory.intake.weights import Tally
from functory.loops.courtesy import LONG_STEP
from store.base import NewJob
from vocabulary.clock import Clock
from vocabulary.columns import fields
from vocabulary.names import tenant_of

RETURN_AFTER_S: Final = 0.03
"""A job that was not started within this time takes the long way."""
_RETURN_MANY_AFTER_S: Final = 1.0
"""The same where many of its type wait and no other daemon could run them: they start together, up to LONG_STEP."""
_LONGEST_S: Final = 20.0
"""However often its type has its turn, none that is older waits here: the journal keeps everything from its line on.
The reader brings none that is half as old."""
_MANY: Final = 32
_ENOUGH: Final = 2 * LONG_STEP
"""With so many the reader brings no more."""
_MOST: Final = 8000
_MOST_OF_ONE: Final = 1000
"""In one request, and before the jobs of a request."""
_MOST_BYTES: Final = 16 << 20
_KEPT: Final = 1000
_KEPT_BYTES: Final = 4 << 20
"""Of these, for tenants of which at most _MANY wait."""
_LARGEST_BYTES: Final = 64 << 10
_DATA: Final = fields(NewJob, "data")


class WaitingJobs:
    def __init__(self, clock: Clock, is_alone: Callable[[], bool]) -> None:
        self._clock = clock
        self._is_alone = is_alone
        self._jobs: dict[str, deque[NewJob]] = {}
        self._since_s: dict[str, float] = {}
        """Since when the first of a type waits."""
        self._lines = 0
        self._lines_of = Tally()
        self._size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __contains__(self, jobtype: str) -> bool:
        return jobtype in self._jobs

    def __iter__(self) -> Iterator[str]:
        return iter(self._jobs)

    def of(self, jobtype: str) -> int:
        return len(self._jobs.get(jobtype, ()))

    # Room

    def have_room(self, jobtype: str, lines: Sequence[bytes]) -> bool:
        """For the lines of a request."""
        are_few = self._lines_of.get(tenant_of(jobtype), 0) + len(lines) <= _MANY
        most, most_bytes = (_MOST, _MOST_BYTES) if are_few else (_MOST - _KEPT, _MOST_BYTES - _KEPT_BYTES)
        return len(lines) + len(self._jobs.get(jobtype, ())) <= _MOST_OF_ONE and self._fit(lines, most, most_bytes)

    def may_follow(self, lines: Sequence[bytes]) -> bool:
        """Whether there is room for lines that the reader brings, and nobody else could run them."""
        return self._is_alone() and self._fit(lines, _MOST - _KEPT, _MOST_BYTES // 2)

    def _fit(self, lines: Sequence[bytes], most: int, most_bytes: int) -> bool:
        sizes = list(map(len, lines))
        return (
            len(lines) + self._lines <= most
            and sum(sizes) + self._size_bytes <= most_bytes
            and max(sizes) <= _LARGEST_BYTES
        )

    def count(self, jobs: Sequence[NewJob], sign: int) -> None:
        """Jobs of one type come (1), or they leave (-1)."""
        if jobs:
            self._lines += sign * len(jobs)
            self._lines_of.add(tenant_of(jobs[0].jobtype), sign * len(jobs))
            self._size_bytes += sign * sum(map(len, map(_DATA, jobs)))

    def are_enough(self, jobtype: str) -> bool:
        """Whether the reader need not bring more of the type; "": of whatever type."""
        return (self.of(jobtype) if jobtype else self._lines) > _ENOUGH

    # Jobs, which are counted

    def add(self, jobtype: str, jobs: Sequence[NewJob], since_s: float) -> None:
        if jobtype not in self._jobs:
            self._jobs[jobtype] = deque()
            self._since_s[jobtype] = since_s
        self._jobs[jobtype].extend(jobs)

    def start(self, jobtype: str, most: int) -> list[NewJob]:
        """They do not wait any more. The others wait anew: their type has its turn."""
        waiting = self._jobs[jobtype]
        if most < len(waiting):
            started = [waiting.popleft() for _ in range(most)]
            self.renew(jobtype)
        else:
            started = self.leave(jobtype)
        self.count(started, -1)
        return started

    def leave(self, jobtype: str) -> list[NewJob]:
        """All of the type. They are counted until `count` is told."""
        self._since_s.pop(jobtype, None)
        return list(self._jobs.pop(jobtype, ()))

    def renew(self, jobtype: str) -> None:
        self._since_s[jobtype] = self._clock.monotonic_s()

    def until_s(self, jobtype: str) -> float:
        """Until when jobs of a type may wait here."""
        is_flood = self.of(jobtype) > _MANY and self._is_alone()
        until_s = self._since_s[jobtype] + (_RETURN_MANY_AFTER_S if is_flood else RETURN_AFTER_S)
        age_s = (self._clock.now_ms() - self._jobs[jobtype][0].create_ms) / 1000
        return min(until_s, self._clock.monotonic_s() + _LONGEST_S - age_s)
