"""What operations work with: the parts of the daemon, their settings, and the little that is kept in memory."""

from collections.abc import Callable
from dataclasses import dataclass, field

from functory.operations.accepted import Accepted
from functory.operations.quotas import Quotas
from functory.seams import Bench, Control, Endings, Intake
from functory.wire.admin import TenantLimits
from journal import Journal
from store.base import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSettings:
    idempotency_life_s: float = 86_400.0
    """For how long a repeated request with the same idempotency key is recognised."""
    flush_timeout_s: float = 2.0
    """How long a look at a job waits for the journal's lines to reach the store."""
    max_option_sets: int = 1000
    """Different sets of options in one body: each is a batch of the journal."""
    default_limits: TenantLimits = field(default_factory=TenantLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    store: Store
    journal: Journal
    intake: Intake
    endings: Endings
    bench: Bench
    control: Control
    now_ms: Callable[[], int]
    settings: OperationSettings = field(default_factory=OperationSettings)
    accepted: Accepted = field(default_factory=Accepted)
    quotas: Quotas = field(default_factory=Quotas)
