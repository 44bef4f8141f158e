"""What this daemon has accepted and the store does not have yet, by tenant; and the way past it.

A journal is read in the order in which it was written, so behind a tenant that posts a million lines everybody else
would wait for all of them. Hence: while there is a backlog, the lines of a tenant that has nothing waiting in it go to
the store at once. They are in the journal all the same, and stay there until the reader comes by: it leaves out what
the store has. If this daemon ends in between, the reader adds them again, which changes nothing (`add_jobs` is
idempotent by id). The lines of one tenant never overtake each other.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from functory.courtesy import Courtesy
from functory.jobattributes import PLAIN, JobOptions, new_job, to_attributes
from functory.joblog import JobLog
from functory.progress import Progress
from journal import Clock, Journal, Record
from scheduler import tenant_of
from store.base import NewJob, Store
from store.errors import StoreUnavailable

log = logging.getLogger("functory.backlog")

_WORTH_IT: Final = 100
"""Lines of others that have to wait before anybody goes past: fewer are read in one go."""
_MOST_BOARDING: Final = 2000
_MOST_BOARDING_OF_ONE: Final = 1000
"""Lines on their way past, together and of one tenant: who sends more has a backlog, and waits in it."""
_MOST_AHEAD: Final = 100_000
"""Ids remembered until the reader comes by."""
_STEP: Final = 500


class Backlog:
    def __init__(
        self,
        journal: Journal,
        store: Store,
        clock: Clock,
        *,
        on_added: Callable[[Iterable[str]], None],
        progress: Progress,
        courtesy: Courtesy,
        joblog: JobLog | None = None,
    ) -> None:
        self._journal = journal
        self._store = store
        self._clock = clock
        self._on_added = on_added
        self._progress = progress
        self._courtesy = courtesy
        self._joblog = joblog
        self._floor = journal.take_ids(1)[0]
        """Lines below are of an earlier life, and nobody knows whose they are: until they are read, all wait."""
        self._knows_all = journal.read_point >= journal.write_point
        self._waiting: Counter[str] = Counter()
        """Lines that wait for the reader, by tenant. Below 0 while the reader was faster than the acknowledgement."""
        self._total = 0
        self._boarding: list[NewJob] = []
        self._boarding_of: Counter[str] = Counter()
        self._ahead: dict[str, bool] = {}
        """Ids that went past, until the reader comes by: whether the store has them."""
        self._news = asyncio.Event()
        self._landed = asyncio.Event()

    async def write(self, jobtype: str, lines: list[bytes], options: JobOptions = PLAIN) -> list[str]:
        """Into the journal. Raises what `Journal.write` raises, and the lines were not taken then."""
        ids = await self._journal.write(jobtype, lines, to_attributes(options))
        tenant, count = tenant_of(jobtype), len(ids)
        self._total += count
        self._courtesy.seen(tenant, count + self._waiting.get(tenant, 0))
        if self._may_pass(tenant, count, options):
            now_ms = self._clock.now_ms()
            self._boarding += [new_job(ids[n], jobtype, lines[n], options, now_ms) for n in range(count)]
            self._boarding_of[tenant] += count
            self._ahead.update(dict.fromkeys(ids, False))
            self._news.set()
        else:
            self._wait_in_line(tenant, count)
        return ids

    def waits(self, tenant: str) -> bool:
        """Whether lines of the tenant may be waiting for the reader."""
        return not self._knows_all or self._waiting.get(tenant, 0) > 0

    async def landed(self, tenant: str) -> None:
        """Wait until nothing of the tenant is on its way past."""
        while self._boarding_of.get(tenant):
            await self._landed.wait()

    # For the reader

    def still_to_add(self, records: Sequence[Record]) -> Sequence[Record]:
        """Those of a batch that the store does not have yet."""
        if not self._ahead:
            return records
        return [record for record in records if not self._ahead.get(record.id)]

    def read(self, records: Sequence[Record]) -> None:
        """These have reached the store, one way or the other."""
        if not records:
            return
        if records[0].id < self._floor:
            self._knows_all = self._knows_all or records[-1].id >= self._floor
            records = [record for record in records if record.id >= self._floor]
        self._total -= len(records)
        if self._ahead:
            records = [record for record in records if self._ahead.pop(record.id, None) is None]
        for jobtype, count in Counter([record.jobtype for record in records]).items():
            self._wait_in_line(tenant_of(jobtype), -count)

    def all_read(self) -> None:
        """The reader has come to the end of the journal."""
        self._knows_all = True

    # The way past

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._boarding:
                jobs = self._boarding[:_STEP]
                with self._progress.step("backlog"):
                    await self._carry(jobs)
                del self._boarding[: len(jobs)]
                for jobtype, count in Counter([job.jobtype for job in jobs]).items():
                    self._boarding_of[tenant_of(jobtype)] -= count
                self._boarding_of = +self._boarding_of
                landed, self._landed = self._landed, asyncio.Event()
                landed.set()

    def _may_pass(self, tenant: str, count: int, options: JobOptions) -> bool:
        return (
            self._total - count >= _WORTH_IT
            and not self.waits(tenant)
            and not options.indexed  # their numbers follow the order of the journal
            and len(self._boarding) + count <= _MOST_BOARDING
            and self._boarding_of.get(tenant, 0) + count <= _MOST_BOARDING_OF_ONE
            and len(self._ahead) + count <= _MOST_AHEAD
        )

    async def _carry(self, jobs: Sequence[NewJob]) -> None:
        now_ms = self._clock.now_ms()
        try:
            await self._store.add_jobs(jobs, now_ms=now_ms)
        except (StoreUnavailable, ValueError) as error:  # the reader will meet the same, and knows what to do
            log.warning("backlog.not_passed", extra={"jobs": len(jobs), "reason": str(error)})
            for job in jobs:
                if self._ahead.pop(job.id, None) is not None:
                    self._wait_in_line(tenant_of(job.jobtype), 1)
            return
        for job in jobs:
            if job.id in self._ahead:
                self._ahead[job.id] = True
        if self._joblog is not None:
            self._joblog.entered([(job.id, job.jobtype, len(job.data)) for job in jobs], now_ms)
        self._on_added({job.jobtype for job in jobs})

    def _wait_in_line(self, tenant: str, count: int) -> None:
        self._waiting[tenant] += count
        if not self._waiting[tenant]:
            del self._waiting[tenant]
