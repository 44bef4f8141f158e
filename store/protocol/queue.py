"""The queue's verbs: add, claim, renew, release, expire. What daemons do all day, in batches."""

import abc
from collections.abc import Sequence

from store.names import MAX_DATA_BYTES
from store.values.again import Binding
from store.values.claims import ClaimedJobs
from store.values.jobs import (
    AddReport,
    ExpireReport,
    Lease,
    NewJob,
    Release,
    ReleaseReport,
    RenewReport,
    WaitingType,
)
from store.values.making import MakingEnd
from store.values.positions import JournalPosition


class JobQueue(abc.ABC):
    """Verbs on batches of jobs, by daemons. Tenants never reach these: they are not scoped by tenant."""

    @abc.abstractmethod
    async def add_jobs(
        self, jobs: Sequence[NewJob], *, now_ms: int, position: JournalPosition | None = None
    ) -> AddReport:
        """Add a batch, and move the journal's read position with it.

        Idempotent by id: a job whose id is in the store, in any state, is left as it is and counted as a
        duplicate (also when it occurs twice in the batch: the first stands). jobs may be empty, to move only
        the position. Atomic on back ends with transactions: all jobs and the position, or nothing. On others
        the position is written after all jobs are durable, so a crash between repeats lines and never loses
        one. A job with dt_ms <= now_ms is waiting, otherwise deferred. Indexed jobs get the next seqs of
        their type in the order of the batch. A paused type or a suspended tenant still takes jobs.
        Raises InvalidValue (nothing is added): a malformed name or priority, more than MAX_BATCH, data over
        MAX_DATA_BYTES, or unique or parent set: those go through `create_job`.
        Cost: one write per job and one per (type, domain, priority) in the batch; not on the backlog.
        """

    @abc.abstractmethod
    async def add_jobs_once(self, binding: Binding, jobs: Sequence[NewJob], *, now_ms: int) -> bytes:
        """Bind a key as `put_once` does and, if it was free, add the jobs as `add_jobs` does. Returns what stands under
        the key: the value of the binding, or another; then nothing is changed.

        Atomic on back ends with transactions: all of it or nothing. On others each part is durable before the next: a
        crash may leave the key without jobs, or all of them without `done`, but never `done` without all jobs.
        Raises InvalidValue as both do; then nothing is changed.
        """

    @abc.abstractmethod
    async def get_journal_position(self, reader: str) -> JournalPosition | None:
        """The last position committed for that reader, or None. Sees every add_jobs that has returned."""

    @abc.abstractmethod
    async def get_waiting_jobtypes(self, *, now_ms: int, runnable: bool = False) -> list[WaitingType]:
        """The jobtypes that have something to claim at now_ms, in order of their names. runnable: only those that have
        a handler; then types without one cost next to nothing.

        Leaves out paused types and suspended tenants; takes no notice of rate domains. No type with a waiting
        job is left out, and none is listed without one. waiting is exact at rest; while other calls run it is
        representative, and where very many deferred jobs (over 10,000 of one type) came due since the last
        expire_locks it may be smaller than the truth, never 0.
        Cost: on the number of types with jobs, not of jobs.
        """

    @abc.abstractmethod
    async def get_next_due(self, *, after_ms: int) -> int | None:
        """When, after that time, the next deferred job comes due: a hint for when to look again. Leaves out types
        without a handler, paused types and suspended tenants. If looking for it would take long, a time before that
        is said, from which to ask again. None if there is none.

        Cost: on the number of types and domains with jobs, not of jobs.
        """

    @abc.abstractmethod
    async def claim_jobs(
        self,
        jobtype: str,
        limit: int,
        *,
        owner: str,
        lease_ms: int,
        now_ms: int,
        max_bytes: int = MAX_DATA_BYTES,
        max_per_key: int | None = None,
        tenant_created_ms: int | None = None,
        domain: str = "",
    ) -> ClaimedJobs:
        """Claim up to limit jobs: lock = owner, dt = now + lease, token + 1, attempts + 1, atomic per job.

        In order of priority descending, due time, id. A job whose rate domain has no token is passed over,
        and the next eligible one is taken; each job taken from a limited domain takes one token of its
        bucket. Empty for a paused type, a suspended tenant, an unknown type.
        domain: the rate domain of the jobs that have none: they take tokens as if they had this one.
        tenant_created_ms: empty, too, unless the tenant was created then (0: unless there is none). So who knows the
        handler of one tenant gets no job of another that has its name.
        Keys: the jobs of one key are taken in their order, a job whose rate domain has no token holds up those behind
        it, and no more are taken than max_per_key less those that run, on all daemons; leases that lapsed count until
        expire_locks. With max_per_key 1 they go strictly one after the other: one that is to be tried again holds up
        those behind it until it is over. Between the keys of a type the one that has used the least runner time comes
        first, whatever the priorities; a job costs a millisecond more than it ran, and a key that had little to do
        is ahead by no more than KEY_CREDIT_US. Where jobs with and without a key wait, each kind has half of the places
        and what the other does not need.
        Says when to claim again what waits for a token (ClaimedJobs.next_ms), if it found less than limit. Before that
        time no token comes to what waits now; at it somebody else may be quicker.
        The lease of a job with retry_after_ms lasts that long instead of lease_ms.
        Ensures: while a lease holds, no other call hands out that job. A claim whose answer was lost lapses.
        Raises InvalidValue: limit not in 1..MAX_BATCH, lease_ms < 1, malformed names, a domain that no job may have.
        Domains: of 16 that may run the jobs are taken in common order; where more may, the order of priorities holds,
        and then those domains come first that could run for the longest time.
        Cost: limit; not on the backlog, nor on the number of keys, nor on the number of domains that may not run.
        A key that has nothing to offer (its cap is reached, or nothing of it is due) is looked at once after each
        change of its jobs.
        """

    @abc.abstractmethod
    async def renew_locks(self, owner: str, leases: Sequence[Lease], *, lease_ms: int, now_ms: int) -> RenewReport:
        """Extend leases to now + lease_ms, each on condition of (id, lock = owner, token). Idempotent.

        A lease that lapsed and was not yet expired is renewed too: nobody else has got it.
        """

    @abc.abstractmethod
    async def get_leases(self, owner: str, leases: Sequence[Lease]) -> dict[Lease, int]:
        """Of these deliveries, at most MAX_BATCH, those that are still the owner's, each with the time until which it
        holds. One that lapsed and was not yet expired is among them. Cost: their number; no payload is read."""

    @abc.abstractmethod
    async def release_jobs(self, owner: str, releases: Sequence[Release], *, now_ms: int) -> ReleaseReport:
        """End a batch of deliveries, with different outcomes, each on condition of (id, lock = owner, token).

        Archive: outcome and result kept, counters and buckets counted, done_ms = now_ms. The code must be one
          of FINAL_CODES (abandoned is how a retry window or attempt limit ends). A parent with pending
          children and code ok is not archived: it is paused (lock "__paused", dt = now_ms), the outcome is
          kept as the last one and counted nowhere, its paused children become eligible, and when the last
          child is terminal it is queued again, due at once with attempts 0. With another code it is archived,
          and its paused children are cancelled.
        Finish: as Archive; data becomes the payload if the job is paused, and is forgotten otherwise.
        Discard: as Archive, and then the job is removed, unless it has relatives or a number of an indexed queue. One
          with relatives stays without its result and log: nobody has asked whether there is room for them. Where there
          are no transactions, a crash in between leaves it archived.
        Retry: code retry or error; counted; eligible at dt_ms; kept as the last outcome with its result, which says
          what went wrong, and added to the history. The retry window and the round stay those of the first attempt
          (Job.window_ms, Job.scheduled_ms).
        Unclaim: eligible at once with its old due time; attempts - 1; the last outcome is not touched. A schedule
          that was paused meanwhile is held instead, unless its round had begun before or is an extra one.
        Rearm: a final code but cancelled; outcome and result kept and counted; queued for dt_ms, attempts 0, a new
          round with a new retry window and an empty history; for a parent it is not terminal. The round that ended is
          added to those of its schedule, also by Archive and Finish. If the schedule is paused, it is out of the queue
          until it is resumed; if this was an extra round, the time of the regular one is used for dt_ms. With pending
          children and code ok the job is paused as with Archive, its round goes on when the last child has ended, and
          dt_ms is not used. With another code its paused children are cancelled, and the next round comes.
        data of a Retry or a Rearm becomes the payload, whatever follows.
        Retry and Unclaim do not touch children. A child that becomes terminal, with whatever code, is
        one pending child less for its parent.
        Atomic per job; as a whole where there are transactions. Where there are none, what follows for
        relatives comes in later steps, each idempotent, which expire_locks repeats if a crash interrupts
        them. On all back ends it changes up to 1,000 children or so of parents that end, so that nobody waits for it
        for long; expire_locks changes the others, which stay paused until then, as does the next round of a job with
        children that are still to be cancelled.
        Repeating a call that was applied reports its jobs as stale and changes nothing.
        Raises InvalidValue (nothing is released): a code that does not fit, result over MAX_RESULT_BYTES, log
        over MAX_LOG_BYTES, the same id twice.
        Cost: one write per job, a few per type in the batch, and those children of parents that end.
        """

    @abc.abstractmethod
    async def release_with_jobs(self, owner: str, ends: Sequence[MakingEnd], *, now_ms: int) -> ReleaseReport:
        """End deliveries as `release_jobs` does, each with the jobs that its run asked for, which are added as
        `create_jobs` does: both, or neither. The jobs are added first, so a job that ends has its new children while it
        still runs: with ok it is paused for them, and with a final code that is not ok they are cancelled.

        A delivery that is not the owner's any more adds nothing and is reported as stale. So repeating a call that was
        applied adds nothing twice.
        Where there are no transactions, all jobs are checked before anything is written, and none can be seen before
        its release is recorded. After that they appear in later steps, which expire_locks repeats if a crash interrupts
        them; a job whose name or parent somebody else took in between is left out.
        At most MAX_BATCH new jobs. Raises what create_jobs and release_jobs raise, and InvalidValue if a run makes a
        child of another that ends in the same call; nothing has changed then.
        Cost: a few writes for the whole batch, and some for each new job that has a unique name or is the sibling of
        its maker, and each maker with relatives.
        """

    @abc.abstractmethod
    async def expire_locks(self, *, now_ms: int, limit: int = 1000, owner: str | None = None) -> int:
        """Upkeep: make jobs with a lapsed lease (dt <= now, lock a sysid) waiting again, with their old due
        time. With owner, the leases of that owner, lapsed or not: the caller knows that it is gone.

        Returns how many; call again at once while it is limit. The attempt stays counted; whoever claims it
        next sees from attempts whether to abandon it. Any daemon may do this; idempotent.
        It also does what else keeps counters quick, in the same bounds (deferred jobs that came due), changes children
        of parents that have ended, in steps (see release_jobs), and where there are no transactions it finishes what
        processes that died had begun.
        """

    @abc.abstractmethod
    async def cut_leases(self, *, now_ms: int, longest_ms: int, limit: int = 1000) -> int:
        """Upkeep after the clock was set back: a lease that was taken more than AHEAD_MS after now counts as taken
        now, and so does its job. If it can be renewed (the job has no retry_after), it ends after longest_ms at the
        latest, also if it was only renewed by a clock that was ahead.

        longest_ms: no lease that can be renewed is longer. One that was renewed ahead of now by less looks like a long
        one, and stays. Returns how many; call again at once while it is limit. Idempotent.
        Cost: on the number of running jobs whose lease lasts for more than AHEAD_MS.
        """

    @abc.abstractmethod
    async def expire_jobs(
        self,
        *,
        now_ms: int,
        done_before_ms: int,
        waiting_before_ms: int,
        failed_before_ms: int | None = None,
        tenant: str | None = None,
        jobtype: str | None = None,
        limit: int = 1000,
    ) -> ExpireReport:
        """Upkeep: purge archived jobs that ended before done_before_ms (result and payload with them), and before
        failed_before_ms those with a code of FAILED_CODES (None: as the others); abandon waiting jobs that have been
        due since before waiting_before_ms (no handler ever came), and in the queue for as long: a job whose time lay
        back when it was added, or ended a round, waits since then, and one that was given back since its claim.

        A child stays as long as its parent may ask for it: until that is over, or its round if it repeats.
        tenant, jobtype: only jobs of it.

        At most limit jobs in one step, so that nothing waits for it; call again while more is True. Cost: also on the
        jobs that were due before waiting_before_ms and have not waited for so long, and on children that stay.
        Idempotent. Abandoning archives with Code.ABANDONED, exitcode 504 and counts; relatives are served as
        in release_jobs. A schedule is not abandoned: its regular round goes on waiting. An extra round of it is, as by
        Rearm: it goes on with its regular round. A purged parent leaves its children as they are.
        """
