"""What operations work with: the parts of the daemon, their settings, and a little memory."""

from asyncio import Semaphore
from collections.abc import Callable
from dataclasses import dataclass, field

from functory.intake.accepted_batches import AcceptedBatches
from functory.intake.admission import Admission
from functory.loops.tenant_turns import TenantTurns
from functory.operations.known_webhooks import KnownWebhooks
from functory.operations.protocols import (
    Consumers,
    Control,
    HandlersInForce,
    Intake,
    PackageShelf,
    SecretVault,
    Straight,
    TrialRuns,
    Waiters,
    WorkerQueue,
)
from functory.operations.recent_consumers import RecentConsumers
from functory.operations.recent_waiting import RecentWaiting
from functory.operations.verified_keys import VerifiedKeys
from functory.webhooks.arrivals import Arrivals
from handlers.folders.limits import FolderLimits
from journal import Journal
from runner.targets import Targets
from store.base import Store
from store.errors import StoreUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSettings:
    flush_timeout_s: float = 2.0
    """How long a look at a job waits for the journal's lines to reach the store."""
    max_created: int = 1000
    """Jobs with a unique name or a parent in one body. They hold the store's writer for as long as they take."""
    targets: Targets = field(default_factory=Targets)
    """What handlers may list in `hosts`."""
    folders: FolderLimits = field(default_factory=FolderLimits)
    """How much of a folder is taken as a handler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    store: Store
    journal: Journal
    intake: Intake
    admission: Admission
    waiters: Waiters
    handlers: HandlersInForce
    trial_runs: TrialRuns
    control: Control
    now_ms: Callable[[], int]
    straight: Straight
    workers: WorkerQueue
    consumers: Consumers
    vault: SecretVault
    packages: PackageShelf
    arrivals: Arrivals
    settings: OperationSettings = field(default_factory=OperationSettings)
    accepted: AcceptedBatches = field(default_factory=AcceptedBatches)
    verified_keys: VerifiedKeys = field(default_factory=VerifiedKeys)
    known_webhooks: KnownWebhooks = field(default_factory=KnownWebhooks)
    recent_consumers: RecentConsumers = field(default_factory=RecentConsumers)
    recent_waiting: RecentWaiting = field(default_factory=RecentWaiting)
    folder_turns: TenantTurns = field(default_factory=lambda: TenantTurns(Semaphore(2), of_one=1))
    """For archives that are being read: each keeps a thread busy."""
    search_turns: TenantTurns = field(default_factory=lambda: TenantTurns(Semaphore(2), of_one=1))
    """For searches, which read many jobs: the store has few readers."""
    bulk_turns: TenantTurns = field(default_factory=lambda: TenantTurns(Semaphore(16), 1, (StoreUnavailable,)))
    """For who cancels, deletes or replays many jobs: each of these is many reads or writes of the store."""
    create_turns: TenantTurns = field(default_factory=lambda: TenantTurns(Semaphore(4), of_one=2))
    """For jobs that are created together, in one write: others wait for it."""
    count_turns: TenantTurns = field(default_factory=lambda: TenantTurns(Semaphore(16), of_one=1))
    """For who makes what a tenant may have so many of: nobody makes another between the count and the write."""
