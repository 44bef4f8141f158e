"""How a job ended, or a run without a job: the fields of the wire, and what a caller does with them."""

from typing import Any, Self

from functory.errors import FunctoryError, JobFailed
from functory.wire import handlers, jobs
from functory.wire.base import from_wire
from functory.wire.payloads import decode


class Job(jobs.Job):
    """As docs/http-api.md has it: `id`, `state`, `code`, `exitcode`, `message`, `result`, `log`, `attempts`, ..."""

    @property
    def is_over(self) -> bool:
        return self.state == "archived"

    def check(self) -> Self:
        """The same job, if it ended well. Raises JobFailed, whose `detail` has id, code and exitcode."""
        if self.code != "ok" or not self.is_over:
            told = self.message or f"it is {self.state}"
            became = f"{self.code}: {told}" if self.code and self.is_over else told
            raise JobFailed(
                f"job {self.id} of type {self.type}: {became}",
                detail={"id": self.id, "code": self.code, "exitcode": self.exitcode},
            )
        return self

    def value(self) -> Any:
        """The result: what JSON says if it is JSON, otherwise the text, otherwise bytes. None without a result. Raises
        FunctoryError for a result that was too large to come with the job and is not kept."""
        if self.result is None and self.result_bytes:
            raise FunctoryError(f"job {self.id}: its result of {self.result_bytes} bytes is not here")
        return decode(from_wire(self.result, self.result_encoding)) if self.result else None


class Invoked(handlers.Invoked):
    """`code`, `exitcode`, `result`, `log`, and the jobs that it would have made, in `new_jobs`."""

    def check(self) -> Self:
        """The same, if it ended well. Raises JobFailed, whose `detail` has code and exitcode."""
        if self.code != "ok":
            last_line = self.result.strip().rpartition("\n")[2]  # of a traceback, what was raised
            raise JobFailed(
                f"the handler ended with {self.exitcode} ({self.code}): {last_line[:200]}",
                detail={"code": self.code, "exitcode": self.exitcode},
            )
        return self

    def value(self) -> Any:
        """As that of a job."""
        return decode(from_wire(self.result, self.result_encoding)) if self.result else None
