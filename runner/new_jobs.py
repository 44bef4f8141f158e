"""The jobs that one job makes, within the limits of their number, of each, and of all together.

Ensures: what is taken in stays within the limits. The first that does not fit empties it for good, and `too_much` says
which limit it was: such a job has failed, and makes no new jobs.
"""

from collections.abc import Iterable

from runner.limits import ContextLimits
from vocabulary.new_job import NewJob


class NewJobs:
    def __init__(self, limits: ContextLimits) -> None:
        self._limits = limits
        self._taken: list[NewJob] = []
        self._size_bytes = 0
        self.too_much = ""

    def add(self, new: NewJob) -> None:
        limits = self._limits
        size_bytes = len(new.type) + len(new.options) + 1 + len(new.payload)
        self._size_bytes += size_bytes
        if size_bytes > limits.new_job_bytes:
            self.refuse(f"made a new job of more than {limits.new_job_bytes} bytes")
        elif len(self._taken) >= limits.new_jobs:
            self.refuse(f"made more than {limits.new_jobs} new jobs")
        elif self._size_bytes > limits.new_jobs_bytes:
            self.refuse(f"made new jobs of more than {limits.new_jobs_bytes} bytes together")
        elif not self.too_much:
            self._taken.append(new)

    def add_all(self, new_jobs: Iterable[NewJob]) -> None:
        for new in new_jobs:
            self.add(new)

    def refuse(self, why: str) -> None:
        """A limit was passed. The first reason is kept."""
        self.too_much = self.too_much or why
        self._taken.clear()

    def taken(self) -> tuple[NewJob, ...]:
        return tuple(self._taken)
