"""From a type to jobs in a worker's hands: claimed within the caps of their tenant, with the lease that was asked for.

Ensures: caps are never exceeded by what this daemon hands out; room is taken before the claim, and what the claim did
not use is given up. A job whose attempts were used up by workers that vanished is abandoned and not handed out again.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from functory.execution.afterwards import NOTHING_MORE, afterwards_of, kept, passed_on
from functory.execution.handler_cache import HandlerCache
from functory.execution.late import end_late, part_late
from functory.execution.outbox import Outbox
from functory.execution.outcomes import give_up, part_exhausted, retry_policy
from functory.execution.tenant_book import TenantBook
from functory.loops.shared import Shared
from functory.workers.elsewhere import Elsewhere
from functory.workers.held_jobs import Held, HeldJobs
from functory.workers.values import OWNER, Order, Report, Taken
from handlers.errors import HandlerError
from handlers.model import Handler
from runner.outcome import EXTERNAL, TOO_BIG
from scheduler import Policy
from scheduler.retry import RetryPolicy
from store.base import ClaimedJobs, Code, Job, JobState, Outcome, Unclaim
from vocabulary.names import WORKER, tenant_of

log = logging.getLogger("functory.workers")

MOST_BYTES: Final = 4 << 20
"""Of payloads in one claim; a larger one comes alone."""
_BEYOND_S: Final = 5.0
"""Before a lease that lasts until the deadline of its job lapses in the store, the end of the job is recorded."""
_MOST_CLAIMS: Final = 100
"""One after the other that find only jobs whose attempts are used up; the rest comes with the next poll."""


class Claimed(NamedTuple):
    """jobs in hand. may_have_more: the claim did not find less than it asked for, or a cap stopped it. token_s: after
    how long others may have a token of their rate domain, as the store says. has_cap: keys of the type have a cap."""

    jobs: list[Taken]
    may_have_more: bool
    token_s: float | None = None
    has_cap: bool = False


class ClaimDefaults(NamedTuple):
    """What holds for types that do not say otherwise."""

    retry: RetryPolicy
    lease_ms: int
    poll_s: float = 1.0


class Claims:
    def __init__(
        self,
        shared: Shared,
        outbox: Outbox,
        tenants: TenantBook,
        policy: Policy,
        handlers: HandlerCache,
        defaults: ClaimDefaults,
    ) -> None:
        self._store = shared.store
        self._clock = shared.clock
        self._progress = shared.progress
        self._job_log = shared.job_log
        self._outbox = outbox
        self._tenants = tenants
        self._policy = policy
        self._defaults = defaults
        self._handlers = handlers
        self.held = HeldJobs(policy.run_outside)
        self.elsewhere = Elsewhere(shared, self.held, defaults.poll_s)
        self.beyond_ms = round((_BEYOND_S + 2 * defaults.poll_s) * 1000)
        """For so much longer the store keeps a lease that lasts until the deadline of its job. Nobody else is told."""
        self.taken = 0
        """Jobs that were handed out so far."""

    async def claim(self, jobtype: str, version: int, order: Order, limit: int) -> Claimed:
        """Jobs whose attempts are used up do not hide what waits behind them. Raises StoreUnavailable."""
        incarnation = self._tenants.of(jobtype).incarnation  # before the handler: both are of the same tenant
        handler = await self._handler(jobtype, version)
        if handler is None or handler.lang != WORKER:
            return Claimed([], may_have_more=False)
        for _ in range(_MOST_CLAIMS):
            count = min(limit, handler.max_batch or limit, await self._find_room(jobtype))
            if count <= 0:
                break
            now_ms = self._clock.now_ms()
            jobs = await self._claim(jobtype, handler, order, count, incarnation, now_ms)
            good = self._keep(jobs, handler, version, now_ms)
            if good or not jobs:
                token_s = None if jobs.next_ms is None else (jobs.next_ms - self._clock.now_ms()) / 1000
                has_cap = handler.max_per_key is not None
                return Claimed(good, may_have_more=bool(jobs), token_s=token_s, has_cap=has_cap)
        return Claimed([], may_have_more=True)

    async def _claim(
        self, jobtype: str, handler: Handler, order: Order, count: int, incarnation: int, now_ms: int
    ) -> ClaimedJobs:
        tenant, lease_ms = tenant_of(jobtype), self.lease_ms(handler, order.lease_ms)
        lease_ms += self.beyond_ms if lease_ms == _timeout_ms(handler) else 0
        self._policy.run_outside(tenant, count)
        try:
            with self._progress.step("workers"):
                return await self._store.claim_jobs(
                    jobtype,
                    count,
                    owner=OWNER,
                    lease_ms=lease_ms,
                    now_ms=now_ms,
                    max_bytes=MOST_BYTES,
                    max_per_key=handler.max_per_key,
                    tenant_created_ms=incarnation,
                    domain=handler.domain,
                )
        finally:
            self._policy.run_outside(tenant, -count)

    def _keep(self, jobs: Sequence[Job], handler: Handler, version: int, now_ms: int) -> list[Taken]:
        """Those that may run are held from now on; the others are given up."""
        jobs, late = part_late(jobs, handler, now_ms)
        self._outbox.put([(job, end_late(job, now_ms), ()) for job in late])
        retry = retry_policy(handler, self._defaults.retry)
        going, exhausted = part_exhausted(jobs, retry)
        afterwards = afterwards_of(handler)
        timeout_ms = _timeout_ms(handler)
        given_up = [(job, kept(afterwards, job, give_up(job, now_ms, timeout_ms), ())) for job in exhausted]
        self._outbox.put([(job, release, passed_on(afterwards, job, release, ())) for job, release in given_up])
        good = [_until(job, now_ms, timeout_ms) for job in going]
        self.held.add(Held(job, now_ms, version, retry, timeout_ms, afterwards) for job in good)
        self.taken += len(good)
        if self._job_log is not None:
            self._job_log.started(good, now_ms)
        return [Taken(job, timeout_ms) for job in good]

    def is_of_former_tenant(self, order: Order) -> bool:
        """Whether the worker's tenant is gone, even if there is one of that name again."""
        return order.tenant_since_ms not in {0, self._tenants.incarnation_of(order.tenant)}

    def room(self, jobtype: str) -> int:
        """How many more jobs of the type may be held."""
        tenant, allowance = tenant_of(jobtype), self._tenants.of(jobtype)
        room = 0 if allowance.is_closed else self.held.room(tenant)
        if allowance.max_running is not None:
            room = min(room, allowance.max_running - self._policy.board.running(tenant))
        if allowance.max_per_type is not None:
            room = min(room, allowance.max_per_type - self.held.count_type(jobtype))
        return room

    async def _find_room(self, jobtype: str) -> int:
        """The same, after a look at what has become of held jobs elsewhere where there would be none."""
        await self.elsewhere.drop_lapsed()
        room = self.room(jobtype)
        if room > 0 or self._tenants.of(jobtype).is_closed or not await self.elsewhere.look(tenant_of(jobtype)):
            return room
        return self.room(jobtype)

    def lease_ms(self, handler: Handler, asked_ms: int | None) -> int:
        own_ms = None if handler.lease_s is None else handler.lease_s * 1000
        lease_ms = asked_ms or own_ms or self._defaults.lease_ms
        return min(lease_ms, _timeout_ms(handler) or lease_ms)

    def assign(self, jobs: Iterable[Taken], worker: str) -> None:
        """The worker of this name has them."""
        for job, _ in jobs:
            held = self.held.find(tenant_of(job.jobtype), job.id)
            if held is not None:
                held.worker = worker

    def give_back(self, jobs: Sequence[Taken]) -> None:
        """Jobs that were claimed, and that nobody was there to take."""
        self.held.drop((job.id, job.token) for job, _ in jobs)
        self._outbox.put([(job, Unclaim(job.id, job.token), ()) for job, _ in jobs])

    async def read(self, tenant: str, job_id: str) -> Held | None:
        """A job that a worker holds, as the store has it; None if none does. It is known here from now on."""
        record = await self._store.get_job(tenant, job_id, now_ms=self._clock.now_ms(), max_bytes=0)
        if record is None or record.job.lock != OWNER:
            return None
        (gate,) = await self._store.get_type_gates([record.job.jobtype])
        version = gate.handler_version
        handler = await self._handler(record.job.jobtype, version) if version else None
        retry = self._defaults.retry if handler is None else retry_policy(handler, self._defaults.retry)
        timeout_ms, afterwards = (
            (None, NOTHING_MORE) if handler is None else (_timeout_ms(handler), afterwards_of(handler))
        )
        held = Held(record.job, record.claimed_ms, version, retry, timeout_ms, afterwards)
        held.taken_here = False
        held.data_bytes = record.data_bytes
        own_ms = self._defaults.lease_ms if handler is None else self.lease_ms(handler, None)
        held.lease_ms = max(own_ms, _taken_for_ms(held, self._clock.now_ms()))
        known = self.held.find(tenant, job_id)
        if known is not None and known.job.token == held.job.token:  # with what it said so far
            known.until_ms = held.until_ms
            return known
        self.held.add([held])
        return held

    async def outcome_of(self, tenant: str, report: Report) -> Outcome | None:
        """What is recorded of the delivery whose end a worker reports; None if it ended without that report, or has
        another after it."""
        record = await self._store.get_job(tenant, report.delivery.id, now_ms=self._clock.now_ms(), max_bytes=0)
        if record is None or record.outcome is None or record.job.token != report.delivery.token:
            return None
        if record.state is JobState.RUNNING:
            return None
        return record.outcome if _is_end_of(record.outcome, record.claimed_ms, report) else None

    async def exists(self, tenant: str, job_id: str) -> bool:
        return bool(await self._store.get_states(tenant, [job_id], now_ms=self._clock.now_ms()))

    async def _handler(self, jobtype: str, version: int) -> Handler | None:
        try:
            return await self._handlers.get(jobtype, version)
        except HandlerError as error:  # stored by a newer version of this program
            log.warning("workers.handler_unreadable", extra={"jobtype": jobtype, "reason": str(error)})
            return None


