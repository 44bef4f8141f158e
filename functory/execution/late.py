"""Jobs that waited for longer than their type allows (`max_wait_s`) are not run any more: of those that a claim has
just taken, here. Those that wait are ended by upkeep (daemon/late_jobs.py), so that they take no tokens of a domain.

They end as the store ends what waited for too long: abandoned without a run. What follows from a failure does not, and
they are kept, whatever their handler says: no handler has seen them, and they can be replayed.
"""

from collections.abc import Sequence

from functory.execution.outcomes import end_of_round
from handlers.model import Handler
from store.base import Job, Release
from store.values.jobs import ABANDONED


def part_late(jobs: Sequence[Job], handler: Handler, now_ms: int) -> tuple[Sequence[Job], Sequence[Job]]:
    """Those that may run, and those that came too late. Jobs that have run before are none of the latter: since when
    they wait is known to the store alone."""
    wait_s = handler.max_wait_s
    if wait_s is None:
        return jobs, ()
    before_ms = now_ms - wait_s * 1000
    late = [job for job in jobs if job.attempts == 1 and max(job.due_ms, job.create_ms) < before_ms]
    return ([job for job in jobs if job not in late], late) if late else (jobs, ())


def end_late(job: Job, now_ms: int) -> Release:
    return end_of_round(job, ABANDONED._replace(started_ms=now_ms), now_ms)
