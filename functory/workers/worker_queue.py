"""The front: take, renew, report, give back. Free of HTTP, so that any protocol can stand before it.

    taken = await queue.take(Order("acme", ("resize*",), limit=8, wait_s=60.0, worker=Worker("gpu-1")))
    await queue.report("acme", [Report(Delivery(taken[0].job.id, taken[0].job.token), exitcode=200, result=b"done")])

A worker that vanishes is found by its leases; nothing here depends on its connection.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec

from functory.execution.endings import Ending, Recorded
from functory.execution.outbox import Outbox
from functory.intake import former_tenants
from functory.loops.job_mark import mark_of
from functory.loops.shared import Shared
from functory.workers.claims import Claims
from functory.workers.drains import Drains
from functory.workers.goodbyes import Goodbyes
from functory.workers.handout import Handout
from functory.workers.presence import Presence, Seen
from functory.workers.reports import Reports
from functory.workers.unasked import Unasked, UnaskedTypes
from functory.workers.values import Delivery, Order, Report, Taken, Verdict
from runner.glimpse import Glimpse
from store.base import ReleaseReport, Unclaim, WaitingType
from vocabulary.names import tenant_of


class WorkerQueue:
    """Implements `operations.protocols.WorkerQueue`. The outbox is one of its own, whose owner is `values.OWNER`."""

    def __init__(
        self, shared: Shared, outbox: Outbox, claims: Claims, poll_s: float, since_ms: Callable[[str], int]
    ) -> None:
        """since_ms: when a tenant was created. What was before is of another one of its name."""
        self._clock = clock = shared.clock

        def known_since_ms(tenant: str) -> int:
            return former_tenants.since_ms(since_ms(tenant), clock.now_ms(), apart_ms=0)

        self._claims = claims
        self._outbox = outbox
        self._handout = Handout(shared, claims, poll_s)
        self._presence = Presence(shared, claims.held.by_worker, known_since_ms)
        self._unasked = UnaskedTypes(shared.store, shared.clock, self._presence)
        self._reports = Reports(shared, outbox, claims, self._presence.worked)
        self._drains = Drains(shared, known_since_ms)
        self._goodbyes = Goodbyes(shared)
        self._stopping = asyncio.Event()
        self._tell: Callable[[Iterable[str]], None] = lambda _: None
        outbox.when_recorded(self._recorded)
        outbox.when_released(self._learn)
        outbox.when_released(self.released)

    def when_ended_for_others(self, listener: Callable[[Iterable[str]], None]) -> None:
        """The listener is told of jobs that another daemon has handed out, and counts, when they are over here."""
        self._tell = listener

    # What workers ask

    async def take(self, order: Order) -> list[Taken]:
        """Jobs as soon as there are some, or none when the time is up. Raises QuotaExceeded, StoreUnavailable."""
        if self._claims.is_of_former_tenant(order):
            return []
        with self._presence.asking(order):
            if not self.is_draining(order.tenant, order.worker.name):
                return await self._handout.take(order)
            with suppress(TimeoutError):  # it is told, and not at once: nobody should ask in a hurry
                async with asyncio.timeout(order.wait_s):
                    await self._stopping.wait()
            return []

    def is_draining(self, tenant: str, name: str) -> bool:
        """Whether a worker was asked to take no more jobs."""
        return self._drains.holds(tenant, name)

    async def drain(self, tenant: str, name: str, *, drained: bool) -> None:
        """Have a worker take no more jobs for an hour, or take some again: here at once, on other daemons within
        seconds. Raises QuotaExceeded, StoreUnavailable."""
        await self._drains.set(tenant, name, drained=drained)
        if drained:
            self._handout.dismiss(tenant, name)

    async def renew(self, tenant: str, deliveries: Sequence[Delivery], lease_ms: int | None = None) -> list[Verdict]:
        return await self._reports.renew(tenant, deliveries, lease_ms)

    async def report(
        self, tenant: str, reports: Sequence[Report], begun: Callable[[], None] | None = None
    ) -> list[Verdict]:
        return await self._reports.report(tenant, reports, begun)

    async def give_back(self, tenant: str, deliveries: Sequence[Delivery], goodbye: str = "") -> list[Verdict]:
        """goodbye: the name of a worker that leaves. Also what else of this daemon it holds is given back."""
        named = {delivery.id for delivery in deliveries}
        rest = [
            Delivery(held.job.id, held.job.token)
            for held in self._claims.held.of_worker(tenant, goodbye)
            if held.ending is None  # otherwise its end is on its way
        ]
        mine = [*deliveries, *(each for each in rest if goodbye and each.id not in named)]
        verdicts = await self._reports.give_back(tenant, mine)
        if goodbye:
            self._presence.left(tenant, goodbye)
        return verdicts

    async def keep_goodbye(self, tenant: str, mark: int, name: str) -> None:
        """For the other daemons, before they are told. mark: what they are told of it. Raises StoreUnavailable."""
        await self._goodbyes.keep(tenant, mark, name)

    async def left_elsewhere(self, tenant: str, mark: int) -> None:
        """A worker has said goodbye to another daemon: what it took here before is given back, without waiting until
        that is recorded. Raises StoreUnavailable."""
        known = {*self._claims.held.by_worker(tenant), *(seen.name for seen in self._presence.here(tenant))}
        goodbye = await self._goodbyes.find(tenant, mark) if mark in map(mark_of, known) else None
        if goodbye is None:
            return
        held = self._claims.held.of_worker(tenant, goodbye.name)
        self._reports.let_go([it for it in held if it.claimed_ms <= goodbye.at_ms])
        self._presence.left(tenant, goodbye.name, goodbye.at_ms)

    def moved(self, tenant: str, delivery: Delivery) -> None:
        """A job that a worker held is one of another type now, and waits there."""
        held = self._claims.held.find(tenant, delivery.id)
        if held is not None and delivery.token in (None, held.job.token):
            self._claims.held.drop([delivery])
        if held is None or not held.taken_here:
            self._tell([delivery.id])
        self.wake()

    # What others ask

    def glimpse(self, tenant: str, job_id: str, offset: int = 0) -> Glimpse | None:
        """The log and progress of a job that a worker holds; None if this daemon does not know it."""
        return self._claims.held.glimpse(tenant, job_id, offset)

    def holder(self, tenant: str, delivery: Delivery) -> str:
        """The name of the worker that holds what this daemon handed out; "" if that is not known."""
        held = self._claims.held.find(tenant, delivery.id)
        return held.worker if held is not None and delivery.token in (None, held.job.token) else ""

    async def seen(self, tenant: str) -> list[Seen]:
        """Workers of the last hour, on all daemons."""
        await self._drains.refresh(tenant)
        return [
            msgspec.structs.replace(seen, is_draining=self.is_draining(tenant, seen.name))
            for seen in await self._presence.everywhere(tenant)
        ]

    def room(self, jobtype: str) -> int:
        """How many more jobs of the type this daemon may hand out; 0: a cap is reached."""
        return self._claims.room(jobtype)

    async def unasked(self, waiting: Iterable[WaitingType], running: Mapping[str, int]) -> list[Unasked]:
        """Of what waits, the types that workers serve, and how long none has asked for them. Raises
        StoreUnavailable."""
        return await self._unasked.among(waiting, running)

    async def unasked_now(self) -> list[Unasked]:
        """The same of all that waits, as it was a moment ago. Raises StoreUnavailable."""
        return await self._unasked.now()

    async def unasked_of(self, tenant: str) -> list[Unasked]:
        """The same of one tenant."""
        return await self._unasked.of(tenant)

    def gauges(self) -> dict[str, float]:
        return {
            "workers_waiting": self._handout.waiting,
            "worker_jobs_held": len(self._claims.held),
            "worker_jobs_taken_total": self._claims.taken,
            "worker_reports_late_total": self._reports.late,
        }

    # What the daemon tells

    def added(self, jobtypes: Iterable[str]) -> None:
        self._handout.added(jobtypes)

    def released(self, endings: Sequence[Ending]) -> None:
        """Endings of any job, of a worker or of this daemon."""
        self._handout.released(endings)

    def wake(self) -> None:
        self._handout.wake()

    def has_room(self, tenant: str) -> None:
        """Less of the tenant runs on this daemon: a cap may have kept its jobs back."""
        self._handout.has_room(tenant)

    def changed(self, tenant: str = "") -> None:
        self._handout.changed(tenant)

    def held_ids(self) -> list[str]:
        return self._claims.held.ids()

    def cancelled(self, job_id: str) -> None:
        """What its worker says of it from now on is late, and others may have its place."""
        held_before = len(self._claims.held)
        self._claims.held.drop([(job_id, None)])
        if len(self._claims.held) < held_before:
            self.wake()

    async def ended_elsewhere(self, marks: Iterable[int]) -> None:
        """Jobs with these marks are over, as another daemon says: what was handed out here makes room for others.
        Raises StoreUnavailable."""
        for tenant in await self._claims.elsewhere.check(self._claims.held.marked(marks)):
            self._handout.has_room(tenant)

    def end_tenant(self, tenant: str) -> None:
        """It was deleted: what it had here is not for another of its name."""
        self._handout.end_tenant(tenant)
        self._claims.held.drop_tenant(tenant)
        self._reports.end_tenant(tenant)

    def set_paused(self, *, paused: bool) -> None:
        self._handout.set_paused(paused=paused)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._handout.run(), name="handout")
            loops.create_task(self._outbox.run(), name="outcomes of workers")

    async def end_overdue(self) -> None:
        """End what is held for longer than its type allows. Raises StoreUnavailable."""
        await self._reports.end_overdue()

    async def write_down(self) -> None:
        """Tell the other daemons which workers were seen here."""
        await self._claims.elsewhere.drop_lapsed()
        await self._presence.write_down()
        for tenant in self._presence.tenants():
            await self._drains.refresh(tenant)
            for seen in self._presence.here(tenant):
                if self.is_draining(tenant, seen.name):
                    self._handout.dismiss(tenant, seen.name)

    def stop(self) -> None:
        self._stopping.set()
        self._handout.stop()
        self._unasked.close()

    def _learn(self, endings: Sequence[Ending]) -> None:
        """How long jobs of a type take decides whose turn is next."""
        durations_us: defaultdict[str, list[int]] = defaultdict(list)
        for job, release, _ in endings:
            if not isinstance(release, Unclaim):
                durations_us[job.jobtype].append(release.outcome.duration_us)
        for jobtype, some_us in durations_us.items():
            self._handout.learn(jobtype, len(some_us), sum(some_us) / 1e6)

    def _recorded(self, endings: Sequence[Recorded], _: ReleaseReport) -> None:
        """Before they are forgotten here, because only those that another daemon counts are told."""
        known = (self._claims.held.find(tenant_of(job.jobtype), job.id) for job, _, _ in endings)
        if others := [held.job.id for held in known if held is not None and not held.taken_here]:
            self._tell(others)

    async def empty(self) -> None:
        """Wait until everything that was reported is recorded, and what was claimed for nobody is given back."""
        await self._handout.settle()
        await self._outbox.empty()
