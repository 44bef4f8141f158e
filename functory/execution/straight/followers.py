"""Jobs that follow others of their tenant that are still on the long way.

Without them a stream of single jobs that takes the long way once would stay there for as long as it lasts: each job
would find the one before it in the line. So where only a few are ahead, a job waits here until these are taken up, and
then goes the straight way behind them. Who has waited in vain goes behind them on the long way, and those that come
after it do not wait for a while.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Final

from store.base import NewJob
from vocabulary.clock import Clock
from vocabulary.names import tenant_of

FEW: Final = 32
"""Jobs that may be ahead, and lines of a request that may follow. More are a flood, which is cheap on the long way."""
MOST: Final = 200
"""Jobs of a type that follow."""
TIRED_S: Final = 1.0
"""After jobs of a type waited in vain, because of a cap, say, no others of it wait for this long."""
_MOST_TIRED: Final = 1000


class Followers:
    def __init__(
        self,
        clock: Clock,
        is_clear: Callable[[str], bool],
        ahead: Callable[[str], int | None],
        in_line: Callable[[str], int],
    ) -> None:
        """is_clear: whether nothing of a type waits in the store. ahead: otherwise, how many are about to be taken up
        there; None if they may not be. in_line: lines of a tenant that are on the long way, and not in the store."""
        self._clock = clock
        self._is_clear = is_clear
        self._ahead = ahead
        self._in_line = in_line
        self._jobs: dict[str, list[NewJob]] = {}
        self._since_s: dict[str, float] = {}
        self._tired: dict[str, float] = {}
        """Types of which none follow, and until when."""

    def __contains__(self, jobtype: str) -> bool:
        return jobtype in self._jobs

    def __bool__(self) -> bool:
        return bool(self._jobs)

    @property
    def jobtypes(self) -> list[str]:
        return list(self._jobs)

    def has_none_before(self, jobtype: str) -> bool:
        """Whether a job of the type need follow nobody."""
        return jobtype not in self._jobs and self._is_clear(jobtype) and not self._in_line(tenant_of(jobtype))

    def free(self, jobtypes: Iterable[str] | None = None) -> list[str]:
        """Of these types, or of all, those whose jobs need follow nobody any more."""
        among = self._jobs if jobtypes is None else self._jobs.keys() & jobtypes if self._jobs else ()
        return [name for name in among if self._is_clear(name) and not self._in_line(tenant_of(name))]

    def may_join(self, jobtype: str, count: int) -> bool:
        ahead = self._ahead(jobtype)
        if ahead is None or ahead + self._in_line(tenant_of(jobtype)) > FEW:
            return False
        if count > FEW or count + len(self._jobs.get(jobtype, ())) > MOST:
            return False
        until_s = self._tired.get(jobtype)
        if until_s is None:
            return True
        if until_s > self._clock.monotonic_s():
            return False
        del self._tired[jobtype]
        return True

    def join(self, jobtype: str, jobs: Sequence[NewJob]) -> None:
        if jobtype not in self._jobs:
            self._jobs[jobtype] = []
            self._since_s[jobtype] = self._clock.monotonic_s()
        self._jobs[jobtype] += jobs

    def leave(self, jobtype: str) -> tuple[list[NewJob], float]:
        """With the time since which the first of them followed."""
        return self._jobs.pop(jobtype), self._since_s.pop(jobtype)

    @property
    def oldest_s(self) -> float:
        return min(self._since_s.values(), default=inf)

    def waited(self, for_s: float) -> list[str]:
        """Types that have followed for this long."""
        now_s = self._clock.monotonic_s()
        return [jobtype for jobtype, since_s in self._since_s.items() if now_s - since_s >= for_s]

    def tire(self, jobtype: str) -> None:
        """Its jobs have waited in vain."""
        self._tired.pop(jobtype, None)
        self._tired[jobtype] = self._clock.monotonic_s() + TIRED_S
        if len(self._tired) > _MOST_TIRED:
            del self._tired[next(iter(self._tired))]
