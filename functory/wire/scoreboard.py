"""The scoreboard on the wire."""

from typing import Annotated, Literal

from msgspec import Meta

from functory.tenant_limits import TenantLimits
from functory.wire.base import Answer, Request, TimeMs, TypeName


class ScoreboardQuery(Request):
    """Rates and quantiles are over the last `window_s` seconds, from the start of the minute in which these begin."""

    window_s: Annotated[int, Meta(ge=60, le=86_400)] = 3600


class Quantiles(Answer):
    p50_ms: float
    p95_ms: float
    p99_ms: float


class TypeRow(Answer):
    """Counts of now (waiting to blocked), events since the type exists (ok to cancelled), and the window's figures.
    `unasked_s`: jobs wait for a worker, and none has asked for so many seconds; null when one has lately, and for types
    that the daemons run themselves. `unreadable`: why jobs of the type wait if the daemon that answers cannot read its
    handler."""

    type: str
    paused: bool
    has_handler: bool
    waiting: int
    deferred: int
    running: int
    blocked: int
    ok: int
    failed: int
    retry: int
    error: int
    abandoned: int
    cancelled: int
    ended_per_s: float
    failed_share: float
    runner_s: float
    duration: Quantiles | None
    wait: Quantiles | None
    unasked_s: float | None = None
    unreadable: str = ""


class UsageRow(Answer):
    jobs: int
    size_bytes: int
    handlers: int


class AllowanceUsage(UsageRow):
    """And the types of which it has jobs that are not over, or that are paused."""

    types: int


class Allowance(Answer):
    """What a tenant has of what it may have. `limits`: null where the operator set none; then there is none, or the one
    that all tenants have. While a tenant is `suspended` it can only read."""

    tenant: str
    suspended: bool
    usage: AllowanceUsage
    limits: TenantLimits


class Scoreboard(Answer):
    tenant: str
    now_ms: int
    window_s: int
    usage: UsageRow
    types: list[TypeRow]


NamedTypes = Annotated[str, Meta(min_length=1, max_length=127, description="a type, or a GLOB pattern such as mail*")]


class MetricsQuery(Request):
    type: NamedTypes | None = None


class FailuresQuery(Request):
    type: NamedTypes | None = None
    since_ms: TimeMs = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class FailureRow(Answer):
    type: str
    fingerprint: str
    message: str
    runs: int
    first_ms: int
    last_ms: int
    example_id: str


class FailureList(Answer):
    failures: list[FailureRow]


class BucketsQuery(Request):
    """Buckets of the time line, oldest first: the last `count` of them, up to now."""

    width: Literal["minute", "hour", "day"] = "minute"
    count: Annotated[int, Meta(ge=1, le=1440)] = 60
    type: TypeName | None = None


class BucketRow(Answer):
    type: str
    start_ms: int
    width_ms: int
    ok: int
    failed: int
    retry: int
    error: int
    abandoned: int
    cancelled: int
    runner_s: float
    duration: Quantiles | None
    wait: Quantiles | None


class BucketList(Answer):
    buckets: list[BucketRow]
