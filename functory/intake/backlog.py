"""What this daemon has accepted and the store does not have yet, by tenant; and the way past it.

A journal is read in the order in which it was written, so everybody would wait behind a tenant that posts a million
lines. Therefore, while there is a backlog, the lines of a tenant that has nothing in it go to the store at once. They
are in the journal too, and stay there until the reader reaches them. The reader leaves out what the store has, and
waits for what is on its way there. If this daemon dies in between, the reader adds them again. That changes nothing,
because `add_jobs` is idempotent by id, unless the job has run and is not kept. The lines of one tenant never overtake
each other.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from functory.intake.job_options import PLAIN, JobOptions, new_jobs, to_attributes
from functory.intake.weights import Weight, weigh
from functory.loops.shared import Shared
from journal import Record
from store.base import NewJob
from store.errors import StoreUnavailable
from vocabulary.columns import fields
from vocabulary.names import tenant_of

log = logging.getLogger("functory.backlog")

_WORTH_IT: Final = 100
"""How many lines of others must wait before a tenant's lines go past. Fewer are read in one step anyway."""
_MOST_BOARDING: Final = 2000
_MOST_BOARDING_OF_ONE: Final = 1000
"""Lines on their way past: of all tenants, and of one. A tenant that sends more has a backlog of its own,
and waits in it."""
_MOST_AHEAD: Final = 100_000
"""Ids that went past and are remembered until the reader reaches them."""
_STEP: Final = 500
_MANY: Final = 500
"""Lines that are worth a step of the reader even if none of their jobs can run."""
_LARGE_BYTES: Final = 16 << 10
"""Of one request: such lines do not wait for others, because together they would only take more memory."""
_ID, _JOBTYPE, _DATA = fields(NewJob, "id"), fields(NewJob, "jobtype"), fields(NewJob, "data")
_ID_READ, _JOBTYPE_READ, _PAYLOAD_READ = fields(Record, "id"), fields(Record, "jobtype"), fields(Record, "payload")


class StraightIntake(Protocol):
    """Takes lines that need not wait for the store (execution/straight/way.py)."""

    def admits(self, jobtype: str, lines: Sequence[bytes]) -> bool:
        """Whether jobs of these lines could start as soon as they are durable, or as soon as the jobs before them have
        started."""

    def take(self, jobs: Sequence[NewJob]) -> None:
        """They are durable."""

    def give_way(self, jobtype: str) -> None:
        """Jobs of the type that come now take the long way: those that wait for others go there before them."""

    def may_run(self, jobtype: str) -> bool:
        """Whether anybody may run jobs of the type, here or elsewhere. In doubt, yes."""

    async def flush(self, tenant: str) -> None:
        """Wait until nothing that was taken so far is held any more. Raises StoreUnavailable."""


