"""The jobs that workers hold, as far as this daemon knows: those that it handed out, and those that a worker took
elsewhere and named here since.

The store is the truth: what is not known here is read there, so nothing is lost when a daemon restarts. Only what a
job said while it runs, its log and its progress, is here alone. Bounded in number, by tenant and in all, and in bytes.
"""

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from functory.execution.afterwards import NOTHING_MORE, Afterwards
from functory.loops.job_mark import mark_of
from functory.workers.log_tail import KEPT_BYTES, LogTail
from functory.workers.values import Verdict
from runner.glimpse import Glimpse
from scheduler.retry import RetryPolicy
from store.base import Job
from vocabulary.names import tenant_of

MOST_OF_ONE: Final = 10_000
MOST_IN_ALL: Final = 100_000
_SPARE: Final = 100
_AGAIN_MS: Final = 1000
_LOG_BYTES_OF_ONE: Final = 4 << 20
_LOG_BYTES_IN_ALL: Final = 32 << 20
_SMALL_LOGS_BYTES: Final = 64 << 10
"""What a tenant's logs may have however large those of the others are."""
_SHORT_LOG_BYTES: Final = 256
"""What each may have, however large the others are."""

Ending = asyncio.Future[Verdict]
"""What will be said of an outcome when it is recorded."""


class Held:
    """One delivery. job comes without its payload."""

    __slots__ = (
        "__weakref__",
        "afterwards",
        "claimed_ms",
        "data_bytes",
        "ending",
        "job",
        "lease_ms",
        "log",
        "progress",
        "reported",
        "retry",
        "taken_here",
        "tenant",
        "timeout_ms",
        "until_ms",
        "version",
        "worker",
    )

    def __init__(
        self,
        job: Job,
        claimed_ms: int,
        version: int,
        retry: RetryPolicy,
        timeout_ms: int | None,
        afterwards: Afterwards = NOTHING_MORE,
    ) -> None:
        self.afterwards = afterwards
        self.data_bytes = len(job.data)
        self.job = job._replace(data=b"")
        self.tenant = tenant_of(job.jobtype)
        self.claimed_ms = claimed_ms
        self.until_ms = job.dt_ms
        self.version = version
        self.retry = retry
        self.timeout_ms = timeout_ms
        self.reported: int | None = None
        """The exit code that a worker has ended it with."""
        self.lease_ms = max(job.dt_ms - claimed_ms, 1)
        """As long as it was taken for: what a renewal gives that says nothing else."""
        self.taken_here = True
        """False: another daemon has handed it out, and counts it."""
        self.worker = ""
        self.log = LogTail()
        self.progress = b""
        self.ending: Ending | None = None
        """Its end was reported and is on its way to the store."""

    @property
    def deadline_ms(self) -> int | None:
        """Until when it can be held, with all renewals. None: for ever, or until its fixed lease lapses."""
        is_fixed = self.job.retry_after_ms is not None
        return None if self.timeout_ms is None or is_fixed else self.claimed_ms + self.timeout_ms


