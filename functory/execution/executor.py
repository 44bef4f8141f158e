"""Runs jobs: the scheduler picks a jobtype, a batch of it is claimed, the runner runs it, outcomes go to the outbox.

Ensures: no more jobs are claimed than there are slots for. Each claimed job is released once, with its outcome or given
back. Every lease is known here from claim to release, so that upkeep can renew it.

New jobs, free slots and the operator wake the loop; the poll only finds what other daemons did.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from functory.execution.batches import Batches
from functory.execution.claims_under_way import ClaimsUnderWay
from functory.execution.endings import Ending
from functory.execution.handler_cache import HandlerCache
from functory.execution.keyed_starts import KeyedStarts
from functory.execution.leases import HeldLeases
from functory.execution.offers import Offers
from functory.execution.outbox import Outbox
from functory.execution.outcomes import retry_policy
from functory.execution.outlook import WHY_NOT, Outlook
from functory.execution.slots import Slots
from functory.execution.straight.way import StraightWay
from functory.execution.tenant_book import TenantBook
from functory.loops.shared import Shared
from functory.loops.token_alarm import TokenAlarm
from functory.loops.turns import Turns
from handlers.errors import HandlerError
from handlers.model import Handler
from runner.runner import Runner
from scheduler import Pick, Policy
from scheduler.retry import RetryPolicy
from store.base import ClaimedJobs, Job
from store.errors import StoreUnavailable
from vocabulary.names import tenant_of

log = logging.getLogger("functory.execute")

_JOB: Final = itemgetter(0)
_LOOK_PART: Final = 3
"""Under load, the pause after a look at the store is this many times as long as the look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSettings:
    lease_s: float
    """How long a claim holds without renewal."""
    poll_s: float
    """How often to look at the store when nothing wakes the loop."""
    retry: RetryPolicy
    languages: frozenset[str]
    """What this daemon runs. Jobs in other languages are left to daemons that run them."""


