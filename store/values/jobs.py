"""Jobs as values: what is added, what is delivered, how it is released, what a reader sees.

Named tuples, because tens of thousands are made a second and a tuple is the cheapest frozen thing there is.
The persistent form is each back end's own business.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from store.names import DONE_LOCK, PAUSED_LOCK
from store.values.schedules import NO_SCHEDULE, Schedule
from vocabulary.states import Code, JobState


class NewJob(NamedTuple):
    """A job to be added. `dt_ms` is when it becomes eligible; `jobtype` carries its tenant.

    options is the application's own text (JSON by custom) and comes back as it was given. domain names the
    rate domain, of the tenant, that the job counts against. With retry_after_ms the lease of every delivery
    is that long and is not renewed. With indexed the store gives the job the next `seq` of its jobtype.
    unique and parent are for `create_jobs` only. Jobs of a type with the same key are a queue of their own: see
    `claim_jobs`. repeat is kept as given: the caller does its arithmetic. A job with a
    parent does not repeat.
    """

    id: str
    jobtype: str
    data: bytes
    dt_ms: int
    create_ms: int
    priority: int = 500
    domain: str = ""
    options: str = ""
    retry_after_ms: int | None = None
    indexed: bool = False
    repeat: str = ""
    unique: str = ""
    parent: str = ""
    key: str = ""


class Creation(NamedTuple):
    """A job for `create_jobs`. keeps names what a live job with the same unique name keeps, because the caller did not
    say it: data, priority, repeat, due."""

    job: NewJob
    keeps: frozenset[str] = frozenset()


class Job(NamedTuple):
    """A job as it is delivered to a worker, or read back.

    dt_ms and lock are the disposition: see `state_of`. due_ms is when it became (or becomes) eligible, and stays
    through a delivery. token grows with every delivery; attempts counts deliveries since it was added, replayed or
    re-armed, without those that were given back unused. seq is None unless the job is of an indexed queue.
    begun_ms and planned_ms are kept from a first attempt for the next ones: see `window_ms` and `scheduled_ms`.
    children counts all that it has had.
    """

    id: str
    jobtype: str
    data: bytes
    dt_ms: int
    lock: str
    token: int
    attempts: int
    priority: int
    due_ms: int
    create_ms: int
    domain: str = ""
    options: str = ""
    retry_after_ms: int | None = None
    seq: int | None = None
    repeat: str = ""
    unique: str = ""
    parent: str = ""
    begun_ms: int | None = None
    planned_ms: int | None = None
    children: int = 0
    key: str = ""

    @property
    def window_ms(self) -> int:
        """When its retry window began: when it first became due, since it was added, replayed, re-armed or woken by its
        last child."""
        return self.due_ms if self.begun_ms is None else self.begun_ms

    @property
    def scheduled_ms(self) -> int:
        """When this round was to begin. Unlike the window, it stays when the job waits for children."""
        return self.due_ms if self.planned_ms is None else self.planned_ms


class Outcome(NamedTuple):
    """How one run of a job ended. For a final outcome result is kept (None: the handler returned nothing).

    log is the tail of what the run printed. fingerprint, when not empty, names the kind of failure, and
    message is its one-line text: runs with the same fingerprint are counted together.
    """

    code: Code
    exitcode: int
    started_ms: int
    duration_us: int = 0
    result: bytes | None = None
    log: bytes = b""
    handler_version: int = 0
    isolation: str = ""
    fingerprint: str = ""
    message: str = ""


MOST_ATTEMPTS: Final = 10


class Attempt(NamedTuple):
    """One run that ended with retry or error, or was lost, in the history of a job. number counts as `Job.attempts`
    does."""

    number: int
    started_ms: int
    duration_us: int
    code: Code
    exitcode: int
    message: str
    handler_version: int
    daemon: str


def with_attempt(history: Sequence[Attempt], number: int, outcome: Outcome, daemon: str) -> tuple[Attempt, ...]:
    """The history after one more run: the last MOST_ATTEMPTS are kept."""
    latest = Attempt(
        number,
        outcome.started_ms,
        outcome.duration_us,
        outcome.code,
        outcome.exitcode,
        outcome.message,
        outcome.handler_version,
        daemon,
    )
    return (*history[1 - MOST_ATTEMPTS :], latest)


LOST: Final = Outcome(
    Code.ERROR, 503, started_ms=0, message="the run was lost: its lease lapsed before its end was reported"
)
"""Of runs that nobody has heard of any more. In the history only: a job that runs again has no outcome yet."""


NOT_ENDED_IN_TIME: Final = "nobody reported the end of the run in the time of its fixed lease"


def lost(claimed_ms: int, now_ms: int, *, is_fixed: bool = False) -> Outcome:
    """A run that is found to be lost now. is_fixed: nobody could have renewed its lease."""
    run = LOST._replace(started_ms=claimed_ms, duration_us=max(now_ms - claimed_ms, 0) * 1000)
    return run._replace(message=NOT_ENDED_IN_TIME) if is_fixed else run


CANCELLED: Final = Outcome(Code.CANCELLED, 499, started_ms=0)
ABANDONED: Final = Outcome(Code.ABANDONED, 504, started_ms=0)
"""Of jobs that end without a run. If it ran before, the rest of its last outcome stays."""


class Archive(NamedTuple):
    """The job is over: keep it as archived with its final outcome."""

    id: str
    token: int
    outcome: Outcome


class Finish(NamedTuple):
    """As Archive. If the job is paused for its children instead, data is the payload of its next run."""

    id: str
    token: int
    outcome: Outcome
    data: bytes


class Discard(NamedTuple):
    """The job is over, and nobody will look at it again: as Archive, and then all trace of it is removed. A job with a
    number of an indexed queue is kept, and one with a parent or children without its result and log."""

    id: str
    token: int
    outcome: Outcome


class Retry(NamedTuple):
    """The run ended with retry or error: eligible again at dt_ms. With data, the payload is replaced."""

    id: str
    token: int
    dt_ms: int
    outcome: Outcome
    data: bytes | None = None


class Unclaim(NamedTuple):
    """The job was not started: eligible again at once, at its old place, and the attempt is not counted."""

    id: str
    token: int


class Rearm(NamedTuple):
    """A repeating job ended one round: its outcome counts, and it is queued again for dt_ms with attempts 0. With data,
    the payload is replaced. With pending children see `release_jobs`."""

    id: str
    token: int
    dt_ms: int
    outcome: Outcome
    data: bytes | None = None


EndOfRun = Archive | Finish | Retry | Rearm
Release = EndOfRun | Discard | Unclaim


class Lease(NamedTuple):
    """What identifies one delivery: the job and its token (the owner is an argument of the verb)."""

    id: str
    token: int


class JobRecord(NamedTuple):
    """A job as a reader sees it: the job, its state at the time asked for, and its last outcome if it ever ended.

    In listings job.data is b"" or its beginning, outcome.result None, outcome.log b"" and history empty: the sizes say
    what there is. done_ms: when the last outcome was recorded (0: never). children counts all, pending those not yet
    terminal. history: the last runs that ended with retry or error, or were lost, of this round, oldest
    first. number: of `number_jobs`. schedule: of one that repeats, or did; with rounds in `get_job`, `list_repeating`.
    """

    job: Job
    state: JobState
    outcome: Outcome | None
    claimed_ms: int
    done_ms: int
    data_bytes: int
    result_bytes: int
    children: int
    pending_children: int
    history: tuple[Attempt, ...] = ()
    number: int | None = None
    schedule: Schedule = NO_SCHEDULE

    @property
    def is_on_hold(self) -> bool:
        """Whether it waits for nothing but a resume."""
        return self.state is JobState.PAUSED and self.schedule.pause is not None and not self.pending_children


class AddReport(NamedTuple):
    """added new jobs; duplicates were there already, by id, and were left as they are."""

    added: int
    duplicates: int


class CreateReport(NamedTuple):
    """id of the job, which is an older one when created is False."""

    id: str
    created: bool
    state: JobState


class WaitingType(NamedTuple):
    """A jobtype with something to claim now. handler_version is 0 when it has no handler. priority is the highest of
    what waits, and at least 500. oldest_due_ms: since when its first job could run; if its time lay back when it
    entered the queue, or when its last run ended, since then. tenant_created_ms tells its tenant from others that had
    the name; 0 if there is none."""

    jobtype: str
    waiting: int
    oldest_due_ms: int
    handler_version: int
    priority: int = 500
    tenant_created_ms: int = 0


class TypeGate(NamedTuple):
    """What decides whether jobs of a type may start at once: its handler (version 0: none), and whether it is open:
    not paused, its tenant not suspended, and without a consumer."""

    jobtype: str
    handler_version: int
    is_open: bool


class RenewReport(NamedTuple):
    """renewed leases; fixed are held, but not renewable (retry_after_ms); stale are not the owner's any more."""

    renewed: int
    fixed: tuple[str, ...]
    stale: tuple[str, ...]


