"""The content of a store as values, for moving it to another: every record with all that makes it what it is.

What a back end keeps only for its own use (numbers of rows, lanes, marks of changes, counts that follow from the jobs)
is not part of it. Daemons are not either: none lives while a store is moved.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from store.values.alerts import AlertRecord
from store.values.consumers import ConsumerRecord
from store.values.jobs import Attempt, Job, Outcome
from store.values.positions import JournalPosition
from store.values.records import ApiKey, AuditEvent, Content, Handler, RateDomain, Secret, Tenant
from store.values.schedules import NO_SCHEDULE, Schedule
from store.values.scoreboard import Bucket, FailureGroup
from store.values.webhooks import WebhookRecord


class Part(StrEnum):
    """The kinds of records, in the order in which they are moved: names before what refers to them."""

    TENANTS = "tenants"
    KEYS = "keys"
    TYPES = "types"
    CONTENTS = "contents"
    HANDLERS = "handlers"
    CONSUMERS = "consumers"
    RATES = "rates"
    RATE_BUCKETS = "rate_buckets"
    ONCE = "once"
    SECRETS = "secrets"
    ALERTS = "alerts"
    WEBHOOKS = "webhooks"
    JOBS = "jobs"
    NUMBERS = "numbers"
    BUCKETS = "buckets"
    FAILURES = "failures"
    AUDIT = "audit"
    POSITIONS = "positions"
    DELETED = "deleted"
    SERIES = "series"


PARTS: Final = tuple(Part)


class TypeRecord(NamedTuple):
    """What is known of a jobtype beside its jobs: events counted since it exists, its indexed queue, its handler.

    handler is the version in force (0: none), last_handler the last one given. released is the last number that its
    consumer has let into the queue, None without a consumer.
    """

    jobtype: str
    paused: bool
    ok: int
    failed: int
    retry: int
    error: int
    abandoned: int
    cancelled: int
    head: int
    processed: int
    handler: int
    last_handler: int
    released: int | None = None


class RateRecord(NamedTuple):
    """A token bucket as it was at updated_ms."""

    domain: RateDomain
    tokens: float
    updated_ms: int


class RateBucketRecord(NamedTuple):
    """The token bucket of a domain that a pattern limits, as it was at updated_ms, with the limit that held then. It is
    full again at full_ms."""

    domain: RateDomain
    tokens: float
    updated_ms: int
    full_ms: int


class OnceRecord(NamedTuple):
    tenant: str
    key: str
    value: bytes
    expires_ms: int


class JobCopy(NamedTuple):
    """A job with payload, last outcome, result, log and history, and its place among its relatives.

    held: paused because its parent still runs, not because it waits for children. settled: it has a parent, and that
    parent does not wait for it any more. children counts all, pending those that this job waits for. number: see
    `number_jobs`. next_ms: when the next round of a paused job is planned, which waits for children that were replayed.
    """

    job: Job
    outcome: Outcome | None
    claimed_ms: int
    done_ms: int
    held: bool
    settled: bool
    children: int
    pending: int
    history: tuple[Attempt, ...] = ()
    number: int | None = None
    next_ms: int | None = None
    schedule: Schedule = NO_SCHEDULE


class NumberRecord(NamedTuple):
    """The last number that a job of a tenant was given."""

    tenant: str
    last: int


class AuditRecord(NamedTuple):
    """number gives the order of the log, and is kept."""

    number: int
    event: AuditEvent


class DeletedRecord(NamedTuple):
    """The id of a deleted job whose line may be read again from a journal."""

    id: str
    deleted_ms: int


class SeriesRecord(NamedTuple):
    """A number that only grows, such as that of sysids: none up to `last` may be given again."""

    name: str
    last: int


Record = (
    Tenant
    | ApiKey
    | TypeRecord
    | Content
    | Handler
    | ConsumerRecord
    | RateRecord
    | RateBucketRecord
    | OnceRecord
    | Secret
    | AlertRecord
    | WebhookRecord
    | JobCopy
    | NumberRecord
    | Bucket
    | FailureGroup
    | AuditRecord
    | JournalPosition
    | DeletedRecord
    | SeriesRecord
)

RECORD_OF: Final[dict[Part, type[Record]]] = {
    Part.TENANTS: Tenant,
    Part.KEYS: ApiKey,
    Part.TYPES: TypeRecord,
    Part.CONTENTS: Content,
    Part.HANDLERS: Handler,
    Part.CONSUMERS: ConsumerRecord,
    Part.RATES: RateRecord,
    Part.RATE_BUCKETS: RateBucketRecord,
    Part.ONCE: OnceRecord,
    Part.SECRETS: Secret,
    Part.ALERTS: AlertRecord,
    Part.WEBHOOKS: WebhookRecord,
    Part.JOBS: JobCopy,
    Part.NUMBERS: NumberRecord,
    Part.BUCKETS: Bucket,
    Part.FAILURES: FailureGroup,
    Part.AUDIT: AuditRecord,
    Part.POSITIONS: JournalPosition,
    Part.DELETED: DeletedRecord,
    Part.SERIES: SeriesRecord,
}

SYSIDS: Final = "sysids"
"""The one series there is."""


class ExportPage(NamedTuple):
    """cursor continues after the last record; None: there is nothing after it."""

    records: tuple[Record, ...]
    cursor: str | None


class ImportPlace(NamedTuple):
    """How far an import has come: what is to be exported next of its source."""

    part: Part
    cursor: str | None
