"""The store's protocol: what every back end does, in the words of the domain.

For all verbs:
- Asynchronous; no verb blocks the event loop. Any number may be under way at once on one object.
- Time comes in as now_ms (UTC milliseconds). A back end never reads a clock to decide anything.
- A verb that writes returns when the change is durable (a power cut does not undo it), and reads made after
  that see it, from this object. Other processes on the same database see it at their next call.
- Cancelling the caller does not undo a write that was handed to the database: it happens, or it does not.
- Raises StoreClosed outside open and close, StoreUnavailable when the database cannot be reached (retryable:
  the change may or may not have happened; verbs marked idempotent may simply be repeated), StoreCorrupt, and
  InvalidValue, before anything is changed, for arguments outside the protocol.
- Names and values are hostile: any bytes in data and results, any text in options, info, details and labels
  that is not a lone surrogate, including NUL, quotes, '$' and '.'.
- Verbs with a tenant touch that tenant's data only; a jobtype must belong to it (InvalidValue).

Policy (which type, when to retry, when to repeat, how many attempts) is the callers'; the store makes the change of
state atomic and keeps the counts. docs/store.md explains the model; tests/contract/store is its proof.
"""

import abc
from pathlib import Path
from types import TracebackType
from typing import Self

from store.protocol.activity import Activity
from store.protocol.alerts import AlertShelf
from store.protocol.consumers import ConsumerShelf
from store.protocol.contents import ContentShelf
from store.protocol.daemons import DaemonRegister
from store.protocol.handlers import HandlerShelf
from store.protocol.jobs import JobVerbs
from store.protocol.maintenance import StoreMaintenance
from store.protocol.notes import NoteBoard
from store.protocol.queue import JobQueue
from store.protocol.scoreboard import Scoreboard
from store.protocol.secrets import SecretShelf
from store.protocol.straight import StraightVerbs
from store.protocol.tenants import TenantRegister
from store.protocol.transfer import StoreTransfer
from store.protocol.webhooks import WebhookShelf
from store.values.again import Binding
from store.values.alerts import AlertRecord
from store.values.claims import ClaimedJobs
from store.values.consumers import (
    MAX_WINDOW,
    ConsumerRecord,
    EndReport,
    HoldReport,
    IndexEnd,
    WindowMove,
    WindowReport,
)
from store.values.histogram import Histogram
from store.values.job_changes import JobChange, Pause, Timing
from store.values.jobs import (
    AddReport,
    Archive,
    Attempt,
    CreateReport,
    Creation,
    Discard,
    EndOfRun,
    ExpireReport,
    Finish,
    IndexState,
    Job,
    JobFilter,
    JobPage,
    JobRecord,
    KeyState,
    Lease,
    NewJob,
    Outcome,
    Rearm,
    Release,
    ReleaseReport,
    RenewReport,
    Retry,
    TypeGate,
    Unclaim,
    WaitingType,
    state_of,
    with_attempt,
)
from store.values.making import MakingEnd
from store.values.positions import JournalPosition
from store.values.records import (
    ApiKey,
    AuditEvent,
    AuditPage,
    Content,
    ContentSummary,
    Daemon,
    DeleteReport,
    Handler,
    HandlerSummary,
    NewHandler,
    RateDomain,
    RateState,
    Secret,
    Tenant,
)
from store.values.schedules import NO_SCHEDULE, Round, Schedule
from store.values.scoreboard import RESOLUTIONS, Bucket, EndedSum, FailureGroup, TypeCounters, Usage
from store.values.version import StoreVersion
from store.values.webhooks import WebhookRecord
from vocabulary.states import FINAL_CODES, Code, JobState

__all__ = [
    "FINAL_CODES",
    "MAX_WINDOW",
    "NO_SCHEDULE",
    "RESOLUTIONS",
    "AddReport",
    "AlertRecord",
    "ApiKey",
    "Archive",
    "Attempt",
    "AuditEvent",
    "AuditPage",
    "Binding",
    "Bucket",
    "ClaimedJobs",
    "Code",
    "ConsumerRecord",
    "Content",
    "ContentSummary",
    "CreateReport",
    "Creation",
    "Daemon",
    "DeleteReport",
    "Discard",
    "EndOfRun",
    "EndReport",
    "EndedSum",
    "ExpireReport",
    "FailureGroup",
    "Finish",
    "Handler",
    "HandlerSummary",
    "Histogram",
    "HoldReport",
    "IndexEnd",
    "IndexState",
    "Job",
    "JobChange",
    "JobFilter",
    "JobPage",
    "JobRecord",
    "JobState",
    "JournalPosition",
    "KeyState",
    "Lease",
    "MakingEnd",
    "NewHandler",
    "NewJob",
    "Outcome",
    "Pause",
    "RateDomain",
    "RateState",
    "Rearm",
    "Release",
    "ReleaseReport",
    "RenewReport",
    "Retry",
    "Round",
    "Schedule",
    "Secret",
    "Store",
    "StoreVersion",
    "Tenant",
    "Timing",
    "TypeCounters",
    "TypeGate",
    "Unclaim",
    "Usage",
    "WaitingType",
    "WebhookRecord",
    "WindowMove",
    "WindowReport",
    "state_of",
    "with_attempt",
]


class Store(
    JobQueue,
    StraightVerbs,
    JobVerbs,
    ConsumerShelf,
    HandlerShelf,
    ContentShelf,
    Scoreboard,
    Activity,
    DaemonRegister,
    TenantRegister,
    SecretShelf,
    AlertShelf,
    WebhookShelf,
    NoteBoard,
    StoreMaintenance,
    StoreTransfer,
    abc.ABC,
):
    """All roles of the store on one database, and its life: `async with open_store(url) as store: ...`."""

    @abc.abstractmethod
    async def open(self) -> None:
        """Connect, check versions, create or migrate what is missing. Opening an open store changes nothing.

        Raises SchemaTooNew, UnsupportedStore, StoreUnavailable, StoreCorrupt; the object can then be closed
        or opened again.
        """

    @abc.abstractmethod
    async def close(self) -> None:
        """Let writes that were accepted finish, then let go of everything. Idempotent, and legal before open."""

    @abc.abstractmethod
    def at(self, path: Path) -> "Store":
        """The store of the same kind in another file, not open. Raises UnsupportedStore where there are no files."""

    @abc.abstractmethod
    async def ping(self) -> None:
        """Return if the database can be reached now; raises as any verb does."""

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
