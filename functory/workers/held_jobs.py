"""The jobs that workers hold, as far as this daemon knows: those that it handed out, and those that a worker took
elsewhere and named here since.

The store is the truth: what is not known here is read there, so nothing is lost when a daemon restarts. Only what a
job said while it runs, its log and its progress, is here alone. Bounded in number, by tenant and in all, and in bytes.
"""

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from functory.execution.afterwards import NOTHING_MORE, Afterwards
from functory.workers.log_tail import LogTail
from functory.workers.values import Verdict
from runner.glimpse import Glimpse
from scheduler.retry import RetryPolicy
from store.base import Job
from vocabulary.names import tenant_of

MOST_OF_ONE: Final = 10_000
MOST_IN_ALL: Final = 100_000
_LOG_BYTES_OF_ONE: Final = 4 << 20
_LOG_BYTES_IN_ALL: Final = 32 << 20

Ending = asyncio.Future[Verdict]
"""What will be said of an outcome when it is recorded."""


class Held:
    """One delivery. job comes without its payload."""

    __slots__ = (
        "afterwards",
        "claimed_ms",
        "data_bytes",
        "ending",
        "job",
        "lease_ms",
        "log",
        "progress",
        "retry",
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
        self.claimed_ms = claimed_ms
        self.until_ms = job.dt_ms
        self.version = version
        self.retry = retry
        self.timeout_ms = timeout_ms
        self.lease_ms = max(job.dt_ms - claimed_ms, 1)
        """As long as it was taken for: what a renewal gives that says nothing else."""
        self.worker = ""
        self.log = LogTail()
        self.progress = b""
        self.ending: Ending | None = None
        """Its end was reported and is on its way to the store."""

    @property
    def tenant(self) -> str:
        return tenant_of(self.job.jobtype)


class HeldJobs:
    def __init__(self, when_changed: Callable[[str, int], None]) -> None:
        """when_changed: so many more (or fewer) jobs of a tenant are held."""
        self._when_changed = when_changed
        self._held: dict[str, Held] = {}
        self._lapses: list[tuple[int, str, int]] = []
        """When each lapses unless it was renewed since: a heap."""
        self._of_tenant: dict[str, dict[str, Held]] = {}
        self._of_type: Counter[str] = Counter()
        self._log_bytes: Counter[str] = Counter()
        self.log_bytes_dropped = 0

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

    def add(self, held: Held) -> None:
        """If there is no room it is not kept, and will be read from the store when it is needed."""
        self.drop(held.job.id)
        if self.room(held.tenant):
            self._held[held.job.id] = held
            self._of_tenant.setdefault(held.tenant, {})[held.job.id] = held
            heapq.heappush(self._lapses, (held.until_ms, held.job.id, held.job.token))
            self._count(held, 1)

    def find(self, tenant: str, job_id: str) -> Held | None:
        held = self._held.get(job_id)
        return held if held is not None and held.tenant == tenant else None

    def drop(self, job_id: str, token: int | None = None) -> None:
        held = self._held.get(job_id)
        if held is not None and token in (None, held.job.token):
            del self._held[job_id], self._of_tenant[held.tenant][job_id]
            self._log_bytes[held.tenant] -= held.log.size_bytes
            self._count(held, -1)

    def drop_lapsed(self, now_ms: int) -> None:
        """Forget what was not renewed here in time: the worker is gone, or talks to another daemon."""
        while self._lapses and self._lapses[0][0] <= now_ms:
            _, job_id, token = heapq.heappop(self._lapses)
            held = self._held.get(job_id)
            if held is None or held.job.token != token:
                continue
            if held.until_ms > now_ms or held.ending is not None:
                heapq.heappush(self._lapses, (max(held.until_ms, now_ms + 1), job_id, token))
            else:
                self.drop(job_id)

    def say(self, held: Held, log: bytes, progress: bytes | None) -> None:
        """What a job says while it runs. Where the logs of a tenant are too large already, it is not kept."""
        if progress is not None:
            held.progress = progress
        if not log:
            return
        tenant, before = held.tenant, held.log.size_bytes
        if self._log_bytes[tenant] > _LOG_BYTES_OF_ONE or self._log_bytes.total() > _LOG_BYTES_IN_ALL:
            self.log_bytes_dropped += len(log)
            return
        held.log.add(log)
        if self._held.get(held.job.id) is held:
            self._log_bytes[tenant] += held.log.size_bytes - before

    def glimpse(self, tenant: str, job_id: str, offset: int) -> Glimpse | None:
        held = self.find(tenant, job_id)
        return None if held is None else Glimpse(*held.log.since(offset), held.progress)

    def _count(self, held: Held, change: int) -> None:
        self._of_type[held.job.jobtype] += change
        if not self._of_type[held.job.jobtype]:
            del self._of_type[held.job.jobtype]
        if not self._of_tenant[held.tenant]:
            del self._of_tenant[held.tenant]
        if not self._log_bytes[held.tenant]:
            del self._log_bytes[held.tenant]
        self._when_changed(held.tenant, change)
