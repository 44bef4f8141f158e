"""Refusals that every back end makes alike, once it has read what they are about."""

from store.errors import Conflict
from store.values.jobs import NewJob


def check_holder(job: NewJob, holder_id: str, parent: str, *, is_running: bool) -> None:
    """Whether `job` may replace what a live job with its unique name is to do. Raises Conflict."""
    if parent != job.parent:
        whose = f"a child of job {parent}" if parent else "not a child of any job"
        raise Conflict(
            f"the unique name {job.unique!r} is taken by job {holder_id}, which is {whose}: choose another name"
        )
    if is_running:
        raise Conflict(
            f"the unique name {job.unique!r} is taken by job {holder_id}, which is running with its payload:"
            " add the job when it has ended"
        )