class HeldJobs:
    """Jobs come and go by the batch, and whoever counts them is told once for each."""

    def __init__(self, when_changed: Callable[[str, int], None]) -> None:
        """when_changed: so many more (or fewer) jobs of a tenant are held."""
        self._when_changed = when_changed
        self._held: dict[str, Held] = {}
        self._lapses: list[tuple[int, str, int]] = []
        """When each lapses unless it was renewed since: a heap. About as many that have ended may be in it, too."""
        self._deadlines: list[tuple[int, str, int]] = []
        """When those that were taken here cannot be held any more: the same."""
        self._of_tenant: dict[str, dict[str, Held]] = {}
        self._of_type: Counter[str] = Counter()
        self._of_mark: dict[int, str] = {}
        """By the mark that other daemons name a job by; of two with one mark, the last."""
        self._log_bytes: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._held)

    def room(self, tenant: str) -> int:
        return max(min(MOST_OF_ONE - len(self._of_tenant.get(tenant, ())), MOST_IN_ALL - len(self._held)), 0)

    def count_type(self, jobtype: str) -> int:
        return self._of_type[jobtype]

    def by_worker(self, tenant: str) -> Counter[str]:
        """How many jobs of the tenant each worker holds, by its name."""
        return Counter(held.worker for held in self._of_tenant.get(tenant, {}).values())

    def of_worker(self, tenant: str, name: str) -> Iterator[Held]:
        return (held for held in self._of_tenant.get(tenant, {}).values() if held.worker == name)

    def add(self, some: Iterable[Held]) -> None:
        """One for which there is no room is not kept, and will be read from the store when it is needed."""
        changes: Counter[str] = Counter()
        for held in some:
            job_id, tenant = held.job.id, held.tenant
            self._remove(job_id, None, changes)
            if self.room(tenant):
                self._held[job_id] = held
                self._of_tenant.setdefault(tenant, {})[job_id] = held
                heapq.heappush(self._lapses, (held.until_ms, job_id, held.job.token))
                if held.taken_here and held.deadline_ms is not None:
                    heapq.heappush(self._deadlines, (held.deadline_ms, job_id, held.job.token))
                self._of_type[held.job.jobtype] += 1
                self._of_mark[mark_of(job_id)] = job_id
                changes[tenant] += 1
        self._tell(changes)

    def find(self, tenant: str, job_id: str) -> Held | None:
        held = self._held.get(job_id)
        return held if held is not None and held.tenant == tenant else None

    def drop(self, some: Iterable[tuple[str, int | None]]) -> None:
        """Forget these deliveries: an id and its token each, or None for whichever it is."""
        changes: Counter[str] = Counter()
        for job_id, token in some:
            self._remove(job_id, token, changes)
        self._tell(changes)

    def ids(self) -> list[str]:
        return list(self._held)

    def drop_tenant(self, tenant: str) -> None:
        self.drop([(job_id, None) for job_id in self._of_tenant.get(tenant, ())])

    def of_tenant(self, tenant: str) -> list[Held]:
        return list(self._of_tenant.get(tenant, {}).values())

    def marked(self, marks: Iterable[int]) -> list[Held]:
        """Those with one of these marks."""
        return [self._held[self._of_mark[mark]] for mark in marks if mark in self._of_mark]

    def lapsed(self, now_ms: int) -> list[Held]:
        """What was not renewed here in time: the worker is gone, or talks to another daemon. It is named again in a
        moment, unless it was dropped."""
        found: list[Held] = []
        while self._lapses and self._lapses[0][0] <= now_ms:
            _, job_id, token = heapq.heappop(self._lapses)
            held = self._held.get(job_id)
            if held is None or held.job.token != token:
                continue
            heapq.heappush(self._lapses, (max(held.until_ms, now_ms + 1), job_id, token))
            if held.until_ms <= now_ms and held.ending is None:
                found.append(held)
        return found

    def overdue(self, now_ms: int, limit: int) -> list[Held]:
        """Those that were taken here and are held for longer than their type allows, unless their end is on its way.
        They are named again a moment later, as long as they are held."""
        found: list[Held] = []
        seen: list[tuple[int, str, int]] = []
        while self._deadlines and self._deadlines[0][0] <= now_ms and len(found) < limit:
            entry = heapq.heappop(self._deadlines)
            held = self._held.get(entry[1])
            if held is not None and held.job.token == entry[2]:
                seen.append(entry)
                if held.ending is None:
                    found.append(held)
        for entry in seen:
            heapq.heappush(self._deadlines, (now_ms + _AGAIN_MS, *entry[1:]))
        return found

    def say(self, held: Held, log: bytes, progress: bytes | None, *, is_over: bool) -> None:
        """What a job says while it runs, or with its end. Where the logs of a tenant are too large already, those of
        jobs that run do not grow: the newest lines take the place of older ones."""
        if progress is not None:
            held.progress = progress
        if not log:
            return
        before = held.log.size_bytes
        may_grow = is_over or self._has_room_for_logs(held.tenant)
        held.log.add(log, KEPT_BYTES if may_grow else max(before, _SHORT_LOG_BYTES))
        if self._held.get(held.job.id) is held:
            self._log_bytes[held.tenant] += held.log.size_bytes - before

    def _has_room_for_logs(self, tenant: str) -> bool:
        own = self._log_bytes[tenant]
        return own <= _SMALL_LOGS_BYTES or (own <= _LOG_BYTES_OF_ONE and self._log_bytes.total() <= _LOG_BYTES_IN_ALL)

    def glimpse(self, tenant: str, job_id: str, offset: int) -> Glimpse | None:
        held = self.find(tenant, job_id)
        return None if held is None else Glimpse(*held.log.since(offset), held.progress, held.job.attempts)

    def _remove(self, job_id: str, token: int | None, changes: Counter[str]) -> None:
        held = self._held.get(job_id)
        if held is None or token not in (None, held.job.token):
            return
        tenant, jobtype = held.tenant, held.job.jobtype
        del self._held[job_id], self._of_tenant[tenant][job_id]
        if self._of_mark.get(mark := mark_of(job_id)) == job_id:
            del self._of_mark[mark]
        self._of_type[jobtype] -= 1
        if not self._of_type[jobtype]:
            del self._of_type[jobtype]
        self._log_bytes[tenant] -= held.log.size_bytes
        changes[tenant] -= 1
        if len(self._lapses) > 2 * len(self._held) + _SPARE:
            self._lapses = [(each.until_ms, each.job.id, each.job.token) for each in self._held.values()]
            heapq.heapify(self._lapses)
        if len(self._deadlines) - _SPARE > 2 * len(self._held):
            entries = (
                (each.deadline_ms, each.job.id, each.job.token) for each in self._held.values() if each.taken_here
            )
            self._deadlines = [(at_ms, job_id, token) for at_ms, job_id, token in entries if at_ms is not None]
            heapq.heapify(self._deadlines)

    def _tell(self, changes: Counter[str]) -> None:
        for tenant, change in changes.items():
            if not self._of_tenant[tenant]:
                del self._of_tenant[tenant]
            if not self._log_bytes[tenant]:
                del self._log_bytes[tenant]
            self._when_changed(tenant, change)
