"""One batch on a slot: its jobs go to the runner, and each of them, however it stops, to the outbox. A parent that runs
again goes alone, and is told of its children.

Ensures: each job that was delivered is put into the outbox once, with its outcome or given back.
"""

import random
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final

from functory.execution.afterwards import NOTHING_MORE, Afterwards, afterwards_of, kept, passed_on
from functory.execution.families import read_children
from functory.execution.late import end_late, part_late
from functory.execution.leases import MayStart
from functory.execution.outbox import Outbox
from functory.execution.outcomes import give_up, part_exhausted, releases_or_refusals
from functory.execution.tenant_book import TenantBook, permitted
from handlers.model import Handler
from runner.outcome import Stopped, held_bytes
from runner.protocol import BatchJob, ParentJob
from runner.runner import Runner
from scheduler.retry import RetryPolicy
from store.base import Job, Store, Unclaim
from vocabulary.clock import Clock
from vocabulary.columns import fields

if TYPE_CHECKING:
    from vocabulary.new_job import NewJob

_LEASE: Final = fields(Job, "id", "token")
_ID: Final = fields(Job, "id")
_CHILDREN: Final = fields(Job, "children")
_NEW_JOBS: Final = fields(Stopped, "new_jobs")
_DURATION_MS: Final = fields(Stopped, "duration_ms")
_LEFT: Final = fields(Stopped, "result", "log", "new_jobs", "carried")
_STOPPED_ID: Final = fields(Stopped, "id")


class _Delivery:
    """Jobs of a batch that have not stopped, and what becomes of those that do."""

    __slots__ = ("afterwards", "left", "retry", "version", "worked_ms")

    def __init__(self, jobs: Sequence[Job], version: int, retry: RetryPolicy, afterwards: Afterwards) -> None:
        self.left = dict(zip(map(_ID, jobs), jobs, strict=True))
        self.version = version
        self.retry = retry
        self.afterwards = afterwards
        self.worked_ms = 0.0


class Batches:
    def __init__(self, store: Store, runner: Runner, outbox: Outbox, tenants: TenantBook, clock: Clock) -> None:
        self._store = store
        self._runner = runner
        self._tenants = tenants
        self._outbox = outbox
        self._clock = clock

    async def run(
        self,
        jobtype: str,
        handler: Handler,
        version: int,
        retry: RetryPolicy,
        jobs: Sequence[Job],
        may_start: MayStart,
        incarnation: int,
    ) -> float:
        """Returns for how many seconds its jobs were running: without the start of a context, and the way to it.

        incarnation: of the tenant that the jobs and the handler are of. If another is known to have the name by now,
        the jobs are given back."""
        now_ms = self._clock.now_ms()
        jobs, late = part_late(jobs, handler, now_ms)
        if late:
            self._outbox.put([(job, end_late(job, now_ms), ()) for job in late])
        afterwards = afterwards_of(handler)
        going, exhausted = part_exhausted(jobs, retry)
        if exhausted:
            self._give_up(exhausted, afterwards)
        delivery = _Delivery(going, version, retry, afterwards)
        try:
            on_stopped = partial(self._on_stopped, delivery)
            allowance = self._tenants.of(jobtype)
            handler = permitted(handler, allowance)
            for some in _parts(going) if allowance.incarnation == incarnation else ():
                ready = partial(may_start, some)
                to_run = await self._with_children(some[0]) if some[0].children else some
                if await self._runner.run_jobs(jobtype, to_run, handler, on_stopped, ready, incarnation=incarnation):
                    break
        finally:
            # Given back by the runner, or this daemon is stopping: these jobs did not start.
            if delivery.left:
                self.give_back(list(delivery.left.values()))
                delivery.left.clear()
        return delivery.worked_ms / 1000

    async def _with_children(self, job: Job) -> Sequence[BatchJob]:
        """What is to be run of a parent, which is alone."""
        children = await read_children(self._store, job, self._clock.now_ms())
        return [ParentJob(job.id, job.data, job.attempts, children, job.options)]

    def _give_up(self, jobs: Sequence[Job], afterwards: Afterwards) -> None:
        """Jobs whose attempts were used up by daemons that vanished."""
        given_up = [(job, kept(afterwards, job, give_up(job, self._clock.now_ms()), ())) for job in jobs]
        self._outbox.put([(job, release, passed_on(afterwards, job, release, ())) for job, release in given_up])

    def give_back(self, jobs: Sequence[Job]) -> None:
        """Jobs that were delivered and not started."""
        if jobs:
            self._outbox.put([(job, Unclaim(job.id, job.token), ()) for job in jobs])

    def _on_stopped(self, delivery: _Delivery, stopped: Sequence[Stopped]) -> None:
        left, afterwards = delivery.left, delivery.afterwards
        ended = [one for one in stopped if one.id in left]
        if ended:
            delivery.worked_ms += sum(map(_DURATION_MS, ended))
            jobs = list(map(left.pop, map(_STOPPED_ID, ended)))
            now_ms = self._clock.now_ms()
            releases = releases_or_refusals(jobs, ended, delivery.version, delivery.retry, now_ms, random.random)
            wanted: list[tuple[NewJob, ...]] = list(map(_NEW_JOBS, ended))
            if afterwards is not NOTHING_MORE:
                releases = [kept(afterwards, *one) for one in zip(jobs, releases, wanted, strict=True)]
                wanted = [passed_on(afterwards, *one) for one in zip(jobs, releases, wanted, strict=True)]
            left_something = any(map(any, map(_LEFT, ended)))
            sizes = dict(zip(map(_LEASE, jobs), map(held_bytes, ended), strict=True)) if left_something else {}
            follows = dict.fromkeys(map(_LEASE, jobs), afterwards) if afterwards.on_failure else {}
            self._outbox.put(list(zip(jobs, releases, wanted, strict=True)), sizes, follows)


def _parts(jobs: Sequence[Job]) -> Iterable[Sequence[Job]]:
    """In their order: each parent alone, the others in as few parts as possible."""
    if not any(map(_CHILDREN, jobs)):
        return (jobs,) if jobs else ()
    return (list(some) for _, some in groupby(jobs, lambda job: job.id if job.children else ""))
