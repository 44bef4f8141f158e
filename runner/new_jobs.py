"""The jobs that one job makes, within the limits of their number, of each, and of all together; and all that it left.

Ensures: what is taken in stays within the limits. The first that does not fit empties it for good, and `too_much` says
which limit it was: such a job has failed, and makes no new jobs.
"""

from collections.abc import Iterable

from runner import protocol
from runner.errors import ProtocolError
from runner.limits import ContextLimits
from runner.protocol import Detail
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


def detail_within(body: bytes, limits: ContextLimits) -> Detail:
    """What a job left, from its reply. Raises ProtocolError past the limits: an honest child has kept to them itself,
    with kinder words."""
    if not body:
        return protocol.NO_DETAIL
    detail = protocol.parse_detail(body, max_new_jobs=limits.new_jobs)
    if len(detail.result) > limits.result_bytes:
        raise ProtocolError(f"sent a result of {len(detail.result)} bytes")
    if detail.carried is not None and len(detail.carried) > limits.new_job_bytes:
        raise ProtocolError(f"carried {len(detail.carried)} bytes on")
    new_jobs = NewJobs(limits)
    new_jobs.add_all(detail.new_jobs)
    if new_jobs.too_much:
        raise ProtocolError(new_jobs.too_much)
    return detail
