"""Jobs on the wire: submitting, looking at, explaining and replaying them."""

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Raw, UnsetType, field

from functory.wire.base import (
    MAX_REPEAT_CHARS,
    Answer,
    DelaySeconds,
    Encoding,
    JobId,
    Label,
    Limit,
    Request,
    TimeMs,
    TypeName,
    several,
    whole,
)
from functory.wire.job_limits import LimitSettings, ShownLimits
from functory.wire.schedules import PauseRow, RoundRow

Priority = Literal[0, 500, 1000]
CodeName = Literal["ok", "failed", "abandoned", "cancelled"]
STATE_NAMES: Final = ("archived", "deferred", "lapsed", "paused", "running", "waiting")
CODE_NAMES: Final = ("ok", "failed", "abandoned", "cancelled")
STATES: Final = several(STATE_NAMES)
ENDINGS: Final = several(CODE_NAMES)
UnfinishedName = Literal["waiting", "deferred", "paused", "lapsed", "running"]
UNFINISHED_NAMES: Final[tuple[UnfinishedName, ...]] = ("waiting", "deferred", "paused", "lapsed", "running")
TypePattern = Annotated[str, Meta(min_length=1, max_length=127)]
"""A type, or a GLOB pattern of types."""
DEFAULT_REPLAY: Final[tuple[CodeName, ...]] = ("failed", "abandoned")
TIME_FORMS: Final = "RFC 3339, milliseconds, or YYYY-MM-DD [HH:MM:SS] in UTC"
Time = Annotated[str, Meta(max_length=40, description=TIME_FORMS)] | int | float
"""A moment: text, or milliseconds as a number."""
Name = Annotated[str, Meta(min_length=1, max_length=255)]
"""An empty one is refused: it comes from a variable that is not set, and would be as good as none."""
Failure = Annotated[str, Meta(min_length=1, max_length=64, description="the fingerprint of a group of failures")]
StateName = Literal["queued", "deferred", "waiting", "running", "lapsed", "paused", "archived"]
"""`queued` is the journal's: accepted, durable, and not in the store yet. The others are the store's states."""


class JobSettings(LimitSettings):
    """What may be said about a job, as query options for a whole body or as fields of one job."""

    delay_s: DelaySeconds | None = None
    dt: Annotated[Time, Meta(description=f"when it becomes eligible: {TIME_FORMS}")] | None = None
    priority: Annotated[Priority, Meta(extra_json_schema={"default": 500})] | UnsetType = UNSET
    domain: Annotated[Name, Meta(description="rate domain of the tenant")] | None = None
    key: Annotated[Name, Meta(description="jobs of its type with this key share a cap, in order")] | None = None
    retry_after_s: Annotated[float, Meta(ge=0.001, le=31_557_600, description="a fixed lease, not renewed")] | None = (
        None
    )
    retry_after: Annotated[str, Meta(max_length=200, description="the same as SQLite modifiers: +10 MINUTES")] = ""
    indexed: bool = False
    repeat: Annotated[str, Meta(max_length=MAX_REPEAT_CHARS)] | UnsetType = UNSET
    unique: Name | None = None
    parent: Annotated[str, Meta(min_length=1, max_length=64)] | None = None


class AddQuery(JobSettings):
    """Query options of a body of lines."""

    ack: Literal["journal", "store"] = "journal"
    ids: Literal["yes", "no"] = "yes"
    idempotency_key: Label | None = None
    wait_s: Annotated[float, Meta(ge=0, le=60, description="wait for the end of up to 100 jobs, and answer them")] = 0.0


class NewJob(JobSettings):
    """One job of a JSON or NDJSON body. A payload that is no string is kept as its JSON text."""

    payload: Raw | UnsetType = UNSET
    payload_base64: Annotated[str, Meta(max_length=2_000_000)] | UnsetType = UNSET
    options: dict[str, Any] = field(default_factory=dict)


class TypedJob(NewJob, kw_only=True):
    """One job of a request that creates jobs of several types."""

    type: TypeName


class CreateBody(Request):
    """Jobs that are created together: all, or none."""

    jobs: Annotated[
        list[TypedJob],
        Meta(min_length=1, extra={"limit": ("the number of jobs that are created together", "max_created")}),
    ]
    idempotency_key: Label | None = None


class JobQuery(Request):
    wait_s: Annotated[float, Meta(ge=0, le=60)] = 0.0


class WaitBody(Request):
    """Which jobs, and how long to wait until all of them have ended."""

    ids: Annotated[list[JobId], Meta(min_length=1, max_length=1000)]
    wait_s: Annotated[float, Meta(ge=0, le=60)] = 0.0


class LogQuery(Request):
    follow: bool = False


