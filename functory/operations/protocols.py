"""What operations ask of the daemon that they run in.

Protocols and values only. The daemon implements them; tests bring small implementations of their own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from functory.intake.job_options import PLAIN, JobOptions
from functory.workers.presence import Seen
from functory.workers.unasked import Unasked
from functory.workers.values import Delivery, Order, Report, Taken, Verdict
from handlers.model import Handler
from handlers.packages import Lock, Wanted
from journal import Settled
from runner.glimpse import Glimpse
from runner.outcome import Stopped
from runner.packages.source import Progress, Tell, nobody
from runner.secrets import GivenSecrets
from store.base import JobRecord, Secret, WaitingType


class Intake(Protocol):
    """The way into the journal, and on to the store."""

    async def write(self, jobtype: str, lines: list[bytes], options: JobOptions = PLAIN) -> list[str]:
        """Write jobs of one type. They are durable in the journal when it returns their ids.
        Raises what `Journal.write` raises."""

    def begin(self, jobtype: str, lines: list[bytes], told: Settled) -> list[str]:
        """The first half of `write`, for a few lines without options: their ids. `told` hears that they are durable,
        or why they are not. Raises what `write` raises before anything is written."""

    async def flush(self, tenant: str = "") -> None:
        """Wait until all lines acknowledged so far by this daemon are in the store: all, or those of one tenant.

        Raises StoreUnavailable when the store cannot take them now.
        """


class Waiters(Protocol):
    """Waiting for a job to end."""

    async def wait(self, job_id: str, timeout_s: float) -> bool:
        """True as soon as the job may have ended: look at it then. False when the time is up.

        It returns at once for jobs that end on this daemon, and in a moment for those of others. In case nobody tells,
        it returns True now and then.
        """

    def has_ended_elsewhere(self, job_id: str) -> bool:
        """Whether another daemon has said lately that it ended the job. Rarely it was another job; False: unknown."""


class Straight(Protocol):
    """Jobs that start before the store has them."""

    def is_here(self, job_id: str) -> bool:
        """Whether a job waits or runs on this daemon, and the store does not have it."""

    def look(self, tenant: str, job_id: str, now_ms: int) -> JobRecord | None:
        """Such a job of the tenant that runs."""

    def just_ended(self, tenant: str, job_id: str, *, also_kept: bool) -> JobRecord | None:
        """A job of the tenant that ended here a moment ago and is not kept. also_kept: or one that is, for who has
        waited for its end just now; otherwise the store knows more."""

    def awaiting(self, tenant: str, job_ids: Sequence[str]) -> AbstractContextManager[None]:
        """While this lasts, somebody waits for these: whichever ends here and is not kept can be asked for."""

    def hurry(self, jobtype: str) -> None:
        """Somebody waits for the end of a job of the type."""

    def unseen(self, tenant: str | None) -> dict[str, tuple[int, int]]:
        """By type, how many jobs of a tenant, or of all, wait and run on this daemon that the store does not have."""


class WorkerQueue(Protocol):
    """Jobs in the hands of programs elsewhere. `functory.workers.worker_queue` says what each verb does."""

    async def take(self, order: Order) -> list[Taken]: ...

    async def renew(
        self, tenant: str, deliveries: Sequence[Delivery], lease_ms: int | None = None
    ) -> list[Verdict]: ...

    async def report(
        self, tenant: str, reports: Sequence[Report], begun: Callable[[], None] | None = None
    ) -> list[Verdict]:
        """begun: called when they are on their way to the store, if they get that far."""

    async def give_back(self, tenant: str, deliveries: Sequence[Delivery], goodbye: str = "") -> list[Verdict]: ...

    def moved(self, tenant: str, delivery: Delivery) -> None: ...

    async def seen(self, tenant: str) -> list[Seen]:
        """The workers of the last hour, on all daemons."""

    def is_draining(self, tenant: str, name: str) -> bool:
        """Whether a worker was asked to take no more jobs."""

    async def drain(self, tenant: str, name: str, *, drained: bool) -> None: ...

    def holder(self, tenant: str, delivery: Delivery) -> str:
        """The name of the worker that holds what this daemon handed out; "" if that is not known."""

    def room(self, jobtype: str) -> int:
        """How many more jobs of the type this daemon may hand out."""

    async def unasked(self, waiting: Iterable[WaitingType], running: Mapping[str, int]) -> list[Unasked]:
        """Of what waits, the types that workers serve, and how long none has asked for them."""

    async def unasked_now(self) -> list[Unasked]:
        """The same of all that waits, as it was a moment ago."""

    async def unasked_of(self, tenant: str) -> list[Unasked]:
        """The same of one tenant."""


class Consumers(Protocol):
    """The consumers that the daemon leads."""

    def changed(self) -> None:
        """Consumers were made, changed, started, stopped or deleted."""

    def check(self, tenant: str, name: str) -> bool:
        """There may be new jobs for it. False if this daemon does not lead it."""


class SecretVault(Protocol):
    """The secrets of the store. `functory.vault.vault` says what each verb does."""

    def why_locked(self, tenant: str, names: tuple[str, ...]) -> str: ...

    async def put(self, blank: Secret, value: str) -> Secret: ...

    async def list_set(self, tenant: str) -> list[Secret]: ...

    async def delete(self, tenant: str, name: str, now_ms: int) -> None: ...

    async def missing(self, tenant: str, names: tuple[str, ...]) -> list[str]: ...

    async def read(self, tenant: str, names: tuple[str, ...]) -> GivenSecrets: ...


class PackageShelf(Protocol):
    """The packages of handlers on this daemon. `runner.packages.provider` says what each verb does."""

    async def lock(self, tenant: str, requirements: Wanted, *, anew: bool = False, tell: Tell = nobody) -> Lock: ...

    async def have(self, jobtype: str, lock: Lock, tell: Tell = nobody) -> object: ...

    async def known(self, tenant: str, lock: Lock) -> Progress: ...


class HandlersInForce(Protocol):
    """What the next job of a type would run."""

    async def get(self, jobtype: str) -> Handler | None:
        """None if the type has no handler. What another daemon has just changed may not be known yet. Raises
        HandlerError if it cannot be read."""


class TrialRuns(Protocol):
    """Runs a handler outside the queue."""

    async def check(self, jobtype: str, handler: Handler) -> None:
        """Parse the handler's texts in the sandbox. Raises HandlerSyntaxError, or RunnerError if it cannot be done."""

    async def invoke(self, jobtype: str, handler: Handler, payload: bytes, *, check: bool = False) -> Stopped:
        """Run it once, now. What the handler does never raises."""

    async def retire(self, jobtype: str, handler: Handler) -> None:
        """The handler was replaced or deleted: end its idle contexts."""