class Executor:
    def __init__(
        self,
        shared: Shared,
        runner: Runner,
        policy: Policy,
        outbox: Outbox,
        tenants: TenantBook,
        settings: ExecutorSettings,
    ) -> None:
        self._store = shared.store
        self._clock = shared.clock
        self._owner = shared.owner
        self._progress = shared.progress
        self._courtesy = shared.courtesy
        self._log_started = shared.job_log.started if shared.job_log is not None else _log_nothing
        self._runner = runner
        self._policy = policy
        self._outbox = outbox
        self._tenants = tenants
        self._lease_ms = round(settings.lease_s * 1000)
        self._poll_s = settings.poll_s
        self._retry = settings.retry
        self._languages = settings.languages
        self.handlers = HandlerCache(shared.store, tenants.incarnation_of)
        self._batches = Batches(shared.store, runner, outbox, tenants, shared.clock)
        self._keyed = KeyedStarts(shared.clock, policy.costs)
        self._outlook = Outlook(shared.store, shared.clock, 2 * settings.poll_s, self.meet_tenants)
        self.unreadable, self.seen = self._outlook.why_unreadable, self._outlook.seen
        self._offers = Offers(self._outlook, policy, tenants, shared.clock)
        self._claims = ClaimsUnderWay(shared, self._lease_ms, self._batches.give_back)
        self.leases = HeldLeases(shared.clock, self._lease_ms)
        """Everything claimed and not yet released. Upkeep renews it."""
        self._tokens = TokenAlarm(self._token_came)
        self._next_look_s = 0.0
        self._later: asyncio.TimerHandle | None = None
        self._is_news = True
        """Jobs may be waiting that the last look did not see."""
        self._wants_look = True
        """Something may have become runnable since the last look, if only time."""
        self._straight: StraightWay
        """By `use`, before anything runs: the two are halves of one another."""
        self._woken = asyncio.Event()
        self._slots = Slots(shared.clock, self._slot_came_free)
        self._turns = Turns(self._woken.set)
        self._is_stopping = False
        self.is_paused = False
        self.claimed = 0  # jobs, so far
        tenants.when_gone(self.changed)

    def wake(self) -> None:
        """Something may have become runnable."""
        self._is_news = self._wants_look = True
        self._woken.set()

    def place_left(self) -> None:
        """A cap has room again: what the last look saw starts in this moment, before somebody else has the place."""
        self._start_known()
        self._woken.set()

    def changed(self, tenant: str = "") -> None:
        """Handlers, pauses or a suspension were changed here: of a tenant, or of any."""
        self._outlook.forget(tenant)
        self._claims.added(name for name in self._claims.jobs if tenant in {"", tenant_of(name)})
        self._straight.forget_gates(tenant)
        self.wake()

    def use(self, straight: StraightWay) -> None:
        self._straight, self._outlook.on_fewer = straight, straight.catch_up
        self._offers.use(straight)

    def added(self, jobtypes: Iterable[str]) -> None:
        """Jobs of these types were added to the store."""
        jobtypes = list(jobtypes)
        self._outlook.added(jobtypes)
        self._claims.added(jobtypes)
        self.wake()

    def is_clear(self, jobtype: str) -> bool:
        """Whether this daemon starts jobs now, and knows of none of the type that waits in the store."""
        is_starting = not self._is_stopping and not self.is_paused
        return is_starting and jobtype not in self._claims.jobs and self._outlook.is_clear(jobtype)

    def ahead(self, jobtype: str) -> int | None:
        """How many jobs of a type the store has that this daemon is about to start; None if it may not start them."""
        return None if self._is_stopping or self.is_paused else self._outlook.ahead(jobtype)

    def offer(self, jobtype: str, waiting: int) -> None:
        """So many jobs of a type wait on the straight way now, and can start."""
        self._offers.tell(jobtype, waiting)
        if waiting:
            self._start_known()

    def released(self, endings: Sequence[Ending]) -> None:
        """The outbox has recorded these. Jobs that became runnable by that are seen at the next look."""
        self.leases.released(jobs := list(map(_JOB, endings)))
        self._outlook.freed(jobs)
        if not self._straight.leaves_nothing_to_do(endings):
            self._wants_look = True
            self._woken.set()

    def note_long_batches(self) -> None:
        """Tell the scheduler how long each batch has been running."""
        for batch in self._slots.running():
            self._policy.jobs_running(*batch)
        self._woken.set()

    def untried(self, for_s: float) -> list[str]:
        """Types with runnable jobs for which no claim was tried for this long."""
        return self._outlook.untried_for(for_s)

    async def recycle(self, jobtype: str) -> None:
        """End the idle contexts of a type, in case one of them keeps it from running."""
        try:
            handler = await self.handlers.get(jobtype, self._outlook.versions.get(jobtype, 0))
        except HandlerError:
            return  # said where its jobs would have run
        if handler is not None:
            await self._runner.retire(jobtype, handler)

    def hold(self, jobtype: str) -> str:
        """Why this daemon starts nothing of the type now, in a word."""
        return self._policy.why_waiting(jobtype).value

    @property
    def free_slots(self) -> int:
        return max(self._policy.board.free_slots, 0)

    def set_paused(self, *, paused: bool) -> None:
        """Start no more jobs, or start them again. Running jobs go on."""
        if paused != self.is_paused:
            log.warning("daemon.paused" if paused else "daemon.resumed", extra={"sysid": self._owner})
        self.is_paused = paused
        self.wake()

    async def meet_tenants(self, created_ms: Mapping[str, int]) -> None:
        """So the store says of these. If one is not the one that is known here by its name, it is from now on: nothing
        starts with the handlers, gates and contexts of another. What runs of that one ends with `refresh_tenants`."""
        if any(self._tenants.incarnation_of(name) != at_ms for name, at_ms in created_ms.items()):
            self._policy.set_tenants(await self._tenants.refresh())

    async def refresh_tenants(self) -> None:
        """Weights and caps as the store has them now. What runs of tenants that were suspended or deleted is ended."""
        self._policy.set_tenants(await self._tenants.refresh())
        for tenant, spared in self._tenants.take_ended().items():
            await self._end_tenant(tenant, spared)

    async def _end_tenant(self, tenant: str, spared: int | None) -> None:
        """Its jobs are given back: they did nothing wrong, and may run when the tenant may. spared: the incarnation
        that has the name now, whose jobs go on."""
        log.info("execute.tenant_ended", extra={"tenant": tenant})
        await self._slots.end_tenant(tenant, spared)
        await self._runner.end_tenant(tenant, spared)

    async def run(self) -> None:
        """Run until cancelled. A store that cannot be reached is asked again at the next poll."""
        while True:
            self._woken.clear()
            try:
                await self._fill_slots()
            except StoreUnavailable as error:
                log.warning("execute.store_unavailable", extra={"reason": str(error)})
                await asyncio.sleep(self._poll_s)
            try:
                async with asyncio.timeout(self._outlook.due_in_s(self._poll_s)):
                    await self._woken.wait()
            except TimeoutError:
                self._wants_look = True

    async def stop(self, grace_s: float) -> None:
        """Claim no more jobs. Let running batches finish for a while, then give back what is left."""
        self._is_stopping = True
        await self._slots.stop(grace_s)

    async def _fill_slots(self) -> None:
        """Start batches for the free slots. The store is not looked at every time: not while there is known work (with
        many types, looking would take all the time), and not when nothing says that there is more to do."""
        if not self.may_start():
            return
        now_s = self._clock.monotonic_s()
        if not self._wants_look and self._outlook.age_s < self._poll_s:
            self._start_known()
            return
        if now_s < self._next_look_s and (self._start_known() or not self._is_news):
            self._look_later(self._next_look_s - now_s)
            return
        with self._progress.step("execute"):
            await self._look()
        ended_s = self._clock.monotonic_s()
        self._next_look_s = ended_s + _LOOK_PART * (ended_s - now_s)
        self._start_known()

    def _slot_came_free(self) -> None:
        """For somebody who waits, or for a look that nothing could be started after. Most jobs leave none of them."""
        if self._wants_look or self._policy.has_candidates or self._outlook.age_s >= self._poll_s:
            self._woken.set()

    def _look_later(self, delay_s: float) -> None:
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(delay_s, self._now_is_later)

    def _now_is_later(self) -> None:
        self._later = None
        self._woken.set()

    def _start_known(self) -> bool:
        """Fill the slots from the last look. False when that had nothing for them."""
        if self._is_stopping or self.is_paused:
            return False
        has_started = False
        while pick := self._policy.select_jobtype_to_run(self._runner.warm_jobtypes()):
            jobtype, most = pick
            tenant = tenant_of(jobtype)
            if self._courtesy.is_asked_of(tenant) and not self._turns.take(most := self._courtesy.step(tenant, most)):
                break
            jobs, version = self._straight.start(jobtype, most)
            who = self._tenants.incarnation_of(tenant)
            batch = self._run_straight(jobtype, jobs, version, who) if jobs else self._fill_slot(jobtype, most, who)
            self._policy.jobs_started(jobtype, len(jobs) or most)
            self._outlook.untried.pop(jobtype, None)
            self._slots.start(jobtype, who, batch)
            has_started = True
        return has_started

    def may_start(self) -> bool:
        return not self._is_stopping and not self.is_paused and self._policy.has_room

    async def _look(self) -> None:
        self._is_news = self._wants_look = False
        await self._offers.look(self._claims.jobs)
        self._straight.catch_up()

    # One slot

    async def _fill_slot(self, jobtype: str, most: int, who: int) -> None:
        """Claim a batch and run it. Claims of several slots run at the same time and share a commit. who: the tenant's
        incarnation, which its handler and its jobs must be of."""
        version = self._outlook.versions.get(jobtype, 0)
        jobs = ClaimedJobs()
        began_s = self._clock.monotonic_s()
        worked_s: float | None = None
        try:
            if (found := await self._find_handler(jobtype, version)) is not None:
                handler, retry = found
                held, waiting = self._slots.count(jobtype), self._outlook.waiting.get(jobtype, 0)
                pick = await self._keyed.prepare(Pick(jobtype, most), handler, held, waiting)
                now_ms = self._clock.now_ms()
                jobs = await self._claim(pick, handler, who, now_ms)
                self.claimed += len(jobs)
                self._log_started(jobs, now_ms)
                self._outlook.taken(jobtype, len(jobs))
                may_start = self.leases.claimed(jobs, now_ms)
                if jobs.next_ms is not None:
                    self._rest(jobtype, jobs.next_ms, has_cap=handler.max_per_key is not None)
                began_s = self._clock.monotonic_s()
                worked_s = await self._batches.run(jobtype, handler, version, retry, jobs, may_start, who)
        except WHY_NOT as error:
            self._outlook.could_not_run(jobtype, version, error)
        finally:
            took_s = self._clock.monotonic_s() - began_s
            try:
                if not self._is_stopping:  # the store, which makes room, may not come back then
                    await self._outbox.room(tenant_of(jobtype))
            finally:
                self._policy.jobs_stopped(jobtype, len(jobs), took_s, worked_s)
                if worked_s is None or (not jobs and jobs.next_ms is None):
                    self._rest(jobtype)

    async def _run_straight(self, jobtype: str, jobs: list[Job], version: int, who: int) -> None:
        """Run jobs that the store does not have."""
        left: Sequence[Job] = jobs
        watch = None
        began_s = self._clock.monotonic_s()
        worked_s: float | None = None
        try:
            if (found := await self._find_handler(jobtype, version)) is not None:
                handler, retry = found
                self.claimed += len(jobs)
                self._log_started(jobs, self._clock.now_ms())
                watch = self._straight.showing.watch(jobs)
                left = ()  # what is not run comes back by itself
                may_start = self._straight.showing.may_start
                worked_s = await self._batches.run(jobtype, handler, version, retry, jobs, may_start, who)
        except WHY_NOT as error:
            self._outlook.could_not_run(jobtype, version, error)
        finally:
            took_s = self._clock.monotonic_s() - began_s
            self._batches.give_back(left)
            try:
                if not self._is_stopping:
                    await self._outbox.room(tenant_of(jobtype))
            finally:
                if watch is not None:
                    watch.cancel()
                self._policy.jobs_stopped(jobtype, len(jobs) - len(left), took_s, worked_s)

    async def _find_handler(self, jobtype: str, version: int) -> tuple[Handler, RetryPolicy] | None:
        """The handler of that version, with its retry rules. None if it was deleted or does not run here."""
        handler = await self.handlers.get(jobtype, version)
        if handler is None:
            return None
        if not self._runner.can_run(jobtype, handler, self._languages):
            self._outlook.unable[jobtype] = version
            return None
        return handler, retry_policy(handler, self._retry)

    async def _claim(self, pick: Pick, handler: Handler, who: int, now_ms: int) -> ClaimedJobs:
        if self._is_stopping or self.is_paused:  # since it was picked
            return ClaimedJobs()
        looks = self._outlook.looks
        try:
            return await self._claims.claim(pick, handler, who, now_ms)
        finally:
            if self._outlook.looks != looks:
                self._outlook.added([pick.jobtype])  # it may have counted new jobs as those of this claim
                self._woken.set()

    def _rest(self, jobtype: str, next_ms: int | None = None, *, has_cap: bool = False) -> None:
        pause_s = self._outlook.rest(jobtype, next_ms, has_cap=has_cap)
        self._offers.tell(jobtype, self._straight.count(jobtype))
        if next_ms is None:
            asyncio.get_running_loop().call_later(pause_s, self._rested)
        else:
            self._tokens.set(jobtype, pause_s)

    def _token_came(self, jobtypes: list[str]) -> None:
        """What the last look saw of them starts in this moment: looks would come too late for high rates."""
        self._outlook.rested(jobtypes)
        for jobtype in jobtypes:
            self._offers.tell(jobtype, self._straight.count(jobtype))
        if not self._start_known():
            self._rested()

    def _rested(self) -> None:
        """Only time has passed, which is no news: under load, looks keep their distance."""
        self._wants_look = True
        self._woken.set()


def _log_nothing(_jobs: Sequence[Job], _now_ms: int) -> None:
    """The job log is off."""
