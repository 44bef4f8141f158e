"""What a consumer works with: a source of jobs by index, a worker, and a place for its progress.

Each is a protocol: any object with these methods will do. docs/consumers.md has examples.
"""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Job(Generic[T_co]):
    """What is at an index. data is whatever the source has there: the worker knows what to do with it."""

    index: int
    data: T_co


class Jobs(Protocol[T_co]):
    """Finds jobs by index. There is no producer: indexes are counted from 1 without a hole, and the head grows."""

    async def head(self) -> int:
        """The last index that has a job; below the first index if there is none."""

    async def at_index(self, index: int) -> Job[T_co] | None:
        """The job at an index up to the head. Always the same for the same index. None: not there yet, ask again at
        the next look."""


class ConsumerProgress(Protocol):
    """Keeps the last index below which everything is done."""

    async def processed_index(self) -> int | None:
        """None if nothing was ever kept."""

    async def set_processed_index(self, index: int) -> None:
        """Returns when it is durable: what a crash leaves of it decides where the next start begins."""


class Notified(Protocol):
    """Who a worker reports to."""

    def notify_job_is_done(self, index: int) -> None:
        """The job at this index is done, and need never be done again."""


class Worker(Protocol[T_contra]):
    """Works on jobs, several at a time."""

    def run(self, job: Job[T_contra], consumer: Notified) -> Coroutine[Any, Any, None] | None:
        """Do the job, and call `consumer.notify_job_is_done(job.index)` when it is done, now or later.

        A coroutine runs beside the others; a plain function only hands the job on and returns at once. A job may come
        again after a crash, so it must do no harm twice. A job cannot fail: the worker tries again by itself, or lets
        the exception out, which ends the consumer and keeps the index for the next start.
        """
