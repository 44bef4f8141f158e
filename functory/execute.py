"""Running jobs: the scheduler picks a jobtype, a batch of it is claimed, the runner runs it, outcomes go to the outbox.

Ensures: never more claimed than there are slots for; each job that was claimed is released once, with its outcome or
given back; every lease is known here from claim to release, so that upkeep can renew it. Woken by ingest, by a slot
that becomes free and by the operator; the poll is only for what other daemons did.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from functory.courtesy import Courtesy, Pace
from functory.joblog import JobLog
from functory.outbox import Ending, Outbox
from functory.outcomes import give_up, releases_of, retry_policy
from functory.progress import Progress
from functory.shelf import HandlerCache
from functory.tenantbook import TenantBook, permitted
from handlers.errors import HandlerError
from handlers.model import Handler
from journal import Clock
from runner.outcome import Stopped
from runner.runner import Runner
from scheduler import Candidate, Pick, Policy, tenant_of
from scheduler.retry import RetryPolicy
from store.base import Job, Lease, Store, Unget
from store.errors import StoreUnavailable
from store.values.columns import fields

log = logging.getLogger("functory.execute")

_LOOK_AGAIN_S: Final = 0.1
"""After a claim that found nothing although something waits: its rate domain has no token, or others were quicker."""

_LOOK_PART: Final = 3
"""Under load a look at what waits is followed by so many times its length without one."""

_LEASE: Final = fields(Job, "id", "token")
_STARTED: Final = fields(Job, "id", "attempts", "due_ms")
_NEW_JOBS: Final = fields(Stopped, "new_jobs")


class Execute:
    def __init__(
        self,
        store: Store,
        runner: Runner,
        policy: Policy,
        outbox: Outbox,
        tenants: TenantBook,
        clock: Clock,
        *,
        owner: str,
        lease_s: float,
        poll_s: float,
        retry: RetryPolicy,
        progress: Progress,
        courtesy: Courtesy,
        joblog: JobLog | None = None,
    ) -> None:
        self._store = store
        self._runner = runner
        self._policy = policy
        self._outbox = outbox
        self._tenants = tenants
        self._clock = clock
        self._owner = owner
        self._lease_ms = round(lease_s * 1000)
        self._poll_s = poll_s
        self._retry = retry
        self._progress = progress
        self._courtesy = courtesy
        self._claims = Pace(courtesy, clock)
        self._joblog = joblog
        self._handlers = HandlerCache(store)
        self._versions: dict[str, int] = {}
        """Handlers in force of the types that waited at the last look."""
        self._untried: dict[str, float] = {}
        """Runnable types that no claim was tried for, and since when."""
        self._resting: dict[str, float] = {}
        """Types whose last claim found nothing, and until when they are left alone."""
        self._claiming: Counter[str] = Counter()
        """Jobs that claims under way are about to take, by type: a look may still see them waiting."""
        self._slots: dict[asyncio.Task[None], tuple[str, float]] = {}
        """What runs: the type, and since when."""
        self._leases: dict[str, int] = {}
        self._looks = 0
        self._next_look_s = 0.0
        self._later: asyncio.TimerHandle | None = None
        self._is_news = True
        """Something may wait that the last look did not see."""
        self._woken = asyncio.Event()
        self._is_stopping = False
        self.is_paused = False
        self.claimed = 0
        """Jobs claimed so far."""

    # Asked by others

    def wake(self) -> None:
        """Something may have become runnable."""
        self._is_news = True
        self._woken.set()

    def added(self, jobtypes: Iterable[str]) -> None:
        """Jobs of these types have come into the store."""
        for jobtype in jobtypes:
            self._resting.pop(jobtype, None)
        self.wake()

    def leases(self) -> list[Lease]:
        """Everything claimed and not yet released."""
        return [Lease(job_id, token) for job_id, token in self._leases.items()]

    @property
    def leases_held(self) -> int:
        return len(self._leases)

    def released(self, endings: Sequence[Ending]) -> None:
        """The outbox has written these. What they have made runnable, if anything, is seen at the next look."""
        leases = self._leases
        for job_id, token in [_LEASE(job) for job, _, _ in endings]:
            if leases.get(job_id) == token:
                del leases[job_id]
        self._woken.set()

    def note_long_batches(self) -> None:
        """Tell the scheduler what has been running for how long, so that it need not wait for the end to know."""
        now_s = self._clock.monotonic_s()
        for jobtype, began_s in self._slots.values():
            self._policy.jobs_running(jobtype, now_s - began_s)

    def untried(self, for_s: float) -> list[str]:
        """Types with runnable work that no claim was tried for in so long."""
        now_s = self._clock.monotonic_s()
        return sorted(jobtype for jobtype, since_s in self._untried.items() if now_s - since_s >= for_s)

    async def recycle(self, jobtype: str) -> None:
        """End the idle contexts of a type, in case one of them is what keeps it from running."""
        handler = await self._handlers.get(jobtype, self._versions.get(jobtype, 0))
        if handler is not None:
            await self._runner.retire(jobtype, handler)

    def hold(self, jobtype: str) -> str:
        """Why nothing of this type is started here at the moment, in a word."""
        return self._policy.why_waiting(jobtype).value

    @property
    def free_slots(self) -> int:
        return self._policy.board.free_slots

    # The loop

    async def run(self) -> None:
        """Until cancelled. A store that cannot be reached is asked again at the next poll."""
        while True:
            self._woken.clear()
            try:
                await self._fill_slots()
            except StoreUnavailable as error:
                log.warning("execute.store_unavailable", extra={"reason": str(error)})
                await asyncio.sleep(self._poll_s)
            try:
                async with asyncio.timeout(self._poll_s):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def stop(self, grace_s: float) -> None:
        """Claim no more; let what runs finish for a while, then give back what is left."""
        self._is_stopping = True
        if self._slots:
            await asyncio.wait(list(self._slots), timeout=grace_s)
        for task in list(self._slots):
            task.cancel()
        if self._slots:
            await asyncio.wait(list(self._slots))

    async def _fill_slots(self) -> None:
        """The store is not looked at all the time, neither while there is known work (with many types that would be the
        work) nor at every slot that becomes free when nobody said that there is more to do."""
        if not self._may_start():
            return
        now_s = self._clock.monotonic_s()
        if now_s < self._next_look_s and (self._start_known() or not self._is_news):
            self._look_later(self._next_look_s - now_s)
            return
        with self._progress.step("execute"):
            await self._look()
        ended_s = self._clock.monotonic_s()
        self._next_look_s = ended_s + _LOOK_PART * (ended_s - now_s)
        self._start_known()

    def _look_later(self, delay_s: float) -> None:
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(delay_s, self._now_is_later)

    def _now_is_later(self) -> None:
        self._later = None
        self._woken.set()

    def _start_known(self) -> bool:
        """Fill the slots with what waited at the last look; False when there was nothing for them."""
        has_started = False
        while self._may_start() and (pick := self._policy.select_jobtype_to_run(self._runner.warm_jobtypes())):
            pick = pick._replace(jobs=self._courtesy.step(tenant_of(pick.jobtype), pick.jobs))
            self._policy.jobs_started(*pick)
            self._untried.pop(pick.jobtype, None)
            task = asyncio.create_task(self._fill_slot(pick), name=f"batch {pick.jobtype}")
            self._slots[task] = (pick.jobtype, self._clock.monotonic_s())
            task.add_done_callback(self._slot_done)
            has_started = True
        return has_started

    def _may_start(self) -> bool:
        return not self._is_stopping and not self.is_paused and self.free_slots > 0

    async def _look(self) -> None:
        """What waits and could run here, for the scheduler."""
        now_s = self._clock.monotonic_s()
        self._resting = {jobtype: until_s for jobtype, until_s in self._resting.items() if until_s > now_s}
        self._looks += 1
        self._is_news = False
        taken = self._claiming.copy()
        waiting = await self._store.get_waiting_jobtypes(now_ms=self._clock.now_ms())
        runnable = [each for each in waiting if each.handler_version and each.jobtype not in self._resting]
        self._versions = {each.jobtype: each.handler_version for each in runnable}
        self._untried = {jobtype: self._untried.get(jobtype, now_s) for jobtype in self._versions}
        self._policy.set_waiting(
            [
                Candidate(
                    each.jobtype,
                    max(0, each.waiting - taken[each.jobtype]),
                    each.oldest_due_ms,
                    self._tenants.of(each.jobtype).max_per_type,
                )
                for each in runnable
            ]
        )

    # One slot

    async def _fill_slot(self, pick: Pick) -> None:
        """Claim a batch and run it. Claims of several slots run side by side and share a commit."""
        jobtype = pick.jobtype
        version = self._versions.get(jobtype, 0)
        jobs: list[Job] = []
        began_s = self._clock.monotonic_s()
        try:
            handler = await self._handlers.get(jobtype, version)
            if handler is not None:
                async with self._claims.step(tenant_of(jobtype), pick.jobs):
                    now_ms = self._clock.now_ms()
                    jobs = await self._claim(pick, now_ms)
                self._claimed(jobtype, jobs, now_ms)
                began_s = self._clock.monotonic_s()
                await self._run_batch(jobtype, permitted(handler, self._tenants.of(jobtype)), version, jobs)
        except StoreUnavailable as error:
            log.warning("execute.store_unavailable", extra={"reason": str(error)})
        except HandlerError as error:
            # Stored by another version of this program, which knew more: the jobs wait for a daemon that can.
            log.warning("execute.handler_unreadable", extra={"jobtype": jobtype, "reason": str(error)})
        finally:
            took_s = self._clock.monotonic_s() - began_s
            try:
                await self._outbox.room(tenant_of(jobtype))
            finally:
                self._policy.jobs_stopped(jobtype, len(jobs), took_s)
                if not jobs:
                    self._rest(jobtype)

    async def _claim(self, pick: Pick, now_ms: int) -> list[Job]:
        self._claiming[pick.jobtype] += pick.jobs
        looks = self._looks
        try:
            with self._progress.step("execute"):
                return await self._store.get_waiting_jobs(
                    pick.jobtype, pick.jobs, owner=self._owner, lease_ms=self._lease_ms, now_ms=now_ms
                )
        finally:
            self._claiming[pick.jobtype] -= pick.jobs
            if not self._claiming[pick.jobtype]:
                del self._claiming[pick.jobtype]
            if self._looks != looks:
                self._woken.set()  # it may have taken new jobs for those of this claim

    def _claimed(self, jobtype: str, jobs: Sequence[Job], now_ms: int) -> None:
        self.claimed += len(jobs)
        self._leases.update(map(_LEASE, jobs))
        if self._joblog is not None:
            started = [
                (job_id, jobtype, attempts, now_ms - due_ms if due_ms < now_ms else 0)
                for job_id, attempts, due_ms in map(_STARTED, jobs)
            ]
            self._joblog.started(started, now_ms)

    def _rest(self, jobtype: str) -> None:
        self._policy.update_waiting(Candidate(jobtype, 0))
        self._resting[jobtype] = self._clock.monotonic_s() + _LOOK_AGAIN_S
        asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self.wake)

    def _slot_done(self, task: asyncio.Task[None]) -> None:
        del self._slots[task]
        self._woken.set()
        if not task.cancelled() and task.exception() is not None:
            log.error("execute.batch_failed", exc_info=task.exception(), extra={"task": task.get_name()})

    async def _run_batch(self, jobtype: str, handler: Handler, version: int, jobs: Sequence[Job]) -> None:
        retry = retry_policy(handler, self._retry)
        exhausted = [job for job in jobs if job.attempts > retry.max_attempts]
        self._outbox.put([(job, give_up(job, self._clock.now_ms()), ()) for job in exhausted])
        left = {job.id: job for job in jobs if job.attempts <= retry.max_attempts}
        try:
            if left:
                on_stopped = partial(self._on_stopped, left, version, retry)
                await self._runner.run_jobs(jobtype, list(left.values()), handler, on_stopped)
        finally:
            # Given back by the runner, or this daemon is stopping: as far as anybody can tell they did not start.
            self._outbox.put([(job, Unget(job.id, job.token), ()) for job in left.values()])
            left.clear()

    def _on_stopped(self, left: dict[str, Job], version: int, retry: RetryPolicy, stopped: Sequence[Stopped]) -> None:
        ended = [one for one in stopped if one.id in left]
        if ended:
            jobs = [left.pop(one.id) for one in ended]
            releases = releases_of(jobs, ended, version, retry, self._clock.now_ms(), random.random)
            self._outbox.put(list(zip(jobs, releases, map(_NEW_JOBS, ended), strict=True)))