class LogText(Answer):
    """Stands for a log: text, or events."""


class LogEnd(Answer):
    """The last event of a log that is followed: how its job ended."""

    code: str
    exitcode: int


class AttemptRow(Answer):
    """A run that ended with retry or error. `number` counts from 1."""

    number: int
    started_ms: int
    duration_us: int
    code: str
    exitcode: int
    message: str
    handler_version: int | None
    daemon: str


class FollowedJob(Answer):
    """The job whose result was passed on to another one, by `then` or `on_failure` of its handler; `code` says how it
    ended. It may be gone by now."""

    id: str
    type: str
    code: str


class Job(ShownLimits):
    """A job as its tenant sees it. The fields from code to log are those of the last run that ended; while the job is
    tried again, result is the end of what that run returned or of its error. history has the last ten runs that ended
    with retry or error, or were lost. `failure` is the fingerprint of the error, by which `/failures` groups runs."""

    id: str
    type: str
    state: StateName
    priority: int
    attempts: int
    due_ms: int
    created_ms: int
    lease_until_ms: int | None = None
    code: str | None = None
    exitcode: int | None = None
    message: str = ""
    failure: str = ""
    started_ms: int | None = None
    done_ms: int | None = None
    duration_us: int | None = None
    handler_version: int | None = None
    isolation: str = ""
    payload: str | None = None
    payload_encoding: Encoding = "text"
    payload_bytes: int = 0
    result: str | None = None
    result_encoding: Encoding = "text"
    result_bytes: int = 0
    log: str | None = None
    log_encoding: Encoding = "text"
    domain: str = ""
    key: str = ""
    repeat: str = ""
    retry_after_s: float | None = None
    unique: str = ""
    parent: str = ""
    follows: FollowedJob | None = None
    options: Any = None
    seq: int | None = None
    children: int = 0
    pending_children: int = 0
    history: list[AttemptRow] = field(default_factory=list)
    rounds: list[RoundRow] = field(default_factory=list)
    """Of a job that repeats: the last 20 that ended, oldest first; the last 10 in a list of schedules."""
    pause: PauseRow | None = None
    """Of a schedule that is paused. A round that has begun goes on."""
    regular_ms: int | None = None
    """When the next regular round is due, while an extra one comes before it."""
    progress: Any = None
    """What it last said of its progress, while it runs on the daemon that answers."""
    worker: str = ""
    """The worker that holds it, if that took it from the daemon that answers and has a name."""
    claimed_ms: int | None = None
    """Since when it runs, while it does."""


class Added(Answer):
    """`ids` are in the order of the jobs in the body; left out with `ids=no`. `jobs` only with `wait_s`."""

    count: int
    ids: list[str] | UnsetType = UNSET
    jobs: list[Job] | UnsetType = UNSET


class EndedJobs(Answer):
    """`jobs` as they are now, in the order of the ids; `gone` are not there: deleted, not kept, or never were. `left`
    did not fit, or are not known yet: ask again for these."""

    jobs: list[Job]
    gone: list[str]
    left: list[str]


class Page(Answer):
    """`cursor` continues the listing; null when it is at its end. `looked_at`: of a search, how many jobs were read."""

    jobs: list[Job]
    cursor: str | None
    looked_at: int | None = None


class ResultsQuery(Request):
    """`state` is one or more, by commas: the jobs of one after those of the other. `code` is one or more of ok, failed,
    abandoned, cancelled, by commas; it applies to archived jobs. One of `unique`, `key` and `failure` looks for jobs
    that have it: without a state, a code and a time in all states, first those that are not over. Otherwise the state
    is archived if there is none. `contains` looks into the first KiB of each payload and the error of the last run,
    in letters of any case: at up to 5,000 jobs, and the cursor goes on from there, also if nothing was found.
    `payload_bytes`: the first so many bytes of each payload."""

    state: Annotated[str, Meta(pattern=whole(STATES))] | None = None
    type: Annotated[TypePattern, Meta(description="a type, or a GLOB pattern such as mail*")] | None = None
    code: Annotated[str, Meta(pattern=whole(ENDINGS))] | None = None
    since_ms: TimeMs | None = None
    until_ms: TimeMs | None = None
    unique: Name | None = None
    key: Name | None = None
    failure: Failure | None = None
    contains: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    payload_bytes: Annotated[int, Meta(ge=0, le=1024)] = 0
    cursor: Annotated[str, Meta(max_length=2000)] | None = None
    limit: Limit = 100


class SchedulesQuery(Request):
    cursor: Annotated[str, Meta(max_length=2000)] | None = None
    limit: Limit = 100


class Why(Answer):
    """Why a job is not running: `reason` for machines, `text` for people, `detail` the numbers behind it."""

    id: str
    state: StateName
    reason: str
    text: str
    detail: dict[str, Any] = field(default_factory=dict)


