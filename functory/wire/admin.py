"""What the operator sends and sees: tenants, keys, rate domains, daemons, the audit log."""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from functory.tenant_limits import TenantLimits
from functory.wire.base import Answer, Count, Limit, Request, TenantName
from functory.wire.scopes import Scope
from functory.wire.scoreboard import UsageRow
from vocabulary.token_bucket import MIN_RATE_PER_S


class LimitsBody(TenantLimits, frozen=True, forbid_unknown_fields=True):
    """Quotas of a tenant, as they are given: with bounds, and strict as every request. None: no limit, or what the
    service does for all."""

    max_jobs: Count | None = None
    max_bytes: Count | None = None
    max_handlers: Count | None = None
    max_types: (
        Annotated[int, Meta(ge=1, le=1 << 31, description="types with jobs that are not over, or that are paused")]
        | None
    ) = None
    max_running: Annotated[int, Meta(ge=1, le=1 << 31)] | None = None
    max_running_per_type: Annotated[int, Meta(ge=1, le=1 << 31)] | None = None
    requests_per_s: Annotated[float, Meta(gt=0, le=1e6)] | None = None
    requests_burst: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    network: Annotated[bool, Meta(description="its handlers may ask for the network")] | None = None
    hosts: (
        Annotated[str, Meta(max_length=2000, description="hosts that its handlers may list, of those allowed to all")]
        | None
    ) = None
    max_package_bytes: Annotated[int, Meta(ge=0, le=1 << 50, description="its packages, on each daemon")] | None = None


class NewTenant(Request):
    name: TenantName
    weight: Annotated[int, Meta(ge=1, le=1000)] = 1
    limits: LimitsBody = LimitsBody()


class TenantChange(Request):
    """What is left out stays; `limits` replaces all limits at once."""

    weight: Annotated[int, Meta(ge=1, le=1000)] | None = None
    limits: LimitsBody | None = None
    suspended: bool | None = None


class Tenant(Answer):
    name: str
    created_ms: int
    weight: int
    limits: TenantLimits
    suspended: bool
    deleting: bool


class TenantWithUsage(Tenant):
    """And what it has stored."""

    usage: UsageRow


class TenantList(Answer):
    tenants: list[Tenant]


class DeleteQuery(Request):
    """`only_deleting`: go on with a deletion that has begun. A tenant that nobody deletes is left alone."""

    only_deleting: bool = False


class Deleted(Answer):
    """`removed` records so far; call again while `more`, with `only_deleting`."""

    removed: int
    more: bool


class NewKey(Request):
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=8)] | None = None
    label: Annotated[str, Meta(max_length=100)] = ""
    expires_s: Annotated[int, Meta(ge=1, le=3_155_760_000, description="from now; never when left out")] | None = None


class RotateBody(Request):
    """The old key goes on working for `overlap_s`."""

    overlap_s: Annotated[int, Meta(ge=0, le=31_557_600)] = 86_400
    expires_s: (
        Annotated[int, Meta(ge=1, le=3_155_760_000, description="from now; as long as the old one when left out")]
        | None
    ) = None


class Key(Answer):
    id: str
    tenant: str
    scopes: list[str]
    created_ms: int
    expires_ms: int | None
    label: str


class KeyWithSecret(Key):
    """The only answer that ever holds the secret: it is not stored."""

    key: str


class KeyList(Answer):
    keys: list[Key]


class RateBody(Request):
    rate_per_s: Annotated[float, Meta(ge=MIN_RATE_PER_S, le=1e6)]
    burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 1


class RateRow(Answer):
    domain: str
    rate_per_s: float
    burst: int
    tokens: float
    next_ms: int
    is_pattern: Annotated[bool, Meta(description="each domain that it matches has its own tokens")] = False


class DomainRate(Answer):
    """What holds for one rate domain: `limit` is the name or the pattern that it was set on. Without a token the next
    comes at `next_ms`."""

    domain: str
    limit: str
    rate_per_s: float
    burst: int
    tokens: float
    next_ms: int


class RateList(Answer):
    domains: list[RateRow]


class Daemon(Answer):
    sysid: str
    reserved_ms: int
    until_ms: int
    paused: bool
    info: Any


class DaemonList(Answer):
    daemons: list[Daemon]


class AuditQuery(Request):
    tenant: TenantName | None = None
    cursor: Annotated[str, Meta(max_length=2000)] | None = None
    limit: Limit = 100


class AuditRow(Answer):
    at_ms: int
    actor: str
    action: str
    tenant: str
    detail: str


class AuditPage(Answer):
    events: list[AuditRow]
    cursor: str | None


class HealthAnswer(Answer):
    """`problems` names what is wrong; the operator's `/admin/health` says it in words."""

    status: Literal["ok", "failing"]
    problems: list[str] = field(default_factory=list)


class ConsumerLeader(Answer):
    """Which daemon leads a consumer: None if none does now, or it is stopped."""

    tenant: str
    name: str
    leader: str | None
    until_ms: int | None


class UnaskedType(Answer):
    """Jobs of a type wait for workers, and none has asked for them; `text` says it in words."""

    tenant: str
    type: str
    waiting: int
    seconds: float
    text: str


class HealthDetail(Answer):
    """`unasked`: at most 100, no worker having asked for more than ten minutes. A matter of tenants, so none of the
    daemon's `problems`."""

    is_live: bool
    is_ready: bool
    is_paused: bool
    sysid: str
    isolation: str
    problems: dict[str, str]
    languages: list[str]
    gauges: dict[str, float]
    consumers: list[ConsumerLeader] = field(default_factory=list)
    unasked: list[UnaskedType] = field(default_factory=list)


class AddByNameQuery(Request):
    """Query of `POST /add`: `client` is the tenant, which only the operator may choose."""

    jobtype: Annotated[str, Meta(max_length=160)]
    client: TenantName | None = None
