"""What an ending is, on its way from the runner to the store, and which errors are the word on one of them."""

from collections.abc import Sequence
from typing import Any, Final

from functory.errors import InvalidInput, QuotaExceeded
from functory.execution.wishes import Wish
from journal import InvalidWrite
from store.base import Archive, Discard, Finish, Job, Release
from store.errors import Conflict, NotFound
from vocabulary.new_job import NewJob as WantedJob

Ending = tuple[Job, Release, tuple[WantedJob, ...]]
"""One delivery that is over: the job, what becomes of it, and the jobs that it asked for."""
Admitted = tuple[Job, Release, Sequence[Wish]]
"""The same, and its new jobs may be made."""
Recorded = tuple[Job, Release, Any]
"""One that the store has. What it asked for does not matter any more."""

REFUSED: Final = (InvalidInput, InvalidWrite, QuotaExceeded, Conflict, NotFound, ValueError, TypeError, OverflowError)
"""What is said of a value, and would be said of it again. InvalidValue of the store is a ValueError. Conflict and
NotFound are about the parent or the name of a new job."""


def is_plain_end(ending: Ending) -> bool:
    """Whether it is over with that, and no other job waited for it. Of what it asked for others tell."""
    job, release, _ = ending
    return isinstance(release, Archive | Discard | Finish) and not job.parent and job.seq is None
