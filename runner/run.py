"""One call of `run_jobs`: which of its jobs have not stopped or were cancelled, and whether the caller's ear failed.

Ensures: a job that is cancelled before it has stopped is reported as cancelled, whatever it says itself.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final

from handlers.model import Handler
from runner import outcome
from runner.batch import OnStopped
from runner.glimpse import Glimpse
from runner.launch import Level
from runner.outcome import Stopped
from runner.protocol import BatchJob
from vocabulary.names import tenant_of

_ID_AND_ATTEMPTS: Final = attrgetter("id", "attempts")


class Run:
    __slots__ = (
        "cancelled",
        "error",
        "handler",
        "ids",
        "incarnation",
        "jobtype",
        "may_start",
        "on_stopped",
        "peek",
        "stop",
        "tenant",
    )

    def __init__(
        self,
        jobtype: str,
        handler: Handler,
        on_stopped: OnStopped,
        may_start: Callable[[], bool],
        jobs: Sequence[BatchJob],
        incarnation: int,
    ) -> None:
        self.incarnation = incarnation
        self.may_start = may_start
        self.jobtype = jobtype
        self.tenant = tenant_of(jobtype)
        self.handler = handler
        self.on_stopped = on_stopped
        self.ids: dict[str, int] = dict(map(_ID_AND_ATTEMPTS, jobs))
        self.error: Exception | None = None
        self.cancelled: set[str] = set()
        self.stop: Callable[[str], bool] | None = None
        """While a part of it is run: asks a job that was cancelled to stop. False if that is not the running one."""
        self.peek: Callable[[str, int], Glimpse | None] | None = None
        """While a part of it runs in a context: looks at a job there; None if that is not the running one."""

    def glimpse(self, job_id: str, offset: int) -> Glimpse:
        seen = (self.peek and self.peek(job_id, offset)) or Glimpse(offset=offset)
        return seen._replace(attempt=self.ids[job_id])

    def cancel(self, job_id: str) -> bool:
        self.cancelled.add(job_id)
        return self.stop is not None and self.stop(job_id)

    def is_all_cancelled(self, batch: Sequence[BatchJob]) -> bool:
        """All that have not stopped, and there are some."""
        left = [job.id for job in batch if job.id in self.ids]
        return bool(left) and self.cancelled.issuperset(left)

    def without_cancelled(self, batch: Sequence[BatchJob], level: Level) -> Sequence[BatchJob]:
        """Those that are to run; the others stop here."""
        if not self.cancelled:
            return batch
        unrun = [job for job in batch if job.id in self.cancelled and job.id in self.ids]
        self.stopped([Stopped(job.id, "cancelled", outcome.CANCELLED, b"", b"", 0.0, (), level) for job in unrun])
        return [job for job in batch if job.id not in self.cancelled]

    def stopped(self, stopped: Sequence[Stopped]) -> None:
        if self.cancelled:
            stopped = [
                outcome.cancelled(one, b"cancelled") if one.id in self.cancelled and one.code != "cancelled" else one
                for one in stopped
            ]
        pop = self.ids.pop
        for one in stopped:
            pop(one.id, None)
        try:
            self.on_stopped(stopped)
        except Exception as err:  # noqa: BLE001  the caller's error is the caller's: raised from run_jobs, at its end
            self.error = self.error or err
