"""How many jobs go to a context in one message."""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from runner.protocol import BatchJob

MOST_JOBS: Final = 2000
_MOST_BYTES: Final = 8 << 20
_DATA: Final = attrgetter("data")


def messages(jobs: Sequence[BatchJob], max_jobs: int) -> Iterable[Sequence[BatchJob]]:
    """Batches that fit one message: bounded in number and, unless a single job is bigger, in bytes."""
    if len(jobs) <= max_jobs and sum(map(len, map(_DATA, jobs))) <= _MOST_BYTES:
        return (jobs,) if jobs else ()
    return _parts(jobs, max_jobs)


def _parts(jobs: Sequence[BatchJob], max_jobs: int) -> Iterator[Sequence[BatchJob]]:
    start = size_bytes = 0
    for at, job in enumerate(jobs):
        size_bytes += len(job.data)
        if at > start and (at - start >= max_jobs or size_bytes > _MOST_BYTES):
            yield jobs[start:at]
            start, size_bytes = at, len(job.data)
    if start < len(jobs):
        yield jobs[start:]
