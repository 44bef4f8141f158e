"""Verbs on single jobs of a tenant: create, read, list, update, cancel, replay; indexed queues; rate domains."""

import abc
from collections.abc import Sequence

from store.values.job_changes import JobChange
from store.values.jobs import CreateReport, Creation, IndexState, JobFilter, JobPage, JobRecord, KeyState, NewJob
from store.values.records import RateDomain, RateState
from vocabulary.states import Code, JobState


class JobVerbs(abc.ABC):
    """What tenants do with their jobs. Every verb takes the tenant; a foreign id is as good as no id."""

    async def create_job(self, job: NewJob, *, now_ms: int) -> CreateReport:
        """One job, as `create_jobs`."""
        (report,) = await self.create_jobs([Creation(job)], now_ms=now_ms)
        return report

    @abc.abstractmethod
    async def create_jobs(self, creations: Sequence[Creation], *, now_ms: int) -> list[CreateReport]:
        """Add jobs that may have a unique name or a parent, in their order. All of them, or none.

        unique: when a job of that jobtype with that name is waiting, deferred or paused, no job is added: its data,
        repeat and priority become those of the argument, without what `keeps` names, and its id is returned with
        created False. If it gets another repeat, so does its dt_ms, unless `keeps` names due, and that is a new round:
        attempts, window and history begin anew. While it runs (lapsed included) its payload is in use: Conflict, unless
        it repeats and nothing of it would change. Conflict, too, while it is being cancelled (`update_job`), and if it
        has another parent than the argument names.
        When the id itself is in the store (a repeated call), nothing changes and created is False. Idempotent by id.
        Atomic where there are transactions. Where there are none, all are checked before the first is written, so
        only a change by somebody else in between can leave the first ones created.
        parent: must be of the same tenant and running (lapsed included) or paused. The child of a running
        parent is held, in the state paused, until the parent is archived with ok (see release_jobs), and no
        end of its own children wakes it before; the child of a paused parent is eligible as its dt_ms says.
        Raises NotFound (no such parent), Conflict (the parent is neither running nor paused, or the name is in use),
        InvalidValue (a child that repeats would hold its parent for ever; a parent that is created in the same call;
        an id that appears twice; more than MAX_BATCH).
        """

    @abc.abstractmethod
    async def get_job(self, tenant: str, job_id: str, *, now_ms: int, max_bytes: int | None = None) -> JobRecord | None:
        """The whole record with data, result and log, or None. Sees every write that has returned.

        max_bytes: of data and of result only so many bytes are read, from the start; the sizes say what there is.
        """

    @abc.abstractmethod
    async def read_result(self, tenant: str, job_id: str, *, done_ms: int, start: int, length: int) -> bytes | None:
        """A part of the result that was recorded at done_ms, shorter at its end. None when there is no such job, or it
        has ended again since. Costs memory for the part only."""

    @abc.abstractmethod
    async def get_job_at(
        self, tenant: str, jobtype: str, seq: int, *, now_ms: int, max_bytes: int | None = None
    ) -> JobRecord | None:
        """The job of an indexed queue at that seq, as get_job, or None."""

    @abc.abstractmethod
    async def get_states(self, tenant: str, job_ids: Sequence[str], *, now_ms: int) -> dict[str, JobState]:
        """The states of those jobs that exist, at most MAX_BATCH, without reading payloads."""

    @abc.abstractmethod
    async def get_codes(self, tenant: str, job_ids: Sequence[str]) -> dict[str, Code]:
        """How those jobs ended that are archived, at most MAX_BATCH, without reading results."""

    @abc.abstractmethod
    async def list_jobs(
        self,
        tenant: str,
        where: JobFilter,
        *,
        now_ms: int,
        cursor: str | None = None,
        limit: int = 100,
        max_bytes: int = 0,
    ) -> JobPage:
        """A page of the tenant's jobs in one state, without results, and with the first max_bytes bytes of each
        payload, at most MAX_BEGIN_BYTES; of a large one little more than these is read.

        Order: archived by the time they ended, newest first; running, lapsed and paused by dt; waiting and
        deferred by due time, soonest first. Ties come in an order of the back end's own, always the same.
        The cursor is opaque and stable: jobs that come and go between pages make no other job appear twice or
        be left out. Raises InvalidValue for a cursor that is not one of this listing, or limit not in
        1..1000. Cost: limit, plus one seek per type of the tenant (and per code); not on the number of jobs. By
        unique name, key or failure the same: each has an index of the jobs that have one.
        """

    @abc.abstractmethod
    async def list_repeating(self, tenant: str, *, now_ms: int, cursor: str | None = None, limit: int = 100) -> JobPage:
        """A page of the tenant's jobs that repeat and are not archived, in order of type and id, as list_jobs; also
        those that stopped to repeat while they are paused. Cost: limit, plus one seek per type of the tenant; not on
        the number of jobs."""

    @abc.abstractmethod
    async def list_children(
        self,
        tenant: str,
        parent_id: str,
        *,
        now_ms: int,
        cursor: str | None = None,
        limit: int = 100,
        max_bytes: int = 0,
    ) -> JobPage:
        """The children of a job in order of id, as list_jobs; with the first max_bytes bytes of each result. No such
        parent: an empty page."""

    @abc.abstractmethod
    async def get_position(self, tenant: str, job_id: str, *, now_ms: int, cap: int = 10_000) -> int | None:
        """How many jobs of its type are claimed before this one, counted to cap; None unless it is waiting.
        Keys are not looked at: by priority and due time."""

    @abc.abstractmethod
    async def get_key_state(self, tenant: str, jobtype: str, key: str, *, limit: int, now_ms: int) -> KeyState:
        """The jobs of a key that run, by id and up to limit, the one that is to be tried again, and the one that is
        first in the order of those that are due."""

    @abc.abstractmethod
    async def update_job(self, tenant: str, job_id: str, change: JobChange, *, now_ms: int) -> JobState:
        """Change what is given of a job that is not archived, and return its state. Atomic, idempotent.

        dt_ms moves it in the queue, and is refused while it runs (lapsed included), as are repeat and priority; with
        at_rest everything is. Of one whose round is over, and which waits for children of that, it moves the next
        round, as does resume_ms. With token, only that delivery may do it.
        pause: a job that repeats is in the state paused between two rounds, at once or after the one that has begun,
        until resume_ms: then it is queued for its planned time, and not before resume_ms. A second pause changes
        nothing. It is not abandoned meanwhile, and keeps its pause when its name is used again (`create_jobs`).
        timing: with ANEW dt_ms is that of a round that begins anew, as by another repeat in `create_jobs`; of the
        regular one while an extra one comes first. With EXTRA it is that of a round beside the regular one, which
        keeps its time; one that is paused is paused again after it.
        ending_ms: until then its unique name is refused by `create_jobs`.
        Raises NotFound, Conflict (archived; running and one of dt_ms, repeat, priority and at_rest; token is not the
        current one; pause, repeat or EXTRA of a job that does not repeat; EXTRA of one whose round is due or has
        begun), InvalidValue.
        """

    @abc.abstractmethod
    async def cancel_job(self, tenant: str, job_id: str, *, now_ms: int, running: bool = False) -> None:
        """Archive, with Code.CANCELLED and exitcode 499, a job that has not started; relatives as in release_jobs,
        and with a parent that waits for its children all of them that do not run are cancelled, and theirs. Of large
        families that is done in steps, between which others have their turn: a child that is claimed before its step
        runs. All steps are done when this returns; if it is interrupted, expire_locks does the rest.

        With running, also one that runs (lapsed included): its delivery ends with this, so its owner can neither renew
        nor release it, and finds that out when it tries. It does not count as a run.
        Cancelling what is cancelled already changes nothing. Raises NotFound, Conflict (running, or ended otherwise).
        """

    @abc.abstractmethod
    async def replay_jobs(
        self, tenant: str, job_ids: Sequence[str], *, dt_ms: int, now_ms: int, data: bytes | None = None
    ) -> tuple[str, ...]:
        """Queue archived jobs again for dt_ms, with attempts 0 and a token that goes on growing. With data, that is
        their payload from now on.

        The last outcome stays readable until the next one, but the kept result is dropped. Returns the ids
        that were replayed; ids that do not exist, are foreign or are not archived are left out. A job whose
        unique name another live job holds is left out too, and one whose children are still being cancelled. But a
        job that a consumer holds behind it, with a higher number, loses the name to it.
        Atomic per job; repeating it replays nothing twice. Its parent waits for a child that is replayed, as for a new
        one, unless the parent is archived when this is called, and maybe replayed by it too. Its own children are not
        touched. A job whose number a consumer has not let in yet is held until then.
        """

    @abc.abstractmethod
    async def move_job(
        self,
        tenant: str,
        job_id: str,
        jobtype: str,
        *,
        dt_ms: int,
        now_ms: int,
        data: bytes | None = None,
        token: int | None = None,
    ) -> None:
        """Queue a job for dt_ms as one of another type of the tenant, with attempts 0: one that is archived, waiting or
        deferred. Its domain, priority, options and relatives stay. With data, that is its payload from now on. Of an
        archived job the kept result is dropped and its parent waits for it again, as by replay_jobs.

        With token, a running job moves, and no other: the delivery that has this token is over, and no outcome of it is
        counted.
        Atomic. Raises NotFound, Conflict (it is paused, or it is running and that is not its token; or it has a unique
        name or a number, which are those of its type; or the other type has a consumer, which would not see it, unless
        that is pulled; or its children are still being cancelled), InvalidValue (a type of another tenant).
        """

    @abc.abstractmethod
    async def delete_jobs(self, tenant: str, job_ids: Sequence[str], *, now_ms: int) -> int:
        """Remove all trace of jobs that are archived, and return how many. Others are left as they are. Children that
        are still to be cancelled because of the end of such a job are cancelled none the less.

        While its line may be read again from a journal, as far as the positions tell, the id of a job stays, and
        nothing else of it: no reader sees it, and no verb adds a job with this id. expire_records removes it.
        Atomic per job."""

    @abc.abstractmethod
    async def number_jobs(self, tenant: str, job_ids: Sequence[str]) -> dict[str, int]:
        """The numbers of those jobs that exist, at most MAX_BATCH. One without a number gets the next of its tenant, 1
        first, in the order of job_ids.

        A job keeps its number for life, and no other of the tenant ever gets it, also when the job is gone. Numbers
        grow, but some may be left out. Idempotent. Costs nothing for jobs that are never numbered.
        """

    @abc.abstractmethod
    async def take_numbers(self, tenant: str, count: int) -> int:
        """The first of `count` numbers in a row that no job of the tenant has or ever gets, 1 to MAX_BATCH of them."""

    @abc.abstractmethod
    async def find_numbered(self, tenant: str, number: int) -> str | None:
        """The id of the tenant's job with that number, or None."""

    @abc.abstractmethod
    async def get_index_state(self, tenant: str, jobtype: str) -> IndexState:
        """Of an indexed queue; all zero when it has had no indexed job. Its consumer moves it on (`move_window`)."""

    @abc.abstractmethod
    async def set_rate_domain(self, domain: RateDomain, *, now_ms: int) -> bool:
        """Limit a domain of a tenant; the bucket of a new domain starts full, that of an old one keeps its tokens up to
        the new burst. One that was changed more than AHEAD_MS after now_ms, by a clock that was ahead, counts from
        now_ms on; those of a pattern start full.

        A name with `*`, `?` or `[` is a pattern (GLOB): each domain that it matches, and that has no limit of its own,
        has a bucket of its own, which starts full, exists from the domain's first claim until it is full again, and
        follows a change of the pattern from now_ms on. Of several patterns that match the most specific holds
        (store/rate_rules.py); `*` is the default of the tenant.
        Raises InvalidValue: rate_per_s not in 1e-6..1e6, burst not in 1..1e6, a pattern with two `*` or an open `[`.
        Raises Conflict: a new pattern where the tenant has MAX_PATTERNS, a new limit where it has MAX_LIMITS.
        Idempotent. Returns whether that changed the limit.
        Jobs that waited for a token are looked at again before it returns; where it is interrupted, within a minute."""

    @abc.abstractmethod
    async def delete_rate_domain(self, tenant: str, domain: str, *, now_ms: int) -> bool:
        """Lift a limit; False if there was none. The next pattern that matches holds from then on."""

    @abc.abstractmethod
    async def list_rate_domains(self, tenant: str, *, now_ms: int) -> list[RateState]:
        """The tenant's limits in order of domain, each with its tokens at now_ms; a pattern has those of a new
        bucket."""

    @abc.abstractmethod
    async def find_rate(self, tenant: str, domain: str, *, now_ms: int) -> RateState | None:
        """What limits a domain, under the name on which the limit was set, with the tokens of the domain's own bucket.
        None: nothing does. Cost: the number of the tenant's patterns."""