@dataclass(frozen=True, slots=True)
class Health:
    """What `/healthz` and `/readyz` say."""

    is_live: bool
    is_ready: bool
    isolation: str
    problems: dict[str, str] = field(default_factory=dict)
    """What is wrong, by a short name; empty when all is well."""


class Control(Protocol):
    """The daemon itself."""

    @property
    def sysid(self) -> str: ...

    @property
    def is_paused(self) -> bool: ...

    def pause(self) -> None:
        """Start no more jobs on this daemon. Intake goes on."""

    def resume(self) -> None: ...

    def quit(self) -> None:
        """Stop gracefully, as SIGTERM does."""

    def health(self) -> Health: ...

    def gauges(self) -> dict[str, float]:
        """Numbers for `/metrics` and the page of daemons. Names are in snake case and end with their unit."""

    def egress_by_tenant(self) -> dict[str, dict[str, float]]:
        """What each tenant's handlers have used of the proxy of this daemon: counts by name."""

    def unreadable(self, jobtype: str) -> str:
        """Why jobs of a type wait if this daemon cannot read its handler; "" if it can, as far as it knows."""

    def hold(self, jobtype: str) -> str:
        """Why this daemon starts nothing of the type now: a word of `scheduler.Hold`."""

    def languages(self) -> frozenset[str]:
        """Languages that this daemon runs."""

    def language_trouble(self, lang: str) -> str:
        """Why no context of a language starts here although it is installed; "" otherwise."""

    def cancel_run(self, tenant: str, job_id: str) -> bool:
        """Have a run of the tenant's job end on this daemon, if there is one. True if it was asked to stop, and ends as
        cancelled in a moment; False if it is not running here, or its turn in a batch has not come."""

    def glimpse(self, tenant: str, job_id: str, offset: int = 0) -> Glimpse | None:
        """What a job of the tenant that runs on this daemon has printed after `offset`, and its progress; None if it
        does not run here."""

    async def meet_tenant(self, name: str, created_ms: int) -> None:
        """So the store says. Nothing that this daemon knows of another tenant that had the name is used for this one.
        Raises StoreUnavailable."""

    async def tenants_changed(self) -> None:
        """A tenant was made, changed or removed: its weight and caps hold here from the next start of a job on."""

    def types_changed(self, tenant: str) -> None:
        """A handler, a pause or a rate of the tenant was changed: no job starts here by what was known before. Also
        wakes."""

    def wake(self) -> None:
        """Jobs may have become runnable (a handler was set, a pause ended): look again now."""

    # The other daemons of the store are told in a moment; `wake` and the changes above are told to them, too

    def cancelled(self, job_id: str) -> None:
        """A job was cancelled in the store: whoever waits for it looks again, and whoever runs it ends the run."""

    async def worker_left(self, tenant: str, name: str) -> None:
        """A worker has said goodbye here: whoever else handed jobs out to it gives them back."""

    def consumers_changed(self) -> None:
        """Consumers were made, changed, started, stopped or deleted."""

    def daemons_changed(self) -> None:
        """A daemon was paused or resumed in the store."""

    def keys_changed(self) -> None:
        """A key or its tenant was changed: no daemon goes by what it knew of it."""