class Backlog:
    def __init__(self, shared: Shared) -> None:
        self._journal = journal = shared.journal
        self._store = shared.store
        self._clock = shared.clock
        self._progress = shared.progress
        self._job_log = shared.job_log
        self._listeners: list[Callable[[Iterable[str]], None]] = []
        self._floor = journal.take_ids(1)[0]
        """Lines with smaller ids were written before this daemon started; nobody knows their tenants. Until they are
        read, nobody goes past."""
        self._knows_all = journal.read_point >= journal.write_point
        self._waiting: Counter[str] = Counter()
        """Lines that wait for the reader, by tenant. Below 0 while the reader was faster than the acknowledgement."""
        self._in_line = 0
        """The sum of these."""
        self._is_urgent = False
        self._total = 0
        self._boarding: list[NewJob] = []
        self._boarding_of: Counter[str] = Counter()
        self._ahead: dict[str, bool] = {}
        """Ids that went past and that the reader has not reached, and whether the store has them."""
        self._reached = ""
        """The last id that the reader has had in hand. It may be faster than the acknowledgement."""
        self._call_reader: Callable[[], None] = _nobody
        self._straight: StraightIntake | None = None
        self._held: dict[str, tuple[str, int]] = {}
        """Ids on the straight way, with tenant and bytes: the reader passes them by, and the journal keeps their
        lines."""
        self._on_their_way: Counter[str] = Counter()
        """Lines by tenant that are being written, or are on the straight way."""
        self._bytes_of: Counter[str] = Counter()
        """Of these lines, of those that wait, and of those on their way past."""
        self._news = asyncio.Event()
        self._landed = asyncio.Event()

    def when_added(self, listener: Callable[[Iterable[str]], None]) -> None:
        self._listeners.append(listener)

    def when_in_line(self, call_reader: Callable[[], None]) -> None:
        """Lines wait for the reader from now on."""
        self._call_reader = call_reader

    @property
    def is_in_line(self) -> bool:
        """Whether lines may be waiting for the reader, of whatever tenant."""
        return not self._knows_all or bool(self._waiting)

    @property
    def is_urgent(self) -> bool:
        """Whether some of them may be able to run, or they are many. Otherwise there is time to wait for more: many
        cost the store little more than one."""
        return not self._knows_all or self._is_urgent

    def use(self, straight: StraightIntake) -> None:
        self._straight = straight

    async def write(
        self, jobtype: str, lines: list[bytes], options: JobOptions = PLAIN, notes: Sequence[str] = ()
    ) -> list[str]:
        """Write lines into the journal. Raises what `Journal.write` raises; then the lines were not taken.

        What follows from them being durable happens whether or not the caller still waits.
        """
        is_straight = self._goes_straight(jobtype, lines, options)
        ids, done = self._journal.begin_write(jobtype, lines, to_attributes(options), notes)
        tenant = tenant_of(jobtype)
        self._on_their_way[tenant] += len(ids)
        self._add_bytes(tenant, sum(map(len, lines)))
        if is_straight:  # before the reader can see them
            self._held.update((job_id, (tenant, len(line))) for job_id, line in zip(ids, lines, strict=True))
            self._ahead.update(dict.fromkeys(ids, False))
            self._total += len(ids)
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        settled = partial(self._settled, ids, jobtype, lines, options, notes, told, is_straight=is_straight)
        done.add_done_callback(settled)
        await told  # and not `done`: a caller that is cancelled cancels what it waits for
        return ids

    def _settled(
        self,
        ids: list[str],
        jobtype: str,
        lines: list[bytes],
        options: JobOptions,
        notes: Sequence[str],
        told: "asyncio.Future[None]",
        done: "asyncio.Future[None]",
        *,
        is_straight: bool,
    ) -> None:
        tenant, count = tenant_of(jobtype), len(ids)
        _pass_on(done, told)
        if not is_straight:
            self._arrive(tenant, count)
        if done.cancelled() or done.exception() is not None:
            if is_straight:
                self._let_go(ids)
                self._total -= count
                for job_id in ids:
                    self._ahead.pop(job_id, None)
            else:
                self._add_bytes(tenant, -sum(map(len, lines)))
            return
        if is_straight and self._straight is not None:
            self._straight.take(new_jobs(ids, jobtype, lines, options, self._clock.now_ms(), notes))
            if self._waiting.get(tenant, 0) > 0:  # somebody follows these
                self._hurry()
            return
        if self._straight is not None:
            self._straight.give_way(jobtype)
        self._total += count
        if ids[0] > self._reached and self._may_pass(tenant, count, options):
            self._board(tenant, new_jobs(ids, jobtype, lines, options, self._clock.now_ms(), notes))
        else:
            is_large = sum(map(len, lines)) > _LARGE_BYTES
            self._wait_in_line(tenant, count, is_urgent=is_large or self._may_run(jobtype))

    def _board(self, tenant: str, jobs: Sequence[NewJob]) -> None:
        self._boarding += jobs
        self._boarding_of[tenant] += len(jobs)
        self._ahead.update(dict.fromkeys([job.id for job in jobs], False))
        self._news.set()

    def _goes_straight(self, jobtype: str, lines: list[bytes], options: JobOptions) -> bool:
        return (
            self._straight is not None
            and options == PLAIN
            and self._knows_all
            and len(self._ahead) + len(lines) <= _MOST_AHEAD
            and self._straight.admits(jobtype, lines)
        )

    def in_line(self, tenant: str) -> int:
        """Lines of the tenant on the long way that the store does not have, as far as they are known."""
        return max(self._waiting.get(tenant, 0), 0) + self._boarding_of.get(tenant, 0)

    def waits(self, tenant: str) -> bool:
        """Whether lines of the tenant may be waiting for the reader."""
        return not self._knows_all or self._waiting.get(tenant, 0) > 0

    def unstored(self, tenant: str) -> Weight:
        """Lines of the tenant that were accepted here, or are being written, and that the store does not have. Not
        those of before the daemon's start: whose they are is known when they are read."""
        lines = sum(lines.get(tenant, 0) for lines in (self._waiting, self._boarding_of, self._on_their_way))
        return Weight(lines, self._bytes_of.get(tenant, 0))

    async def landed(self, tenant: str) -> None:
        """Wait until nothing of the tenant is on its way past."""
        while self._boarding_of.get(tenant):
            await self._landed.wait()

    # Of lines on the straight way

    def is_held(self, job_id: str) -> bool:
        return job_id in self._held

    def arrived(self, ids: Sequence[str]) -> None:
        """The store has these."""
        self._let_go(ids)
        for job_id in ids:
            if job_id in self._ahead:
                self._ahead[job_id] = True

    def return_to_line(self, jobs: Sequence[NewJob], in_hand: Container[str]) -> None:
        """These, of one type, take the long way after all, and like any others go past a backlog of other tenants. Not
        if the reader has some of them in hand: it reads them again in any case, and none overtakes another."""
        held = [job for job in jobs if job.id in self._held]
        self._let_go([job.id for job in held])
        jobs = [job for job in held if self._ahead.pop(job.id, None) is not None]
        if not jobs:
            return
        tenant = tenant_of(jobs[0].jobtype)
        self._add_bytes(tenant, sum(map(len, map(_DATA, jobs))))
        if self._may_pass(tenant, len(jobs)) and not any(job.id in in_hand for job in held):
            self._board(tenant, jobs)
        else:
            self._wait_in_line(tenant, len(jobs), is_urgent=self._may_run(jobs[0].jobtype))

    def _let_go(self, ids: Sequence[str]) -> None:
        for job_id in ids:
            if (held := self._held.pop(job_id, None)) is not None:
                tenant, size_bytes = held
                self._arrive(tenant, 1)
                self._add_bytes(tenant, -size_bytes)

    def _arrive(self, tenant: str, count: int) -> None:
        self._on_their_way[tenant] -= count
        if not self._on_their_way[tenant]:
            del self._on_their_way[tenant]

    def _add_bytes(self, tenant: str, size_bytes: int) -> None:
        self._bytes_of[tenant] += size_bytes
        if not self._bytes_of[tenant]:
            del self._bytes_of[tenant]

    async def flush_straight(self, tenant: str) -> None:
        if self._straight is not None and self._held:
            await self._straight.flush(tenant)

    # For the reader

    async def reach(self, records: Sequence[Record]) -> None:
        """Wait while some of these are on their way past, and let none of the others go there. Only one of the two may
        add a line: the second could come after its job has run and is gone. This takes a few writes at most, which the
        reader is spared; those that did not land are its own."""
        while self._boarding and any(map(self._is_boarding, map(_ID_READ, records))):
            await self._landed.wait()
            self._progress.beat("ingest")
        self._reached = max(self._reached, records[-1].id)

    def _is_boarding(self, job_id: str) -> bool:
        return self._ahead.get(job_id) is False and job_id not in self._held

    def held(self, records: Sequence[Record]) -> dict[str, tuple[str, int]]:
        """The ids of those that are on the straight way, with tenant and bytes."""
        ids = self._held.keys() & [record.id for record in records] if self._held else ()
        return {job_id: self._held[job_id] for job_id in ids}

    def unread(self, done: Sequence[str], missing: Mapping[str, tuple[str, int]]) -> None:
        """Lines come back to be read again. Those that are done with are left out then: the job of one may have run and
        be gone. The others, with tenant and bytes, are still on the straight way, or wait in line from now on."""
        self._total += len(done) + len(missing)
        self._ahead.update(dict.fromkeys(done, True))
        for job_id, (tenant, size_bytes) in missing.items():
            if job_id in self._held:
                self._ahead[job_id] = False
            else:
                self._add_bytes(tenant, size_bytes)
                self._wait_in_line(tenant, 1)

    def still_to_add(self, records: Sequence[Record]) -> Sequence[Record]:
        """The records of a batch that the store does not have yet, and that are not on the straight way."""
        if not self._ahead and not self._held:
            return records
        return [record for record in records if not self._ahead.get(record.id) and record.id not in self._held]

    def read(self, records: Sequence[Record]) -> None:
        """The store has these records now, one way or the other."""
        if not records:
            return
        if records[0].id < self._floor:
            self._knows_all = self._knows_all or records[-1].id >= self._floor
            records = [record for record in records if record.id >= self._floor]
        self._total -= len(records)
        if self._ahead:
            records = [record for record in records if self._ahead.pop(record.id, None) is None]
        for tenant, (count, size_bytes) in weigh(map(_JOBTYPE_READ, records), map(_PAYLOAD_READ, records)).items():
            self._add_bytes(tenant, -size_bytes)
            self._wait_in_line(tenant, -count)

    def all_read(self) -> None:
        """The reader has reached the end of the journal."""
        self._knows_all = True

    # The way past

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._boarding:
                jobs = self._boarding[:_STEP]
                with self._progress.step("backlog"):
                    await self._carry(jobs)
                del self._boarding[: len(jobs)]
                for tenant, (count, size_bytes) in weigh(map(_JOBTYPE, jobs), map(_DATA, jobs)).items():
                    self._boarding_of[tenant] -= count
                    self._add_bytes(tenant, -size_bytes)
                self._boarding_of = +self._boarding_of
                landed, self._landed = self._landed, asyncio.Event()
                landed.set()

    def _may_pass(self, tenant: str, count: int, options: JobOptions = PLAIN) -> bool:
        return (
            self._total - count >= _WORTH_IT
            and not self.waits(tenant)
            and not options.indexed  # their numbers must follow the order of the journal
            and len(self._boarding) + count <= _MOST_BOARDING
            and self._boarding_of.get(tenant, 0) + count <= _MOST_BOARDING_OF_ONE
            and len(self._ahead) + count <= _MOST_AHEAD
        )

    async def _carry(self, jobs: Sequence[NewJob]) -> None:
        now_ms = self._clock.now_ms()
        try:
            await self._store.add_jobs(jobs, now_ms=now_ms)
        except (StoreUnavailable, ValueError) as error:  # the reader meets the same error and handles it
            log.warning("backlog.not_passed", extra={"jobs": len(jobs), "reason": str(error)})
            for job in jobs:
                if self._ahead.pop(job.id, None) is not None:
                    self._wait_in_line(tenant_of(job.jobtype), 1)
                    self._add_bytes(tenant_of(job.jobtype), len(job.data))
            return
        for job in jobs:
            if job.id in self._ahead:
                self._ahead[job.id] = True
        if self._job_log is not None:
            self._job_log.entered(map(_ID, jobs), map(_JOBTYPE, jobs), map(_DATA, jobs), now_ms)
        for listener in self._listeners:
            listener({job.jobtype for job in jobs})

    def _may_run(self, jobtype: str) -> bool:
        return self._straight is None or self._straight.may_run(jobtype)

    def _wait_in_line(self, tenant: str, count: int, *, is_urgent: bool = True) -> None:
        self._waiting[tenant] += count
        self._in_line += count
        if not self._waiting[tenant]:
            del self._waiting[tenant]
        if not self._waiting:
            self._is_urgent = False
        if count > 0 and (is_urgent or self._in_line >= _MANY):
            self._hurry()

    def _hurry(self) -> None:
        self._is_urgent = bool(self._waiting)
        self._call_reader()


def _nobody() -> None:
    """Before there is a reader."""


def _pass_on(done: "asyncio.Future[None]", told: "asyncio.Future[None]") -> None:
    if told.done():  # its caller was cancelled
        return
    if done.cancelled():
        told.cancel()
    elif (error := done.exception()) is not None:
        told.set_exception(error)
    else:
        told.set_result(None)
