"""The straight way: from the journal's line to a slot, and to the store once, when the job is over.

Most jobs never wait. A line that is durable in this daemon's journal is safe, and nobody else can know of its job. So
it need not be added, looked for, claimed and released in four synced steps: it waits here for the scheduler's pick,
runs, and is added to the store together with its end (docs/decisions/0020-the-straight-way.md).

Ensures, for each job that was taken, that it leaves once: with its end, or shown as running because it takes long, or
back to the line of the long way because it was not started in time. Until then the journal keeps its line. After a
crash the line is read again and takes the long way, which counts its attempts: a job that ends daemons comes here once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from operator import itemgetter
from typing import Any, Final

from functory.config import StraightMode
from functory.execution.leases import HeldLeases
from functory.execution.straight.ends import EndsUnderWay
from functory.execution.straight.followers import Followers
from functory.execution.straight.gathering import Gathering
from functory.execution.straight.jobs import delivered, ended, running
from functory.execution.straight.recent_ends import RecentEnds
from functory.execution.straight.showing import LOOK_AGAIN_S, StraightShowing
from functory.execution.straight.type_gates import TypeGates
from functory.intake.intake import Intake
from functory.loops.shared import Shared
from store.base import Archive, Discard, Finish, Job, JobRecord, NewJob, Release
from store.errors import StoreUnavailable
from vocabulary.names import tenant_of

_RETURN_AFTER_S: Final = 0.03
"""A job that was not started within this time takes the long way."""
_LOOKS: Final = 6
"""So many times in that time it is looked for such jobs, at most."""
_MOST_WAITING: Final = 4000
_MOST_OF_ONE: Final = 1000
_MOST_BYTES: Final = 16 << 20
_LARGEST_BYTES: Final = 64 << 10
_RELEASE: Final = itemgetter(1)


class StraightWay:
    """Implements `intake.backlog.StraightIntake`; the executor is the other half."""

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
        offer: Callable[[str], None],
        mode: StraightMode,
    ) -> None:
        """is_clear, ahead: what is known to wait in the store (followers.py). offer: jobs of a type can start."""
        self._clock = shared.clock
        self._owner = shared.owner
        self._job_log = shared.job_log
        self._courtesy = shared.courtesy
        self._intake = intake
        self._gates = gates
        self._lease_ms = lease_ms
        self._offer = offer
        self._mode = mode
        self._turn = 0
        self._waiting: dict[str, deque[NewJob]] = {}
        self._followers = Followers(shared.clock, is_clear, ahead, intake.in_line)
        self._waiting_lines = 0
        self._waiting_bytes = 0
        """Of those that wait and of those that follow."""
        self._oldest_s: dict[str, float] = {}
        """Since when the first of a type waits."""
        self._running: dict[str, NewJob] = {}
        """Started here, and not in the store with its end."""
        self.ending = EndsUnderWay()
        self.showing = StraightShowing(
            shared, intake, leases, self._running, self.ending, lease_ms=lease_ms, on_shown=self._leave
        )
        self._returning: asyncio.TimerHandle | None = None
        self._gathering = Gathering(shared.clock, self._start_gathered)
        self._left = asyncio.Event()
        self._ended_now: set[str] = set()
        self.recent = RecentEnds(shared.clock)
        gates.when_known(self._on_gates)

    # Lines come in

    def admits(self, jobtype: str, lines: Sequence[bytes]) -> bool:
        count = len(lines)
        if (
            self._mode == "off"
            or count + len(self._waiting.get(jobtype, ())) > _MOST_OF_ONE
            or count + self._waiting_lines > _MOST_WAITING
            or not (self._followers.has_none_before(jobtype) or self._followers.may_join(jobtype, count))
            or sum(map(len, lines)) + self._waiting_bytes > _MOST_BYTES
            or max(map(len, lines)) > _LARGEST_BYTES
        ):
            return False
        self._turn += 1
        if self._mode == "mixed" and self._turn % 2:
            return False
        gate = self._gates.ask(jobtype)  # the answer is here by the time the line is on disk
        return gate is None or (gate.is_open and gate.handler_version > 0)

    def take(self, jobs: Sequence[NewJob]) -> None:
        jobtype = jobs[0].jobtype
        self._waiting_lines += len(jobs)
        self._waiting_bytes += sum(len(job.data) for job in jobs)
        if self._followers.has_none_before(jobtype):
            self._wait(jobtype, jobs, self._clock.monotonic_s())
            if not self._gathering.waits_for_more(jobtype, len(self._waiting[jobtype])):
                self._offer_or_return(jobtype)
        else:
            self._followers.join(jobtype, jobs)
        self._look_for_old()

    def catch_up(self, jobtypes: Iterable[str] | None = None) -> None:
        """Jobs of these types were taken up, or a look (None) has seen what is left: who followed them may start."""
        for jobtype in self._followers.free(jobtypes):
            self._wait(jobtype, *self._followers.leave(jobtype))
            self._offer_or_return(jobtype)

    def give_way(self, jobtype: str) -> None:
        if jobtype in self._followers:
            self._return(jobtype)

    def _wait(self, jobtype: str, jobs: Sequence[NewJob], since_s: float) -> None:
        if jobtype not in self._waiting:
            self._waiting[jobtype] = deque()
            self._oldest_s[jobtype] = since_s
        self._waiting[jobtype].extend(jobs)

    def may_run(self, jobtype: str) -> bool:
        gate = self._gates.ask(jobtype)
        return gate is None or gate.handler_version > 0

    async def flush(self, tenant: str) -> None:
        here = {**self._waiting, **dict.fromkeys(self._followers.jobtypes)}
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
        """Jobs that could start now, by type."""
        for jobtype, jobs in self._waiting.items():
            if self._gates.get(jobtype) is not None:
                yield jobtype, len(jobs)

    def count(self, jobtype: str) -> int:
        return len(self._waiting.get(jobtype, ())) if self._gates.get(jobtype) is not None else 0

    def start(self, jobtype: str, most: int) -> tuple[list[Job], int]:
        """Take up to so many jobs to be run now, with the version of their handler; none if none wait here."""
        waiting, gate = self._waiting.get(jobtype), self._gates.get(jobtype)
        if not waiting or gate is None:
            return [], 0
        new = [waiting.popleft() for _ in range(min(most, len(waiting)))]
        self._waiting_lines -= len(new)
        self._waiting_bytes -= sum(len(job.data) for job in new)
        if waiting:
            self._oldest_s[jobtype] = self._clock.monotonic_s()
        else:
            del self._waiting[jobtype], self._oldest_s[jobtype]
        self._gathering.started(jobtype, len(new))
        self._running.update({job.id: job for job in new})
        self._courtesy.seen(tenant_of(jobtype), len(new) + len(waiting))  # jobs that run, and no others: it is no lever
        now_ms = self._clock.now_ms()
        if self._job_log is not None:
            self._job_log.entered([job.id for job in new], [jobtype] * len(new), [job.data for job in new], now_ms)
        until_ms = now_ms + self._lease_ms
        return [delivered(job, self._owner, until_ms) for job in new], gate.handler_version

    # The outbox's half

    def among(self, ids: Iterable[str]) -> set[str]:
        """Of jobs that stopped, those that must be added with their end. One that the store has is released as any
        other: if it is not there any more, its tenant was deleted."""
        return {job_id for job_id in ids if job_id in self._running and job_id not in self.showing}

    def new_job(self, job_id: str) -> NewJob:
        return self._running[job_id]

    def recorded(self, endings: Sequence[tuple[Job, Release]], stale: Container[str], now_ms: int) -> None:
        """The store has them with their end. Who waits for one of them may have it from here."""
        for job, release in endings:
            self.ending.over(job.id)
            self._running.pop(job.id, None)
            self.showing.forget(job.id)
            if isinstance(release, Archive | Discard | Finish) and job.id not in stale:
                self._ended_now.add(job.id)
                self.recent.add(ended(job, release, now_ms), is_kept=not isinstance(release, Discard))
        if not self._gathering.is_idle:
            self._gathering.ended({job.jobtype for job, _ in endings})
        self._leave()

    def released(self, endings: Sequence[tuple[Job, Release, Any]], stale: Container[str] = ()) -> None:
        """The store had them, those that were shown among them. Who waits for one that is not kept has it from here."""
        for job, release, _ in endings if Discard in set(map(type, map(_RELEASE, endings))) else ():
            if type(release) is Discard and job.id not in stale:
                self.recent.add(ended(job, release, self._clock.now_ms()), is_kept=False)
        for job, _, _ in endings if self.showing else ():
            if self.showing.forget(job.id):
                self._running.pop(job.id, None)

    def refused(self, job: Job) -> None:
        """Its end cannot be recorded in any form: its lease lapses, or it takes the long way. Both count attempts."""
        self.ending.over(job.id)
        new = self._running.pop(job.id, None)
        if not self.showing.forget(job.id) and new is not None:
            self._intake.return_to_line([new])
        self._leave()

    def leaves_nothing_to_do(self, endings: Sequence[tuple[Job, Release, Any]]) -> bool:
        """Whether all of these were only here, and are over: then nothing can have become runnable by them."""
        if not self._ended_now:
            return not endings
        ids = {job.id for job, _, _ in endings}
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

    def is_here(self, job_id: str) -> bool:
        """Whether a job waits or runs here, and the store does not have it."""
        return self._intake.is_held(job_id)

    # Steps

    def forget_gates(self, tenant: str) -> None:
        """Something of a tenant, or of any, was changed here: nothing starts by what was known before."""
        self._gates.forget(tenant)
        for jobtype in list(self._waiting):
            if self._gates.ask(jobtype) is None:
                self._offer(jobtype)

    def _start_gathered(self, jobtype: str) -> None:
        if jobtype in self._waiting:
            self._oldest_s[jobtype] = self._clock.monotonic_s()
            self._offer_or_return(jobtype)

    def _on_gates(self, jobtypes: Iterable[str]) -> None:
        for jobtype in jobtypes:
            if jobtype in self._waiting:
                self._offer_or_return(jobtype)

    def _offer_or_return(self, jobtype: str) -> None:
        gate = self._gates.get(jobtype)
        if gate is None:
            self._gates.want(jobtype)
        elif gate.is_open and gate.handler_version:
            self._offer(jobtype)
        else:
            self._return(jobtype)

    def _return_old(self) -> None:
        self._returning = None
        now_s = self._clock.monotonic_s()
        for jobtype in [name for name, since_s in self._oldest_s.items() if now_s - since_s >= _RETURN_AFTER_S]:
            self._return(jobtype)
        for jobtype in self._followers.waited(_RETURN_AFTER_S):
            self._followers.tire(jobtype)
            self._return(jobtype)
        self._look_for_old()

    def _look_for_old(self) -> None:
        """Look again when the oldest has waited for long enough, but not all the time."""
        if self._returning is None and (self._waiting or self._followers):
            oldest_s = min([self._followers.oldest_s, *self._oldest_s.values()])
            delay_s = max(oldest_s + _RETURN_AFTER_S - self._clock.monotonic_s(), _RETURN_AFTER_S / _LOOKS)
            self._returning = asyncio.get_running_loop().call_later(delay_s, self._return_old)

    def _return(self, jobtype: str) -> None:
        """With those that follow: none overtakes another."""
        jobs = list(self._waiting.pop(jobtype, ()))
        self._oldest_s.pop(jobtype, None)
        if jobtype in self._followers:
            jobs += self._followers.leave(jobtype)[0]
        self._waiting_lines -= len(jobs)
        self._waiting_bytes -= sum(len(job.data) for job in jobs)
        self._intake.return_to_line(jobs)
        self._offer(jobtype)
        self._leave()

    def _leave(self) -> None:
        left, self._left = self._left, asyncio.Event()
        left.set()

    async def close(self) -> None:
        if self._returning is not None:
            self._returning.cancel()
        self._gathering.close()
        await self.showing.close()
        await self._gates.close()
