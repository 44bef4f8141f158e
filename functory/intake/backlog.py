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
from typing import Final

from functory.intake.held_lines import HeldLine, HeldLines
from functory.intake.job_options import DEFAULT_PRIORITY, PLAIN, JobOptions, new_jobs, to_attributes, to_new_jobs
from functory.intake.line import SEVERAL, Line
from functory.intake.straight_intake import StraightIntake
from functory.intake.weights import Tally, Weight, weigh
from functory.loops.shared import Shared
from journal import LateTexts, Payloads, Record, Settled, is_much, tell
from store.base import NewJob
from store.errors import StoreUnavailable
from vocabulary.columns import fields, take_out
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
_LARGE_BYTES: Final = 16 << 10
"""Of one request: such lines do not wait for others, because together they would only take more memory."""
_ID, _JOBTYPE, _DATA = fields(NewJob, "id"), fields(NewJob, "jobtype"), fields(NewJob, "data")
_ID_READ, _JOBTYPE_READ, _PAYLOAD_READ = fields(Record, "id"), fields(Record, "jobtype"), fields(Record, "payload")
_ATTRIBUTES_READ, _NOTE_READ = fields(Record, "attributes"), fields(Record, "note")


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
        self._line = Line()
        self._boarding: list[NewJob] = []
        self._boarding_of: Counter[str] = Counter()
        self._ahead: dict[str, bool] = {}
        """Ids that went past and that the reader has not reached, and whether the store has them."""
        self._reached = ""
        """The last id that the reader has had in hand. It may be faster than the acknowledgement."""
        self._straight: StraightIntake | None = None
        self._is_wanted = False
        """Somebody waits for what the reader brings."""
        self._held = HeldLines()
        self.is_held: Callable[[str], bool] = self._held.__contains__
        """Whether the line of a job is on the straight way."""
        self._on_their_way = Tally()
        """Lines by tenant that are being written, or are on the straight way."""
        self._bytes_of = Tally()
        """Of these lines, of those that wait, and of those on their way past."""
        self._news = asyncio.Event()
        self._landed = asyncio.Event()

    def when_added(self, listener: Callable[[Iterable[str]], None]) -> None:
        self._listeners.append(listener)

    def when_in_line(self, call_reader: Callable[[], None]) -> None:
        """Lines wait for the reader from now on."""
        self._line.when_urgent(call_reader)

    @property
    def is_in_line(self) -> bool:
        """Whether lines may be waiting for the reader, of whatever tenant."""
        return not self._knows_all or bool(self._line)

    @property
    def is_urgent(self) -> bool:
        """Whether they should not wait for more (line.py)."""
        return not self._knows_all or self._line.is_urgent

    def use(self, straight: StraightIntake) -> None:
        self._straight = straight
        self._line.when_entered(straight.look_for_room)

    async def write(
        self, jobtype: str, lines: list[bytes], options: JobOptions = PLAIN, notes: Sequence[str] = ()
    ) -> list[str]:
        """Write lines into the journal. Raises what `Journal.write` raises; then the lines were not taken.

        What follows from them being durable happens whether or not the caller still waits. One that leaves while many
        lines are looked at takes them with it.
        """
        tenant, count, size_bytes = tenant_of(jobtype), len(lines), sum(map(len, lines))
        looked: Payloads | None = None
        if is_much(count, size_bytes):  # quotas may be asked for meanwhile
            with self._on_their_way.more(tenant, count), self._bytes_of.more(tenant, size_bytes):
                looked = await self._journal.look_at(lines)
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ids = self.begin(jobtype, lines, partial(tell, told), options, notes, looked)
        await told
        return ids if isinstance(ids, list) else await ids.made()

    def begin(
        self,
        jobtype: str,
        lines: list[bytes],
        told: Settled,
        options: JobOptions = PLAIN,
        notes: Sequence[str] = (),
        looked: Payloads | None = None,
    ) -> list[str] | LateTexts:
        """The first half of `write`: the ids. `told` hears, later, that the lines are durable, or why they are not; if
        this raises, it does not. looked: the lines, if they were looked at in parts."""
        tenant, size_bytes = tenant_of(jobtype), sum(map(len, lines))
        is_straight = self._goes_straight(jobtype, lines, options)

        def settled(error: Exception | None) -> None:
            try:
                told(error)
            finally:  # what follows from them being durable happens in any case
                self._settled(ids, jobtype, lines, options, notes, error, is_straight=is_straight)

        ids = self._journal.begin_write(jobtype, looked or lines, to_attributes(options), notes, settled)
        self._on_their_way.add(tenant, len(lines))
        self._bytes_of.add(tenant, size_bytes)
        if is_straight:  # before the reader can see them
            self._held.hold(jobtype, ids, lines)
            self._ahead.update(dict.fromkeys(ids, False))
        return ids

    def _settled(
        self,
        ids: Sequence[str],
        jobtype: str,
        lines: list[bytes],
        options: JobOptions,
        notes: Sequence[str],
        error: Exception | None,
        *,
        is_straight: bool,
    ) -> None:
        tenant, count = tenant_of(jobtype), len(ids)
        if not is_straight:
            self._on_their_way.add(tenant, -count)
        if error is not None:
            if is_straight:
                self._let_go(ids)
                take_out(self._ahead, ids)
            else:
                self._bytes_of.add(tenant, -sum(map(len, lines)))
            return
        if is_straight and self._straight is not None:
            self._straight.take(new_jobs(ids, jobtype, lines, options, self._clock.now_ms(), notes))
            if self._line.of(tenant) > 0:  # somebody follows these
                self._line.hurry()
            return
        is_urgent = options.priority > DEFAULT_PRIORITY
        if self._straight is not None:
            self._straight.give_way(jobtype, is_urgent=is_urgent)
        if ids[0] > self._reached and self._may_pass(tenant, count, options):
            self._board(tenant, new_jobs(ids, jobtype, lines, options, self._clock.now_ms(), notes))
        else:
            kind = SEVERAL if is_urgent else jobtype  # none of its type runs before it from the journal
            is_large = sum(map(len, lines)) > _LARGE_BYTES
            self._line.enter(tenant, count, kind, is_urgent=is_large or self._may_run(jobtype))

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
        return max(self._line.of(tenant), 0) + self._boarding_of.get(tenant, 0)

    def waits(self, tenant: str) -> bool:
        """Whether lines of the tenant may be waiting for the reader."""
        return not self._knows_all or self._line.of(tenant) > 0

    def unstored(self, tenant: str) -> Weight:
        """Lines of the tenant that were accepted here, or are being written, and that the store does not have. Not
        those of before the daemon's start: whose they are is known when they are read."""
        lines = self._line.of(tenant) + self._boarding_of.get(tenant, 0) + self._on_their_way.get(tenant, 0)
        return Weight(lines, self._bytes_of.get(tenant, 0))

    async def landed(self, tenant: str) -> None:
        """Wait until nothing of the tenant is on its way past."""
        while self._boarding_of.get(tenant):
            await self._landed.wait()

    # Of lines on the straight way

    def arrived(self, ids: Sequence[str]) -> None:
        """The store has these."""
        self._let_go(ids)
        for job_id in self._ahead.keys() & ids if self._ahead else ():
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
        self._bytes_of.add(tenant, sum(map(len, map(_DATA, jobs))))
        if self._may_pass(tenant, len(jobs)) and not any(job.id in in_hand for job in held):
            self._board(tenant, jobs)
        else:
            self._line.enter(tenant, len(jobs), jobs[0].jobtype, is_urgent=self._may_run(jobs[0].jobtype))

    def _let_go(self, ids: Sequence[str]) -> None:
        for tenant, (count, size_bytes) in self._held.let_go(ids).items():
            self._on_their_way.add(tenant, -count)
            self._bytes_of.add(tenant, -size_bytes)

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

    def held(self, ids: Sequence[str]) -> dict[str, HeldLine]:
        """Those of them that are on the straight way."""
        return self._held.among(ids)

    async def room(self) -> None:
        """Wait while the reader would only bring more than can start soon."""
        self._is_wanted = False
        if self._straight is not None:
            await self._straight.room(self._next_type)
            if self._journal.is_filling:
                self._straight.give_way_to_all()

    def _next_type(self) -> str | None:
        if self._is_wanted or self._line.is_mixed or self._journal.is_filling:
            return None
        return next(iter(self._line.of_one_type()), "")

    def may_follow(self) -> dict[str, int]:
        """Lines in line, by type, that the reader may put on the straight way."""
        return self._line.of_one_type()

    def make_room(self) -> None:
        """Whatever the reader brings is needed now."""
        self._is_wanted = True
        if self._straight is not None:
            self._straight.look_for_room()

    def hold(self, records: Sequence[Record]) -> dict[str, HeldLine]:
        """Put lines that the reader has come to on the straight way, all or none. They must be plain, and all lines
        that wait must be of their type: one of another type would wait until these have run. The caller passes them to
        `follow` without a pause. Returns those that are held now."""
        straight, jobtype = self._straight, records[0].jobtype
        tenant = tenant_of(jobtype)
        if straight is None or not self._knows_all or not self._line.has_only(tenant, jobtype):
            return {}
        if self._journal.is_filling:
            return {}
        if any(map(_ATTRIBUTES_READ, records)) or any(map(_NOTE_READ, records)):
            return {}
        payloads = list(map(_PAYLOAD_READ, records))
        if set(map(_JOBTYPE_READ, records)) != {jobtype} or not straight.may_follow(jobtype, payloads):
            return {}
        self._on_their_way.add(tenant, len(records))
        self._line.leave(tenant, len(records))
        return self._held.hold(jobtype, list(map(_ID_READ, records)), payloads)

    def follow(self, records: Sequence[Record], now_ms: int) -> None:
        if self._straight is not None:
            self._straight.follow(to_new_jobs(records, now_ms))

    def unread(self, done: Sequence[str], missing: Mapping[str, HeldLine]) -> None:
        """Lines come back to be read again. Those that are done with are left out then: the job of one may have run and
        be gone. The others, with type and bytes, are still on the straight way, or wait in line from now on."""
        self._ahead.update(dict.fromkeys(done, True))
        for job_id, (jobtype, size_bytes) in missing.items():
            if job_id in self._held:
                self._ahead[job_id] = False
            else:
                self._bytes_of.add(tenant_of(jobtype), size_bytes)
                self._line.enter(tenant_of(jobtype), 1, jobtype)

    def still_to_add(self, records: Sequence[Record]) -> Sequence[Record]:
        """The records of a batch that the store does not have yet, and that are not on the straight way."""
        ids = list(map(_ID_READ, records))
        held = self._held.among(ids)
        if not held and self._ahead.keys().isdisjoint(ids):
            return records
        return [record for record in records if not self._ahead.get(record.id) and record.id not in held]

    def read(self, records: Sequence[Record]) -> None:
        """The store has these now, one way or the other, or they are on the straight way, but for those of `hold`."""
        if not records:
            return
        if records[0].id < self._floor:
            self._knows_all = self._knows_all or records[-1].id >= self._floor
            records = [record for record in records if record.id >= self._floor]
        if self._ahead:
            records = [record for record in records if self._ahead.pop(record.id, None) is None]
        for tenant, (count, size_bytes) in weigh(map(_JOBTYPE_READ, records), map(_PAYLOAD_READ, records)).items():
            self._bytes_of.add(tenant, -size_bytes)
            self._line.leave(tenant, count)

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
                    self._bytes_of.add(tenant, -size_bytes)
                self._boarding_of = +self._boarding_of
                landed, self._landed = self._landed, asyncio.Event()
                landed.set()

    def _may_pass(self, tenant: str, count: int, options: JobOptions = PLAIN) -> bool:
        return (
            self._line.lines >= _WORTH_IT
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
                    self._line.enter(tenant_of(job.jobtype), 1)
                    self._bytes_of.add(tenant_of(job.jobtype), len(job.data))
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
