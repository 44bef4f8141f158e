"""Outcomes on their way to the store: in batches, each tenant's in the order in which its jobs stopped.

Every tenant has a lane of its own, and the store writes several lanes in one transaction. A tenant whose jobs stop by
the thousand does not make the others wait.

Ensures: the jobs that a job asked for are durable in the journal before its outcome is recorded; a crash in between
runs the job again, and loses none of them. While the store cannot be reached, outcomes are kept and tried again. An
outcome whose lease was lost meanwhile changes nothing; the store reports it, and it is counted.

New jobs with a unique name or a parent go into the store, in the write that ends the run (wishes.py): both are recorded
or neither, and writing them again makes none twice.

Nothing that a tenant's job left behind ends this loop: new jobs or a result that the journal, the store or the tenant's
quota refuse become the outcome of that job, failed with a 4xx and the reason, which `on_failure` of its handler gets.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Final, TypeVar

from functory.execution.afterwards import NOTHING_MORE, Afterwards
from functory.execution.ending_admission import EndingAdmission
from functory.execution.endings import REFUSED, Admitted, Ending, Recorded
from functory.execution.outcomes import without_run
from functory.execution.straight.arrivals import add_ended
from functory.execution.straight.way import StraightWay
from functory.execution.wishes import Wish, creations_of, go_into_the_store, journal_pieces
from functory.intake.admission import Admission
from functory.intake.former_tenants import deliveries_of_former_tenants
from functory.intake.intake import Intake
from functory.loops.couriers import Couriers
from functory.loops.courtesy import LONG_STEP
from functory.loops.next_time import NextTime
from functory.loops.shared import Shared
from functory.tenant_limits import TenantLimits
from journal import JournalUnavailable
from runner.flow import Flow
from store.base import Discard, Job, MakingEnd, Release, ReleaseReport, Unclaim
from store.errors import StoreUnavailable
from vocabulary.columns import fields
from vocabulary.names import tenant_of

log = logging.getLogger("functory.outbox")

_MOST_OF_ONE: Final = LONG_STEP
"""Outcomes of one tenant that may wait before its slots wait for them."""
_PAUSE_S: Final = 0.2
_MAKERS_AT_ONCE: Final = 100
_MADE_AT_ONCE: Final = 1000
"""Runs that end in one write with the jobs that they made, and these jobs, if it is not one run that made more."""
_PIECE_BYTES: Final = 8 << 20
_NO_SIZES: Final[Mapping[tuple[str, int], int]] = MappingProxyType({})
_NOTHING_FOLLOWS: Final[Mapping[tuple[str, int], Afterwards]] = MappingProxyType({})
_T = TypeVar("_T")
_ID: Final = fields(Job, "id")
_JOB, _RELEASE, _WANTED, _OUTCOME = itemgetter(0), itemgetter(1), itemgetter(2), attrgetter("outcome")


class Outbox:
    def __init__(
        self,
        shared: Shared,
        intake: Intake,
        admission: Admission,
        limits_of: Callable[[str], TenantLimits],
        flow: Flow | None = None,
        *,
        waits_a_turn: bool = False,
    ) -> None:
        """waits_a_turn: outcomes are sent one turn of the event loop later, with what else asks for the store by
        then."""
        self._waits_a_turn = waits_a_turn
        self._store = shared.store
        self._journal = shared.journal
        self._clock = shared.clock
        self._owner = shared.owner
        self._progress = shared.progress
        self._courtesy = shared.courtesy
        self._job_log = shared.job_log
        self._intake = intake
        self._flow = flow or Flow()
        self._sizes: dict[tuple[str, int], int] = {}
        """Bytes of what waits, by id and token; only of jobs that left something."""
        self._afterwards: dict[tuple[str, int], Afterwards] = {}
        """What follows from a refusal, by id and token; only of jobs whose handler has `on_failure`."""
        self._admission = EndingAdmission(admission, limits_of, shared.clock)
        self._straight: StraightWay | None = None
        self._listeners: list[Callable[[Sequence[Ending]], None]] = []
        self._witnesses: list[Callable[[Sequence[Recorded], ReleaseReport], None]] = []
        self._pausing: list[Callable[[], None]] = []
        self._lanes: dict[str, list[Ending]] = {}
        """Outcomes that wait, by tenant."""
        self._couriers = Couriers(self._deliver_all)
        """One for each lane in which something waits."""
        self._delivered = NextTime()
        self.stale = 0
        """Outcomes that came too late: another delivery has the job."""
        self.refused = 0
        """Outcomes that could not be recorded in any form: their leases lapse."""

    def when_released(self, listener: Callable[[Sequence[Ending]], None]) -> None:
        """The listener is told of endings that were delivered, also of those that came too late or were refused. A job
        with children may be paused instead. Who must know what became of each asks `when_recorded`."""
        self._listeners.append(listener)

    def when_recorded(self, witness: Callable[[Sequence[Recorded], ReleaseReport], None]) -> None:
        """The witness is told of endings as they were recorded, refusals in their place, with the store's report: which
        leases were lost, and which parents wait for their children. Listeners of `when_released` are told after it."""
        self._witnesses.append(witness)

    def when_paused(self, listener: Callable[[], None]) -> None:
        """The listener is told when parents were paused: their children may run now."""
        self._pausing.append(listener)

    def use(self, straight: StraightWay) -> None:
        self._straight = straight

    def put(
        self,
        endings: Sequence[Ending],
        sizes: Mapping[tuple[str, int], int] = _NO_SIZES,
        afterwards: Mapping[tuple[str, int], Afterwards] = _NOTHING_FOLLOWS,
    ) -> None:
        """Add endings of jobs of one type. `sizes`: the bytes that they left, by id and token; others left none.
        `afterwards`: what follows from them, of those whose handler has `on_failure`."""
        if not endings:
            return
        if afterwards:
            self._afterwards.update(afterwards)
        tenant = tenant_of(endings[0][0].jobtype)
        if sizes:
            self._sizes.update(sizes)
            self._flow.hold(tenant, sum(sizes.values()))
        lane = self._lanes.get(tenant)
        if lane is not None:
            lane.extend(endings)
            return
        self._lanes[tenant] = list(endings)
        self._couriers.send(tenant)

    async def room(self, tenant: str) -> None:
        """Wait while too many outcomes of a tenant are on their way. A slow store slows its slots
        down; memory stays bounded."""
        while len(self._lanes.get(tenant, ())) > _MOST_OF_ONE:
            await self._delivered.wait()
        await self._flow.room(tenant)

    async def empty(self) -> None:
        """Wait until everything that was put in is recorded."""
        while self._lanes:
            await self._delivered.wait()

    async def run(self) -> None:
        """Run until cancelled."""
        await self._couriers.run(self._lanes)

    async def _deliver_all(self, tenant: str) -> None:
        """Record everything in a lane. Outcomes stay in it until they are recorded."""
        lane = self._lanes[tenant]
        if self._waits_a_turn:
            await asyncio.sleep(0)
        while lane:
            batch = lane[:] if len(lane) == 1 else self._next_of(tenant, lane)
            admitted = await self._admission.admitted(tenant, batch, self._afterwards)
            await (self._deliver_wanted(admitted) if any(map(_WANTED, admitted)) else self._release(admitted))
            del lane[: len(batch)]
            if self._sizes or self._afterwards:
                self._let_go(tenant, batch)
            for listener in self._listeners:
                listener(batch)
            if not lane:
                del self._lanes[tenant]
            self._delivered.tell()

    def _next_of(self, tenant: str, lane: list[Ending]) -> list[Ending]:
        step = self._courtesy.step(tenant, LONG_STEP)
        batch = _first(lane, step)
        return self._in_one_write(batch, step) if self._sizes else batch

    def _in_one_write(self, batch: list[Ending], most_made: int) -> list[Ending]:
        """As many of them as make a write of a sensible size, with the jobs that they made, and at least one."""
        size_bytes = made = 0
        for number, (job, _, wanted) in enumerate(batch):
            size_bytes += self._sizes.get((job.id, job.token), 0)
            made += len(wanted)
            if number and (size_bytes > _PIECE_BYTES or made > most_made):
                return batch[:number]
        return batch

    def _let_go(self, tenant: str, batch: Sequence[Ending]) -> None:
        if self._sizes:
            self._flow.release(tenant, sum(self._sizes.pop((job.id, job.token), 0) for job, _, _ in batch))
        if self._afterwards:
            for job, _, _ in batch:
                self._afterwards.pop((job.id, job.token), None)

    async def _deliver_wanted(self, batch: Sequence[Admitted]) -> None:
        """With the jobs that they asked for."""
        batch = await self._of_this_tenant(batch)
        makers = [ending for ending in batch if go_into_the_store(ending[0], ending[2])]
        others = [ending for ending in batch if not go_into_the_store(ending[0], ending[2])]
        if others:
            await self._release(await self._write_wanted(others))
        for some in _in_pieces(makers):
            await self._end_makers([(maker, self._making_end(*maker[1:])) for maker in some])

    async def _of_this_tenant(self, batch: Sequence[Admitted]) -> Sequence[Admitted]:
        """Without the new jobs of jobs whose tenant was deleted, and whose name another has now. Their ends are stale,
        but the journal would have the new jobs before the store can say so."""
        jobs = [job for job, _, wishes in batch if wishes]
        gone = await self._until_it_works(lambda: deliveries_of_former_tenants(self._store, jobs, self._clock.now_ms()))
        if not gone:
            return batch
        log.warning("outbox.tenant_deleted", extra={"jobs": len(gone), "first": min(gone)})
        return [(job, end, () if job.id in gone else wishes) for job, end, wishes in batch]

    async def _end_makers(self, makers: Sequence[tuple[Admitted, MakingEnd]]) -> None:
        """All at once; if that is refused, in halves, so that it costs only those that it is about."""
        try:
            await self._record_with_jobs(makers)
        except REFUSED as error:
            if len(makers) == 1:
                ((job, release, _), _) = makers[0]
                await self._release_refused(job, release, error)
                return
            half = len(makers) // 2
            await self._end_makers(makers[:half])
            await self._end_makers(makers[half:])

    async def _write_wanted(self, batch: Sequence[Admitted]) -> Sequence[Admitted]:
        """The endings, with a refusal for each whose new jobs the journal refused although they were admitted."""
        try:
            await self._write([wish for _, _, wishes in batch for wish in wishes])
        except REFUSED as error:
            if len(batch) > 1:
                return [written for ending in batch for written in await self._write_wanted([ending])]
            return [await self._refused(*batch[0][:2], error)]
        return batch

    async def _write(self, wishes: Sequence[Wish]) -> None:
        for piece in journal_pieces(wishes):
            await self._until_it_works(partial(self._intake.write, *piece))

    async def _refused(self, job: Job, release: Release, error: Exception) -> Admitted:
        """What stands in place of an ending that the journal or the store refused. What follows from it is written."""
        follows = self._afterwards.get((job.id, job.token), NOTHING_MORE)
        ending = await self._admission.refused(job, release, error, follows)
        if ending[2]:
            (ending,) = await self._of_this_tenant([ending])
            try:
                await self._write(ending[2])
            except REFUSED as again:
                log.warning("outbox.not_passed_on", extra={"id": job.id[:80], "reason": str(again)[:200]})
        return job, ending[1], ()

    def _making_end(self, release: Release, wishes: Sequence[Wish]) -> MakingEnd:
        """The ids of the new jobs stay the same, however often it is written."""
        assert not isinstance(release, Unclaim | Discard)
        return MakingEnd(release, creations_of(wishes, self._journal.take_ids(len(wishes)), self._clock.now_ms()))

    async def _record_with_jobs(self, makers: Sequence[tuple[Admitted, MakingEnd]]) -> None:
        """End runs together with the jobs that they made."""
        recorded: list[Admitted] = [(job, release, ()) for (job, release, _), _ in makers]
        if self._straight is not None:
            await self._straight.showing.show_all([job.id for job, _, _ in recorded])  # such an end needs them there
        now_ms, ends = self._clock.now_ms(), [end for _, end in makers]
        report = await self._until_it_works(lambda: self._store.release_with_jobs(self._owner, ends, now_ms=now_ms))
        if self._straight is not None:
            self._straight.released(recorded, report.stale)
        self._note(recorded, report)

    async def _release(self, batch: Sequence[Admitted]) -> None:
        """All at once; if that is refused, one by one, so that it costs only the job whose value it is."""
        try:
            await self._record(batch)
        except REFUSED as error:
            if len(batch) > 1:
                for ending in batch:
                    await self._release([ending])
            else:
                await self._release_refused(*batch[0][:2], error)

    async def _release_refused(self, job: Job, release: Release, error: Exception) -> None:
        _, end, _ = await self._refused(job, release, error)
        bare = without_run(end, self._clock.now_ms())  # what is kept of the run may be what the store refuses
        for one in (end, bare):
            try:
                await self._record([(job, one, ())])
            except REFUSED as again:
                error = again
            else:
                return
        self.refused += 1
        if self._straight is not None:
            self._straight.refused(job)
        log.error("outbox.refused", exc_info=error, extra={"id": job.id[:80], "reason": str(error)[:200]})

    async def _record(self, batch: Sequence[Admitted]) -> None:
        straight, ids = self._straight, set[str]()
        if straight is not None:
            every = list(map(_ID, map(_JOB, batch)))
            ids = await straight.among(every)
            if len(ids) == len(batch):
                await self._record_straight(straight, every, batch)
                return
        known = [ending for ending in batch if ending[0].id not in ids] if ids else batch
        ends, clock = list(map(_RELEASE, known)), self._clock
        report = await self._until_it_works(lambda: self._store.release_jobs(self._owner, ends, now_ms=clock.now_ms()))
        if straight is not None:
            straight.released(known, report.stale)
        self._note(known, report)
        if ids:
            await self._record([ending for ending in batch if ending[0].id in ids])  # which may be shown by now

    async def _record_straight(self, straight: StraightWay, ids: Sequence[str], batch: Sequence[Admitted]) -> None:
        """Jobs that the store need not have: they are added with their end, and the journal's position with them. From
        now on they are not shown as running."""
        jobs, releases = list(map(_JOB, batch)), list(map(_RELEASE, batch))
        new = straight.new_jobs(ids)
        position, ended_ms = self._intake.position(), self._clock.now_ms()
        add = partial(add_ended, self._store, self._owner, new, releases, ended_ms=ended_ms, position=position)
        straight.ending.begin(ids)
        failed = partial(straight.ending.failed, ids)
        report = await self._until_it_works(lambda: add(now_ms=self._clock.now_ms()), failed)
        straight.recorded(jobs, releases, set(report.stale), ended_ms)
        await self._intake.arrived(ids, position)
        self._note(batch, report)

    def _note(self, batch: Sequence[Admitted], report: ReleaseReport) -> None:
        stale = report.stale
        for listener in self._pausing if report.paused else ():
            listener()
        if stale:
            self.stale += len(stale)
            log.warning("outbox.stale", extra={"jobs": len(stale), "first": stale[0]})
        for witness in self._witnesses:
            witness(batch, report)
        if self._job_log is not None:
            stopped = _stopped(batch, stale)
            outcomes = list(map(_OUTCOME, map(_RELEASE, stopped)))
            self._job_log.stopped(list(map(_JOB, stopped)), outcomes, self._clock.now_ms())

    async def _until_it_works(
        self, call: Callable[[], Awaitable[_T]], failed: Callable[[str], None] | None = None
    ) -> _T:
        """failed: is told why it did not, each time."""
        has_failed = False
        while True:
            try:
                with self._progress.step("outbox"):
                    return await call()
            except (StoreUnavailable, JournalUnavailable) as error:
                if not has_failed:
                    log.warning("outbox.waiting", extra={"reason": str(error)})
                has_failed = True
                if failed is not None:
                    failed(str(error))
                await asyncio.sleep(_PAUSE_S)


def _first(lane: list[Ending], count: int) -> list[Ending]:
    """The first endings of a lane, at most `count`, with no job twice. A daemon that lost a lease and claimed the job
    again may end both deliveries at the same moment, and the store takes an id only once in a call."""
    endings = lane[:count]
    if len({job.id for job, _, _ in endings}) < len(endings):
        seen: set[str] = set()
        for number, (job, _, _) in enumerate(endings):
            if job.id in seen:
                return endings[:number]
            seen.add(job.id)
    return endings


def _in_pieces(makers: Sequence[Admitted]) -> Iterator[Sequence[Admitted]]:
    piece: list[Admitted] = []
    made = 0
    for maker in makers:
        made += len(maker[2])
        if piece and (len(piece) == _MAKERS_AT_ONCE or made > _MADE_AT_ONCE):
            yield piece
            piece, made = [], len(maker[2])
        piece.append(maker)
    if piece:
        yield piece


def _stopped(batch: Sequence[Admitted], stale: Sequence[str]) -> Sequence[Admitted]:
    """Those that stopped: not the ones given back, nor those that another delivery has."""
    if stale or Unclaim in set(map(type, map(_RELEASE, batch))):
        lost = set(stale)
        batch = [ending for ending in batch if not isinstance(ending[1], Unclaim) and ending[0].id not in lost]
    return batch