class ReleaseReport(NamedTuple):
    """applied releases; stale ones changed nothing. paused: parents that now wait for their children."""

    applied: int
    stale: tuple[str, ...]
    paused: tuple[str, ...]


class ExpireReport(NamedTuple):
    """What one bounded step did. more: the limit ended it, call again."""

    purged: int
    abandoned: int
    more: bool


class KeyState(NamedTuple):
    """What may hold up jobs of a key: those that run, the first that is between two attempts, and the first of those
    that are due ("": none)."""

    running: tuple[str, ...]
    retried: str = ""
    first: str = ""


class IndexState(NamedTuple):
    """An indexed queue: head is the last seq given, processed the last below which there is no gap.

    blocked_by is the seq of the terminal job that keeps processed from moving, or None.
    """

    head: int
    processed: int
    blocked_by: int | None


class JobFilter(NamedTuple):
    """Which jobs of a tenant to list. None means any. A codes filter applies to archived jobs only. jobtypes names
    several types in place of one. At most one of unique (the unique name), key, and failure (the fingerprint that the
    last run left) is given.

    since_ms and until_ms bound (half open) the time by which the state is ordered: see `list_jobs`.
    """

    state: JobState
    jobtype: str | None = None
    codes: frozenset[Code] | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    jobtypes: tuple[str, ...] | None = None
    unique: str | None = None
    key: str | None = None
    failure: str | None = None

    @property
    def names(self) -> tuple[str, ...] | None:
        """The types that are meant; None: all."""
        return self.jobtypes if self.jobtype is None else (self.jobtype,)


END_OF_TIME_MS: Final = 1 << 62


def time_window(where: JobFilter, now_ms: int) -> tuple[int, int]:
    """The half-open range of times of a listing: what was asked for, and what the state itself says."""
    since_ms = where.since_ms or 0
    until_ms = END_OF_TIME_MS if where.until_ms is None else where.until_ms
    if where.state in {JobState.WAITING, JobState.LAPSED}:
        until_ms = min(until_ms, now_ms + 1)
    elif where.state in {JobState.DEFERRED, JobState.RUNNING}:
        since_ms = max(since_ms, now_ms + 1)
    return since_ms, until_ms


class JobPage(NamedTuple):
    """cursor continues after the last record; None: there was nothing after it when this was read."""

    records: tuple[JobRecord, ...]
    cursor: str | None


def state_of(dt_ms: int, lock: str, now_ms: int) -> JobState:
    """The state that (dt, lock) encode at a time."""
    if lock == "":
        return JobState.DEFERRED if dt_ms > now_ms else JobState.WAITING
    if lock == DONE_LOCK:
        return JobState.ARCHIVED
    if lock == PAUSED_LOCK:
        return JobState.PAUSED
    return JobState.RUNNING if dt_ms > now_ms else JobState.LAPSED
