"""What a worker asks for, what it says of a job that it holds, and what it is told about that."""

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from vocabulary.new_job import NewJob

if TYPE_CHECKING:  # a program with a queue far away has no store
    from store.base import Job

OWNER: Final = "workers"
"""The lock of every job that a worker holds. One for all daemons, so that any of them can renew and release it, also
after the one that handed it out was restarted. It reads like a sysid, and no store will ever count that far."""


class Worker(NamedTuple):
    """What a worker says of itself. Only the name counts; the rest is shown."""

    name: str = ""
    host: str = ""
    version: str = ""
    capacity: int = 1


class Order(NamedTuple):
    """What a worker asks for. patterns are types or GLOB patterns of types; lease_ms None: as the type says."""

    tenant: str
    patterns: tuple[str, ...]
    limit: int = 1
    wait_s: float = 0.0
    lease_ms: int | None = None
    worker: Worker = Worker()
    is_present: Callable[[], bool] = lambda: True
    """Whether somebody still listens: jobs are not handed to a connection that is closed."""
    tenant_since_ms: int = 0
    """When the worker's tenant was created: it gets no job of a later one of that name. 0: of whoever has the name."""


class Delivery(NamedTuple):
    """Which delivery of which job. token None: the one that a worker holds now, whichever that is."""

    id: str
    token: int | None


class Report(NamedTuple):
    """What a worker says of a job. exitcode None: it goes on working. progress is JSON."""

    delivery: Delivery
    exitcode: int | None = None
    result: bytes = b""
    log: bytes = b""
    progress: bytes | None = None
    new_jobs: tuple[NewJob, ...] = ()
    retry_after_ms: int | None = None
    carried: bytes | None = None
    """The payload of its next attempt or round."""
    in_window: bool = True
    """Whether the next attempt that it asks for must be within the retry window of its type."""


class Answer(StrEnum):
    """What became of a renewal, a report or a job given back."""

    OK = "ok"
    LATE = "late"
    """The delivery is over: another worker may have the job. Nothing was changed."""
    UNKNOWN = "unknown"
    """The tenant has no such job."""
    FIXED = "fixed"
    """The lease holds, and is one that cannot be renewed."""
    TIMED_OUT = "timed_out"
    """The job has been held for as long as its type allows. It is not renewed any more."""
    REFUSED = "refused"
    """What the job left behind cannot be stored: it has failed, and the message says why. Or the report itself makes no
    sense (INVALID): then nothing was recorded, and the worker still holds the job."""


INVALID: Final = 422
"""The status of a report that makes no sense."""


class Verdict(NamedTuple):
    id: str
    answer: Answer
    until_ms: int | None = None
    """When the lease lapses, of a job that is still held."""
    code: str = ""
    """What is recorded as the outcome: ok, failed, retry, error, abandoned; empty if nothing is."""
    message: str = ""
    status: int | None = None
    """Of a refusal: the exit code with which the job has failed, or INVALID."""


class Taken(NamedTuple):
    """A job in a worker's hands, until job.dt_ms unless it is renewed."""

    job: "Job"
    timeout_ms: int | None
    """How long it can be held, with all renewals."""