def _taken_for_ms(held: Held, now_ms: int) -> int:
    """For how long a lease was taken of which the store has only the end: exactly if it was never renewed. Otherwise no
    less, if a half of it is left, and never longer than the job has been held with it."""
    return min(held.until_ms - held.claimed_ms, 2 * (held.until_ms - now_ms))


def _timeout_ms(handler: Handler) -> int | None:
    """None: as long as it is renewed."""
    return round(handler.timeout_s * 1000) or None


def _until(job: Job, now_ms: int, timeout_ms: int | None) -> Job:
    """With the lease that is told: a renewable one ends at the deadline."""
    if timeout_ms is None or job.retry_after_ms is not None:
        return job
    return job._replace(dt_ms=min(job.dt_ms, now_ms + timeout_ms))


def _is_end_of(outcome: Outcome, claimed_ms: int, report: Report) -> bool:
    """Whether it is the outcome of the delivery that was claimed then, and not one that stayed from an earlier. Clocks
    differ and are set back, so an end has the very moment of its claim (reports.py), and the exit code that was
    reported, or that of what is too big. A refusal may have lost the moment with all else of its run."""
    if outcome.isolation == EXTERNAL:
        return outcome.started_ms == claimed_ms and outcome.exitcode in (report.exitcode, TOO_BIG)
    return not outcome.isolation and outcome.code is Code.FAILED and outcome.started_ms >= claimed_ms