class PayloadBody(Request):
    """The new payload of a job, in one of two forms; as in `NewJob`."""

    payload: Raw | UnsetType = UNSET
    payload_base64: Annotated[str, Meta(max_length=2_000_000)] | UnsetType = UNSET


class UpdateBody(PayloadBody):
    """What is to be changed of a job that has not started. `repeat`, and `delay_s` or `next_run`, the time of the next
    round, are of a schedule; an empty `repeat` ends it with that round."""

    priority: Priority | UnsetType = UNSET
    repeat: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    delay_s: DelaySeconds | None = None
    next_run: Time | None = None


class RetryBody(PayloadBody):
    """When the job runs again, at once unless one of `delay_s` and `next_run` says otherwise; and with what."""

    delay_s: DelaySeconds | None = None
    next_run: Time | None = None
    type: Annotated[TypeName, Meta(description="the job moves to this type")] | None = None


class DeletedJobs(Answer):
    """How many jobs are gone: the job, and its children that never ran."""

    deleted: int


class CancelBody(Request):
    """Which jobs to cancel: `type` is a type or a GLOB pattern, such as `mail*`, and may be left out with `failure`
    (those that are tried again after that error) or `key`. `created_until_ms`: only jobs that were created before it.
    `schedules`: also those that repeat, which ends them."""

    type: TypePattern | None = None
    failure: Failure | None = None
    key: Name | None = None
    states: Annotated[list[UnfinishedName], Meta(min_length=1, max_length=5)] = field(
        default_factory=lambda: list(UNFINISHED_NAMES)
    )
    created_until_ms: TimeMs | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1000
    dry_run: bool = False
    schedules: bool = False


class DeleteBody(Request):
    """Which ended jobs to delete: `type` is a type or a GLOB pattern, and may be left out with `failure` (those whose
    last run ended with that error) or `key`. No codes: all."""

    type: TypePattern | None = None
    failure: Failure | None = None
    key: Name | None = None
    codes: Annotated[list[CodeName], Meta(min_length=1, max_length=4)] | None = None
    since_ms: TimeMs | None = None
    until_ms: TimeMs | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    dry_run: bool = False


class Changed(Answer):
    """`matched` jobs fit the filter within the limit, `changed` were cancelled or deleted; `more`: others fit, too.
    `schedules`: so many would fit, but repeat, and were left alone. `now_ms` is when the call began: a deletion with
    `until_ms` at that leaves out jobs that end meanwhile, a cancel with `created_until_ms` those that are added."""

    matched: int
    changed: int
    more: bool
    dry_run: bool
    ids: list[str]
    schedules: int = 0
    now_ms: int | None = None
    """Daemons of older versions do not say it."""


class ReplayBody(Request):
    """Which archived jobs to queue again: `type` is a type or a GLOB pattern, `failure` the error of their last run,
    `key` their key. `rate_per_s` spreads them over time, from
    now on, or following the call before if `after_ms` is its `last_due_ms`. `cursor`: of the call before, to begin
    after its jobs. `schedules`: also those that repeat, which go on with that."""

    type: TypePattern | None = None
    failure: Failure | None = None
    key: Name | None = None
    codes: Annotated[list[CodeName], Meta(min_length=1, max_length=4)] = field(
        default_factory=lambda: list(DEFAULT_REPLAY)
    )
    since_ms: TimeMs | None = None
    until_ms: TimeMs | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    rate_per_s: Annotated[float, Meta(gt=0, le=10_000)] | None = None
    after_ms: TimeMs | None = None
    cursor: Annotated[str, Meta(max_length=2000)] | None = None
    dry_run: bool = False
    schedules: bool = False


class Replayed(Answer):
    """`matched` jobs fit the filter within the limit, `replayed` of them were queued again; `more`: others fit, too.
    `now_ms` is when the call began: with `until_ms` at that, the next one leaves out jobs that fail again meanwhile."""

    matched: int
    replayed: int
    more: bool
    dry_run: bool
    last_due_ms: int | None
    ids: list[str]
    now_ms: int | None = None
    """Daemons of older versions do not say it."""
    cursor: str | None = None
    """For the next call, if there is more: it begins after these jobs, also after those that could not be queued."""
    schedules: int = 0
    """So many would match, but repeat, and were left alone."""


class QueueBody(Request):
    """The body of `POST /jobber/queue`."""

    type: TypeName
    payload: Raw


class Queued(Answer, rename={"job_id": "job-id"}):
    job_id: str


class IndexAnswer(Answer):
    """How far an indexed queue has come."""

    head: int
    processed: int
    blocked_by: int | None
