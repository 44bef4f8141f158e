"""Running jobs: the scheduler picks a jobtype, a batch of it is claimed, the runner runs it, outcomes go to the outbox.

Ensures: never more claimed than there are slots for; each job that was claimed is released once, with its outcome or
given back; every lease is known here from claim to release, so that upkeep can renew it. Woken by ingest, by a slot
that becomes free and by the operator; the poll is only for what other daemons did.
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from functools import partial

from functory.joblog import JobLog, Started
from functory.outbox import Ending, Outbox
from functory.outcomes import RetryRules, give_up, release_of
from functory.shelf import HandlerCache
from functory.tenantbook import TenantBook, permitted
from handlers.model import Handler
from journal import Clock
from runner.outcome import Stopped
from runner.runner import Runner
from scheduler import Candidate, Policy
from store.base import Job, Lease, Store, Unget, WaitingType
from store.errors import StoreUnavailable

log = logging.getLogger("functory.execute")

_WHOLE_BATCH = 100  # from this batch size on jobs are so quick that one slot takes them all


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
        slots: int,
        lease_s: float,
        poll_s: float,
        retry: RetryRules,
        joblog: JobLog | None = None,
    ) -> None:
        self._store = store
        self._runner = runner
        self._policy = policy
        self._outbox = outbox
        self._tenants = tenants
        self._clock = clock
        self._owner = owner
        self._slots = slots
        self._lease_ms = round(lease_s * 1000)
        self._poll_s = poll_s
        self._retry = retry
        self._joblog = joblog
        self._handlers = HandlerCache(store)
        self._running: set[asyncio.Task[None]] = set()
        self._leases: dict[str, int] = {}
        self._woken = asyncio.Event()
        self._is_stopping = False
        self.is_paused = False
        self.claimed = 0
        """Jobs claimed so far."""
        self._untried: dict[str, tuple[float, int]] = {}
        """Runnable types that no claim was tried for: since when, and the handler's version."""

    # Asked by others

    def wake(self) -> None:
        """Something may have become runnable."""
        self._woken.set()

    def leases(self) -> list[Lease]:
        """Everything claimed and not yet released."""
        return [Lease(job_id, token) for job_id, token in self._leases.items()]

    def released(self, endings: Sequence[Ending]) -> None:
        """The outbox has written these."""
        for ending in endings:
            if self._leases.get(ending.job.id) == ending.job.token:
                del self._leases[ending.job.id]

    def untried(self, for_s: float) -> list[str]:
        """Types with runnable work that no claim was tried for in so long."""
        now_s = self._clock.monotonic_s()
        return sorted(jobtype for jobtype, (since_s, _) in self._untried.items() if now_s - since_s >= for_s)

    async def recycle(self, jobtype: str) -> None:
        """End the idle contexts of a type, in case one of them is what keeps it from running."""
        _, version = self._untried.get(jobtype, (0.0, 0))
        handler = await self._handlers.get(jobtype, version)
        if handler is not None:
            await self._runner.retire(jobtype, handler)

    @property
    def free_slots(self) -> int:
        return self._slots - len(self._running)

    # The loop

    async def run(self) -> None:
        """Until cancelled. A store that cannot be reached is asked again at the next poll."""
        while True:
            self._woken.clear()
            if not self._is_stopping and not self.is_paused:
                try:
                    await self._fill_slots()
                except StoreUnavailable as error:
                    log.warning("execute.store_unavailable", extra={"reason": str(error)})
                    await asyncio.sleep(self._poll_s)
            try:
                async with asyncio.timeout(self._poll_s):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def stop(self, grace_s: float) -> None:
        """Claim no more; let what runs finish for a while, then give back what is left."""
        self._is_stopping = True
        if self._running:
            await asyncio.wait(self._running, timeout=grace_s)
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    async def _fill_slots(self) -> None:
        while self.free_slots > 0:
            await self._outbox.room()
            waiting = await self._store.get_waiting_jobtypes(now_ms=self._clock.now_ms())
            runnable = {each.jobtype: each for each in waiting if each.handler_version}
            now_s = self._clock.monotonic_s()
            self._untried = {
                jobtype: self._untried.get(jobtype, (now_s, each.handler_version)) for jobtype, each in runnable.items()
            }
            if not await self._start_batches(runnable):
                return

    async def _start_batches(self, runnable: dict[str, WaitingType]) -> bool:
        """Give every free slot a batch; False when there was nothing to give."""
        has_started = False
        while runnable and self.free_slots > 0:
            jobtype = self._select(runnable)
            if jobtype is None:
                break
            chosen = runnable.pop(jobtype)
            self._untried.pop(jobtype, None)
            handler = await self._handlers.get(jobtype, chosen.handler_version)
            if handler is None:
                continue
            handler = permitted(handler, self._tenants.of(jobtype))
            limit = self._batch_limit(chosen, handler)
            jobs = await self._store.get_waiting_jobs(
                jobtype, limit, owner=self._owner, lease_ms=self._lease_ms, now_ms=self._clock.now_ms()
            )
            if not jobs:
                continue
            has_started = True
            self._start(jobtype, handler, chosen.handler_version, jobs)
            if chosen.waiting > len(jobs):
                runnable[jobtype] = chosen._replace(waiting=chosen.waiting - len(jobs))
        return has_started

    def _select(self, runnable: dict[str, WaitingType]) -> str | None:
        warm = self._runner.warm_jobtypes()
        candidates = [
            Candidate(
                jobtype=jobtype,
                waiting=each.waiting,
                oldest_due_ms=each.oldest_due_ms,
                is_warm=jobtype in warm,
                weight=self._tenants.of(jobtype).weight,
                tenant_cap=self._tenants.of(jobtype).max_running,
            )
            for jobtype, each in runnable.items()
        ]
        return self._policy.select_jobtype_to_run(candidates, self._clock.now_ms())

    def _batch_limit(self, chosen: WaitingType, handler: Handler) -> int:
        """As many as make a good batch; but slow or unknown jobs are spread over the free slots."""
        size = self._runner.batch_size(chosen.jobtype, handler)
        if size >= _WHOLE_BATCH:
            return size
        return max(1, min(size, -(-chosen.waiting // self.free_slots)))

    # One batch

    def _start(self, jobtype: str, handler: Handler, version: int, jobs: list[Job]) -> None:
        now_ms = self._clock.now_ms()
        self.claimed += len(jobs)
        self._leases.update({job.id: job.token for job in jobs})
        self._policy.jobs_started(jobtype, len(jobs))
        if self._joblog is not None:
            self._joblog.started([Started(j.id, jobtype, j.attempts, max(0, now_ms - j.due_ms)) for j in jobs], now_ms)
        task = asyncio.create_task(self._run_batch(jobtype, handler, version, jobs), name=f"batch {jobtype}")
        self._running.add(task)
        task.add_done_callback(self._batch_done)

    def _batch_done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._woken.set()
        if not task.cancelled() and task.exception() is not None:
            log.error("execute.batch_failed", exc_info=task.exception(), extra={"task": task.get_name()})

    async def _run_batch(self, jobtype: str, handler: Handler, version: int, jobs: list[Job]) -> None:
        began_s = self._clock.monotonic_s()
        left = {job.id: job for job in jobs}
        exhausted = [job for job in jobs if job.attempts > self._retry.policy.max_attempts]
        for job in exhausted:
            del left[job.id]
        self._outbox.put([Ending(job, give_up(job, self._clock.now_ms())) for job in exhausted])
        try:
            if left:
                on_stopped = partial(self._on_stopped, left, version)
                await self._runner.run_jobs(jobtype, list(left.values()), handler, on_stopped)
        finally:
            # Given back by the runner, or this daemon is stopping: not started as far as anybody can tell.
            self._outbox.put([Ending(job, Unget(job.id, job.token)) for job in left.values()])
            left.clear()
            self._policy.jobs_stopped(jobtype, len(jobs), self._clock.monotonic_s() - began_s)

    def _on_stopped(self, left: dict[str, Job], version: int, stopped: Sequence[Stopped]) -> None:
        now_ms = self._clock.now_ms()
        endings = []
        for one in stopped:
            job = left.pop(one.id, None)
            if job is not None:
                release = release_of(job, one, version, self._retry, now_ms, random.random())  # noqa: S311 (jitter)
                endings.append(Ending(job, release, one.new_jobs))
        self._outbox.put(endings)
