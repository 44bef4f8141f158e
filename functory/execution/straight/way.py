"""The straight way: from the journal's line to a slot, and to the store once, when the job is over.

Most jobs never wait. A line that is durable in this daemon's journal is safe, and nobody else can know of its job. So
it need not be added, looked for, claimed and released in four synced steps: it waits here for the scheduler's pick,
runs, and is added to the store together with its end (docs/decisions/0020-the-straight-way.md).

Ensures, for each job that was taken, that it leaves once: with its end, or shown as running because it takes long, or
back to the line of the long way because it was not started in time. Until then the journal keeps its line. After a
crash the line is read again and takes the long way, which counts its attempts: a job that ends daemons comes here once.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from operator import itemgetter
from typing import Any, Final

from functory.config import StraightMode
from functory.execution.leases import HeldLeases
from functory.execution.straight import waiting_jobs
from functory.execution.straight.ends import EndsUnderWay
from functory.execution.straight.followers import FEW, Followers
from functory.execution.straight.gathering import Gathering
from functory.execution.straight.jobs import delivered_all, ended, running
from functory.execution.straight.reader_pause import ReaderPause
from functory.execution.straight.recent_ends import RecentEnds
from functory.execution.straight.showing import LOOK_AGAIN_S, StraightShowing
from functory.execution.straight.type_gates import TypeGates
from functory.execution.straight.waiting_jobs import WaitingJobs
from functory.intake.intake import Intake
from functory.loops.next_time import NextTime
from functory.loops.shared import Shared
from store.base import Archive, Discard, Finish, Job, JobRecord, NewJob, Release
from store.errors import StoreUnavailable
from vocabulary.columns import fields
from vocabulary.names import tenant_of

_LOOKS: Final = 6
"""So many times in RETURN_AFTER_S it is looked for jobs that were not started, at most."""
_JOB, _RELEASE = itemgetter(0), itemgetter(1)
_ID, _JOBTYPE = fields(Job, "id"), fields(Job, "jobtype")
_OVER: Final = Archive | Discard | Finish
_NEW_ID, _NEW_TYPE, _NEW_DATA = fields(NewJob, "id"), fields(NewJob, "jobtype"), fields(NewJob, "data")


class StraightWay:
    """Implements `intake.straight_intake.StraightIntake`; the executor is the other half."""

    def __init__(
        self,
        shared: Shared,
        intake: Intake,
        gates: TypeGates,
        leases: HeldLeases,
        *,
        lease_ms: int,
        is_clear: Callable[[str], bool],
        ahead: Callable[[str], int | None],
        offer: Callable[[str, int], None],
        is_alone: Callable[[], bool],
        mode: StraightMode,
    ) -> None:
        """is_clear, ahead: what is known to wait in the store (followers.py). offer: so many jobs of a type can start.
        is_alone: no other daemon uses the store."""
        self._clock = shared.clock
        self._owner = shared.owner
        self._job_log = shared.job_log
        self._courtesy = shared.courtesy
        self._intake = intake
        self._gates = gates
        self._lease_ms = lease_ms
        self._offer = offer
        self._is_clear = is_clear
        self._mode = mode
        self._turn = 0
        self._is_alone = is_alone
        self._waiting = WaitingJobs(shared.clock, is_alone)
        self._pause = ReaderPause(shared.clock, self._waiting.are_enough, is_clear, ahead, self._is_flood)
        self._followers = Followers(shared.clock, is_clear, ahead, intake.in_line)
        self._running: dict[str, NewJob] = {}
        """Started here, and not in the store with its end."""
        self.ending = EndsUnderWay()
        self._left = NextTime()
        self.showing = StraightShowing(
            shared, intake, leases, self._running, self.ending, lease_ms=lease_ms, on_shown=self._left.tell
        )
        self._returning: asyncio.TimerHandle | None = None
        self._gathering = Gathering(shared.clock, self._start_gathered)
        self._ended_now: set[str] = set()
        self.recent = RecentEnds(shared.clock)
        gates.when_known(self._on_gates)

    # Lines come in

    def admits(self, jobtype: str, lines: Sequence[bytes]) -> bool:
        return (
            self._mode != "off"
            and self._waiting.have_room(jobtype, lines)
            and (self._followers.has_none_before(jobtype) or self._followers.may_join(jobtype, len(lines)))
            and self._may_come(jobtype)
        )

    def take(self, jobs: Sequence[NewJob]) -> None:
        jobtype = jobs[0].jobtype
        self._waiting.count(jobs, 1)
        if self._followers.has_none_before(jobtype):
            self._waiting.add(jobtype, jobs, self._clock.monotonic_s())
            if not self._gathering.waits_for_more(jobtype, self._waiting.of(jobtype)):
                self._offer_or_return(jobtype)
        else:
            self._followers.join(jobtype, jobs)
        self._look_for_old()

    def may_follow(self, jobtype: str, lines: Sequence[bytes]) -> bool:
        return (
            self._mode != "off"
            and self._waiting.may_follow(lines)
            and jobtype not in self._followers
            and self._is_clear(jobtype)
            and self._may_come(jobtype)
        )

    def follow(self, jobs: Sequence[NewJob]) -> None:
        jobtype = jobs[0].jobtype
        self._waiting.count(jobs, 1)
        self._waiting.add(jobtype, jobs, self._clock.monotonic_s())
        self._offer_or_return(jobtype)
        self._look_for_old()

    def _may_come(self, jobtype: str) -> bool:
        self._turn += 1
        if self._mode == "mixed" and self._turn % 2:
            return False
        gate = self._gates.ask(jobtype)  # the answer is here by the time the line is on disk
        return gate is None or (gate.is_open and gate.handler_version > 0)

    async def room(self, next_type: Callable[[], str | None]) -> None:
        if self._mode != "off" and self._is_alone():
            await self._pause.over(next_type)

    def _is_flood(self, jobtype: str) -> bool:
        gate = self._gates.ask(jobtype)
        is_open = gate is not None and gate.is_open and gate.handler_version > 0
        return is_open and self._intake.may_follow().get(jobtype, 0) > FEW

    def look_for_room(self) -> None:
        self._pause.look()

    def catch_up(self, jobtypes: Iterable[str] | None = None) -> None:
        """Jobs of these types were taken up, or a look (None) has seen what is left: who followed them may start."""
        for jobtype in self._followers.free(jobtypes):
            self._waiting.add(jobtype, *self._followers.leave(jobtype))
            self._offer_or_return(jobtype)
        self._pause.look()

    def give_way(self, jobtype: str, *, is_urgent: bool) -> None:
        if jobtype in self._followers or (is_urgent and jobtype in self._waiting):
            self._return(jobtype)

    def give_way_to_all(self) -> None:
        for jobtype in [*self._waiting, *self._followers.jobtypes]:
            self._return(jobtype)

    def may_run(self, jobtype: str) -> bool:
        gate = self._gates.ask(jobtype)
        return gate is None or gate.handler_version > 0

    async def flush(self, tenant: str) -> None:
        here = dict.fromkeys([*self._waiting, *self._followers.jobtypes])
        for jobtype in [jobtype for jobtype in here if not tenant or tenant_of(jobtype) == tenant]:
            self._return(jobtype)
        ids = {job.id for job in self._running.values() if not tenant or tenant_of(job.jobtype) == tenant}
        trouble = await self.showing.show([job_id for job_id in ids if job_id in self._running])
        while any(map(self._intake.is_held, ids)):
            if trouble:
                raise StoreUnavailable(trouble)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_S):
                    await self._left.wait()
            trouble = await self.showing.show([job_id for job_id in ids if self._intake.is_held(job_id)])

    # The executor's half

    def waiting(self) -> Iterator[tuple[str, int]]:
        """Jobs that could start now, by type. Where a gate is not known it is asked for, and they are offered then."""
        for jobtype in self._waiting:
            if self._gates.ask(jobtype) is not None:
                yield jobtype, self._waiting.of(jobtype)

    def count(self, jobtype: str) -> int:
        return self._waiting.of(jobtype) if jobtype in self._waiting and self._gates.ask(jobtype) is not None else 0

    def start(self, jobtype: str, most: int) -> tuple[list[Job], int]:
        """Take up to so many jobs to be run now, with the version of their handler; none if none wait here."""
        if jobtype not in self._waiting or (gate := self._gates.ask(jobtype)) is None:
            return [], 0
        new = self._waiting.start(jobtype, most)
        self._pause.look()
        self._gathering.started(jobtype, len(new))
        ids = list(map(_NEW_ID, new))
        self._running.update(zip(ids, new, strict=True))
        self._see(jobtype, len(new))
        now_ms = self._clock.now_ms()
        if self._job_log is not None:
            self._job_log.entered(ids, [jobtype] * len(new), map(_NEW_DATA, new), now_ms)
        return delivered_all(new, self._owner, now_ms + self._lease_ms), gate.handler_version

    def _see(self, jobtype: str, count: int) -> None:
        """They start or have ended: neither what follows nor the answer is to meet long steps of others. Of jobs that
        run, and no others: it is no lever."""
        self._courtesy.seen(tenant_of(jobtype), count + self._waiting.of(jobtype))

    # The outbox's half

    async def among(self, ids: Sequence[str]) -> set[str]:
        """Of jobs that stopped, those that must be added with their end, once it is known of all. One that the store
        has is released as any other: if it is not there any more, its tenant was deleted."""
        if self.showing.under_way:
            await self.showing.settled(ids)
        here = self._running.keys() & ids
        return here - self.showing.shown.keys() if self.showing.shown else here

    def new_jobs(self, ids: Iterable[str]) -> list[NewJob]:
        return list(map(self._running.__getitem__, ids))

    def recorded(self, jobs: Sequence[Job], releases: Sequence[Release], stale: Container[str], now_ms: int) -> None:
        """The store has them with their end. Who waits for one of them may have it from here."""
        ids = list(map(_ID, jobs))
        self.ending.over(ids)
        for job_id in ids:
            self._running.pop(job_id, None)
        for job_id in ids if self.showing.shown else ():
            self.showing.forget(job_id)
        awaited = self.recent.awaited_of(tenant_of(jobs[0].jobtype))
        for job, release in zip(jobs, releases, strict=True):
            if isinstance(release, _OVER) and job.id not in stale:
                self._ended_now.add(job.id)
                is_kept = type(release) is not Discard
                if not is_kept or job.id in awaited:  # of the others the store can tell
                    self.recent.add(ended(job, release, now_ms), is_kept=is_kept)
        self._see(jobs[0].jobtype, len(jobs))
        if not self._gathering.is_idle:
            self._gathering.ended(set(map(_JOBTYPE, jobs)))
        self._left.tell()

    def released(self, endings: Sequence[tuple[Job, Release, Any]], stale: Container[str] = ()) -> None:
        """The store had them, those that were shown among them. Who waits for one that is not kept has it from here."""
        for job, release, _ in endings if Discard in set(map(type, map(_RELEASE, endings))) else ():
            if type(release) is Discard and job.id not in stale:
                self.recent.add(ended(job, release, self._clock.now_ms()), is_kept=False)
        for job, _, _ in endings if self.showing.shown else ():
            if self.showing.forget(job.id):
                self._running.pop(job.id, None)
                self._see(job.jobtype, len(endings))

    def refused(self, job: Job) -> None:
        """Its end cannot be recorded in any form: its lease lapses, or it takes the long way. Both count attempts."""
        self.ending.over([job.id])
        new = self._running.pop(job.id, None)
        if not self.showing.forget(job.id) and new is not None:
            self._intake.return_to_line([new])
        self._left.tell()

    def leaves_nothing_to_do(self, endings: Sequence[tuple[Job, Release, Any]]) -> bool:
        """Whether all of these were only here, and are over: then nothing can have become runnable by them."""
        if not self._ended_now:
            return not endings
        ids = set(map(_ID, map(_JOB, endings)))
        straight = ids & self._ended_now
        self._ended_now -= straight
        return len(straight) == len(ids)

    # What others ask

    def look(self, tenant: str, job_id: str, now_ms: int) -> JobRecord | None:
        """A job that runs here and that the store does not have."""
        job = self._running.get(job_id)
        if job is None or tenant_of(job.jobtype) != tenant or not self._intake.is_held(job_id):
            return None
        return running(job, self._owner, now_ms, now_ms + self._lease_ms)

    def just_ended(self, tenant: str, job_id: str, *, also_kept: bool) -> JobRecord | None:
        return self.recent.find(tenant, job_id, also_kept=also_kept)

    def awaiting(self, tenant: str, job_ids: Sequence[str]) -> AbstractContextManager[None]:
        return self.recent.awaiting(tenant, job_ids)

    def hurry(self, jobtype: str) -> None:
        """Somebody waits for the end of a job of the type."""
        self._gathering.hurry(jobtype)

    def unseen(self, tenant: str | None) -> dict[str, tuple[int, int]]:
        """By type, how many jobs of a tenant, or of all, wait and run that the store does not have. Without the few
        that follow others, and without lines that are on their way into the store."""
        unseen = [job for id_, job in self._running.items() if id_ not in self.showing.shown and id_ not in self.ending]
        running = Counter(map(_NEW_TYPE, unseen))
        waiting = Counter({jobtype: self._waiting.of(jobtype) for jobtype in self._waiting})
        waiting.update(self._intake.may_follow())
        its_types = [name for name in waiting.keys() | running if tenant is None or tenant_of(name) == tenant]
        return {jobtype: (waiting[jobtype], running[jobtype]) for jobtype in its_types}

    def is_here(self, job_id: str) -> bool:
        """Whether a job waits or runs here, and the store does not have it."""
        return self._intake.is_held(job_id)

    # Steps

    def forget_gates(self, tenant: str) -> None:
        """Something of a tenant, or of any, was changed here: nothing starts by what was known before."""
        self._gates.forget(tenant)
        for jobtype in list(self._waiting):
            if self._gates.ask(jobtype) is None:
                self._offer(jobtype, 0)

    def _start_gathered(self, jobtype: str) -> None:
        if jobtype in self._waiting:
            self._waiting.renew(jobtype)
            self._offer_or_return(jobtype)

    def _on_gates(self, jobtypes: Iterable[str]) -> None:
        for jobtype in jobtypes:
            if jobtype in self._waiting:
                self._offer_or_return(jobtype)

    def _offer_or_return(self, jobtype: str) -> None:
        """Where its gate is not known, neither: it is asked for, and this comes again with the answer."""
        gate = self._gates.ask(jobtype)
        if gate is not None and gate.is_open and gate.handler_version:
            self._offer(jobtype, self._waiting.of(jobtype))
        elif gate is not None:
            self._return(jobtype)

    def _return_old(self) -> None:
        self._returning = None
        now_s = self._clock.monotonic_s()
        for jobtype in [name for name in self._waiting if self._waiting.until_s(name) <= now_s]:
            self._return(jobtype)
        for jobtype in self._followers.waited(waiting_jobs.RETURN_AFTER_S):
            self._followers.tire(jobtype)
            self._return(jobtype)
        self._look_for_old()

    def _look_for_old(self) -> None:
        """Look again when the oldest has waited for long enough, but not all the time."""
        if self._returning is None and (self._waiting or self._followers):
            follow_until_s = self._followers.oldest_s + waiting_jobs.RETURN_AFTER_S
            until_s = min([follow_until_s, *map(self._waiting.until_s, self._waiting)])
            delay_s = max(until_s - self._clock.monotonic_s(), waiting_jobs.RETURN_AFTER_S / _LOOKS)
            self._returning = asyncio.get_running_loop().call_later(delay_s, self._return_old)

    def _return(self, jobtype: str) -> None:
        """With those that follow: none overtakes another."""
        jobs = self._waiting.leave(jobtype)
        if jobtype in self._followers:
            jobs += self._followers.leave(jobtype)[0]
        self._waiting.count(jobs, -1)
        self._pause.look()
        self._intake.return_to_line(jobs)
        self._offer(jobtype, 0)
        self._left.tell()

    async def close(self) -> None:
        if self._returning is not None:
            self._returning.cancel()
        self._gathering.close()
        await self.showing.close()
        await self._gates.close()
