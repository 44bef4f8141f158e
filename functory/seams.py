"""The seams inside the application: what the web layer may ask of the daemon that it is part of.

Protocols and values only. The web parses, calls one operation and renders; operations use the store, the journal and
these. The daemon implements them, the tests bring small ones of their own.
"""

from dataclasses import dataclass, field
from typing import Protocol

from functory.jobattributes import PLAIN, JobOptions
from handlers.model import Handler
from runner.outcome import Stopped


class Intake(Protocol):
    """From the journal to the store."""

    async def write(self, jobtype: str, lines: list[bytes], options: JobOptions = PLAIN) -> list[str]:
        """Jobs of one type, durable in the journal when it returns their ids. Raises what `Journal.write` raises."""

    async def flush(self, tenant: str = "") -> None:
        """Wait until every line that this daemon has acknowledged so far is in the store: of all, or of one tenant.

        Raises StoreUnavailable when the store cannot take them now.
        """


class Endings(Protocol):
    """Who waits for a job to end."""

    async def wait(self, job_id: str, timeout_s: float) -> bool:
        """True as soon as the job may have ended: look at it then. False when the time is up.

        Jobs that end on this daemon are heard of at once; for those of other daemons it returns True now and then.
        """


class Bench(Protocol):
    """Running a handler outside the queue."""

    async def check(self, jobtype: str, handler: Handler) -> None:
        """Parse the handler's texts in the sandbox. Raises HandlerSyntaxError, or RunnerError if it cannot be done."""

    async def invoke(self, jobtype: str, handler: Handler, payload: bytes) -> Stopped:
        """Run it once, now. Never raises for what the handler does."""

    async def retire(self, jobtype: str, handler: Handler) -> None:
        """The handler was replaced or deleted: end its idle contexts."""


@dataclass(frozen=True, slots=True)
class Health:
    """What `/healthz` and `/readyz` say."""

    is_live: bool
    is_ready: bool
    isolation: str
    problems: dict[str, str] = field(default_factory=dict)
    """A short name to what is wrong; empty when all is well."""


class Control(Protocol):
    """The daemon itself."""

    @property
    def sysid(self) -> str: ...

    @property
    def is_paused(self) -> bool: ...

    def pause(self) -> None:
        """Start no more jobs on this daemon; intake goes on."""

    def resume(self) -> None: ...

    def quit(self) -> None:
        """Stop gracefully, as SIGTERM does."""

    def health(self) -> Health: ...

    def gauges(self) -> dict[str, float]:
        """Numbers for `/metrics` and the daemons' page: names in snake case with their unit."""

    def hold(self, jobtype: str) -> str:
        """Why this daemon starts nothing of the type now, in a word of `scheduler.Hold`."""

    def languages(self) -> frozenset[str]:
        """What this daemon can run."""

    def wake(self) -> None:
        """Something may have become runnable (a handler was set, a pause ended): look again now."""
