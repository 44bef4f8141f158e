"""What waits in the store, as the last look saw it, and what is known to have changed since.

Ensures: a type counts as clear only if a look that is not old saw nothing of it, and nothing of it was added since that
look began. So a job that starts without the store overtakes nothing that this daemon could know of.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from functory.intake.job_options import DEFAULT_PRIORITY
from handlers.errors import HandlerError
from scheduler.claim_pause import REST_S, pause_s
from scheduler.errors import SchedulerError
from store.base import Job, Store, WaitingType
from store.errors import StoreUnavailable
from vocabulary.clock import Clock
from vocabulary.columns import fields
from vocabulary.names import tenant_of

log = logging.getLogger("functory.execute")

WHY_NOT: Final = (StoreUnavailable, HandlerError, SchedulerError)
"""What keeps a batch from running, and does not come from its jobs."""
_MOST_UNABLE: Final = 20_000
_REASON_CHARS: Final = 500
_KEY: Final = fields(Job, "key")


class Outlook:
    def __init__(
        self, store: Store, clock: Clock, life_s: float, meet: Callable[[Mapping[str, int]], Awaitable[None]]
    ) -> None:
        """life_s: how old a look may be that says that nothing waits. meet: told the tenants of what waits, and when
        each was created, before anything of them starts."""
        self._store = store
        self._meet = meet
        self._clock = clock
        self._life_s = life_s
        self.unable: dict[str, int] = {}
        """Types whose handler does not run here, for its language, or cannot be read, with the handler's version."""
        self._unreadable: dict[str, str] = {}
        """Those of them whose handler cannot be read, and why."""
        self.versions: dict[str, int] = {}
        """The handler versions in force, of the types that could run, or can when they have rested."""
        self.waiting: dict[str, int] = {}
        """Jobs of all types with a handler that waited, without those that claims under way were taking."""
        self._seen: dict[str, WaitingType] = {}
        """What the last look saw of types that could run."""
        self._looked: Sequence[WaitingType] = ()
        self.untried: dict[str, float] = {}
        """Runnable types for which no claim was tried, and since when."""
        self._counted: dict[str, int] = {}
        """All that waited at the last look, by type."""
        self._resting: dict[str, tuple[float, int]] = {}
        """Types whose last claim found nothing: until when they rest, and how many waited when that began."""
        self._in_vain: dict[str, float] = {}
        """Types of which jobs wait and claims find nothing, and since when."""
        self._counted_out: dict[str, int] = {}
        """What claims that were under way at the last look were taking: it is not among what waited."""
        self._is_looking = False
        self._added: set[str] = set()
        """Types that were added to since the last look began, as long as that counts."""
        self._asked: set[str] = set()
        """Types that were added to before that, while the look is under way."""
        self._changed: set[str] = set()
        """Tenants whose handlers or pauses were changed since then; "" for all."""
        self.on_fewer: Callable[[Iterable[str]], None] = _nobody
        """Told the types of jobs that have been taken: fewer wait than before."""
        self.looked_s = -math.inf
        self.looks = 0

    async def look(self, claiming: Mapping[str, int]) -> list[WaitingType]:
        """Ask the store. Returns the types that could run here. `claiming`: what claims under way are taking."""
        now_s = self._clock.monotonic_s()
        self._resting = {jobtype: rest for jobtype, rest in self._resting.items() if rest[0] > now_s}
        self.looks += 1
        taken = dict(claiming)
        self._asked, self._added = self._added | self._asked, set()
        changed, self._changed = self._changed, set()
        self._is_looking = True
        try:
            waiting = await self._store.get_waiting_jobtypes(now_ms=self._clock.now_ms(), runnable=True)
            await self._meet({tenant_of(each.jobtype): each.tenant_created_ms for each in waiting})
        except BaseException:
            self._added |= self._asked
            self._changed |= changed
            raise
        finally:
            self._is_looking = False
        self._asked = set()
        self.looked_s = now_s
        self._looked = waiting
        self._counted_out = dict(taken)
        self._counted = {each.jobtype: each.waiting for each in waiting}
        for jobtype, (_, waited) in list(self._resting.items()):
            if self._counted.get(jobtype, 0) > waited:  # one that came due may be able to run
                del self._resting[jobtype]
        self.waiting = {each.jobtype: max(0, each.waiting - taken.get(each.jobtype, 0)) for each in waiting}
        versions = {each.jobtype: each.handler_version for each in waiting}
        kept = [item for item in self.unable.items() if versions.get(*item) == item[1]]
        self.unable = dict(kept[-_MOST_UNABLE:])
        self._unreadable = {name: reason for name, reason in self._unreadable.items() if name in self.unable}
        able = [each for each in waiting if each.handler_version and each.jobtype not in self.unable]
        runnable = [each for each in able if each.jobtype not in self._resting]
        self._in_vain = {jobtype: since_s for jobtype, since_s in self._in_vain.items() if jobtype in versions}
        self.versions = {each.jobtype: each.handler_version for each in able}
        self._seen = {each.jobtype: each for each in able}
        self.untried = {each.jobtype: self.untried.get(each.jobtype, now_s) for each in runnable}
        return runnable

    def seen(self) -> Sequence[WaitingType] | None:
        """All types with a handler of which jobs waited at the last look, wherever they run; None if that is old."""
        return self._looked if self.age_s <= self._life_s else None

    def could_not_run(self, jobtype: str, version: int, error: Exception) -> None:
        """Its jobs wait: for the store, or, if a newer version of this program has stored their handler, for a daemon
        that can read it."""
        if isinstance(error, StoreUnavailable):
            log.warning("execute.store_unavailable", extra={"reason": str(error)})
            return
        self.unable[jobtype], self._unreadable[jobtype] = version, str(error)[:_REASON_CHARS]
        log.warning("execute.handler_unreadable", extra={"jobtype": jobtype, "reason": str(error)})

    def why_unreadable(self, jobtype: str) -> str:
        """Why the handler in force cannot be read, if jobs of the type wait for that; "" if it can, as far as is
        known."""
        return self._unreadable.get(jobtype, "")

    def forget(self, tenant: str) -> None:
        """A handler or a rate of the tenant ("": of any) was set, a pause ended, or its packages have come: more may
        wait than the last look saw, and what did not run here may."""
        if self._must_remember:
            self._changed.add(tenant)
        self.unable = {name: version for name, version in self.unable.items() if tenant and tenant_of(name) != tenant}
        self._unreadable = {name: reason for name, reason in self._unreadable.items() if name in self.unable}
        self._resting = {name: rest for name, rest in self._resting.items() if tenant and tenant_of(name) != tenant}

    def added(self, jobtypes: Iterable[str]) -> None:
        counts = self._must_remember
        for jobtype in jobtypes:
            self._resting.pop(jobtype, None)
            if counts:
                self._added.add(jobtype)

    @property
    def _must_remember(self) -> bool:
        """Whether what happens now is missing in a look that counts. Where that is too old, nothing is known anyway,
        until one that has yet to begin: a daemon that never looks would remember all types that there ever were."""
        return self._is_looking or self.age_s <= self._life_s

    def freed(self, jobs: Sequence[Job]) -> None:
        """These ended. Where one had a key, others with the same key may start."""
        if self._resting and any(map(_KEY, jobs)):
            for job in jobs:
                if job.key:
                    self._resting.pop(job.jobtype, None)

    def taken(self, jobtype: str, count: int) -> None:
        """A claim took these: they do not wait any more. Without this, who posts one job after the other would find the
        one before in the last look, and never go the straight way again."""
        if count:
            self._in_vain.pop(jobtype, None)
            self._counted[jobtype] = max(0, self._counted.get(jobtype, 0) - count)
        before = min(count, self._counted_out.get(jobtype, 0))
        if before:
            self._counted_out[jobtype] -= before
        left = self.waiting.get(jobtype, 0) - (count - before)
        if left > 0:
            self.waiting[jobtype] = left
        else:
            self.waiting.pop(jobtype, None)
        self.on_fewer((jobtype,))

    def rest(self, jobtype: str, next_ms: int | None = None, *, has_cap: bool = False) -> float:
        """A claim of it found nothing, or too little, and what waits may have a token at next_ms, if that is known.
        Returns after how many seconds it may be tried again. has_cap: keys of the type have a cap."""
        now_s = self._clock.monotonic_s()
        token_s = None if next_ms is None else (next_ms - self._clock.now_ms()) / 1000
        since_s = self._in_vain.setdefault(jobtype, now_s + max(token_s or 0.0, 0.0))  # before that, nothing is in vain
        in_vain_s = max(0.0, now_s - since_s)
        until_s = now_s + pause_s(in_vain_s, token_s, has_cap=has_cap)
        if next_ms is None and until_s - now_s > 2 * REST_S:
            until_s -= until_s % REST_S  # those that rest for long are looked for together
        self._resting[jobtype] = until_s, self._counted.get(jobtype, 0)
        return until_s - now_s

    def rested(self, jobtypes: Iterable[str]) -> None:
        """These may be tried again."""
        for jobtype in jobtypes:
            self._resting.pop(jobtype, None)

    def claimable(self, jobtype: str) -> int:
        """How many waited of a type, without what was taken since: none if it rests, or could not run."""
        can_run = jobtype in self._seen and jobtype not in self._resting and jobtype not in self.unable
        return self.waiting.get(jobtype, 0) if can_run else 0

    def oldest_due_ms(self, jobtype: str) -> int:
        """Of a type of which some are claimable."""
        return self._seen[jobtype].oldest_due_ms

    def priority(self, jobtype: str) -> int:
        """The highest of what waited."""
        seen = self._seen.get(jobtype)
        return DEFAULT_PRIORITY if seen is None else seen.priority

    def has_urgent(self, jobtype: str) -> bool:
        """Whether the last look saw jobs that can start and have a higher priority than most: one came due, say."""
        return self.claimable(jobtype) > 0 and self.priority(jobtype) > DEFAULT_PRIORITY

    def is_clear(self, jobtype: str) -> bool:
        """Whether nothing of the type is known to wait in the store."""
        return (
            jobtype not in self.waiting
            and jobtype not in self._added
            and jobtype not in self._asked
            and self._is_known(jobtype)
        )

    def ahead(self, jobtype: str) -> int | None:
        """How many of the type the last look saw; None if what waits may not be about to start."""
        may_start = jobtype not in self._resting and self._is_known(jobtype)
        return self.waiting.get(jobtype, 0) if may_start else None

    def _is_known(self, jobtype: str) -> bool:
        """Whether the last look holds for the type, and it runs here."""
        return (
            jobtype not in self.unable
            and (not self._changed or self._changed.isdisjoint(("", tenant_of(jobtype))))
            and self._clock.monotonic_s() - self.looked_s <= self._life_s
        )

    @property
    def age_s(self) -> float:
        return self._clock.monotonic_s() - self.looked_s

    def due_in_s(self, every_s: float) -> float:
        """After how long the next look is due. Where one is overdue nothing can be started now, and it waits as long as
        for any other."""
        left_s = every_s - self.age_s
        return left_s if left_s > 0 else every_s

    def untried_for(self, for_s: float) -> list[str]:
        """Types with runnable jobs for which no claim was tried for this long."""
        now_s = self._clock.monotonic_s()
        return sorted(jobtype for jobtype, since_s in self.untried.items() if now_s - since_s >= for_s)


def _nobody(_jobtypes: Iterable[str]) -> None:
    """Nobody waits for that."""
