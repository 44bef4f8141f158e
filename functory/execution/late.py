"""Jobs that waited for longer than they may (`max_wait_s` of their type, or their own) are not run any more: of those
that a claim has just taken, here. Those that wait are ended by upkeep (daemon/late_jobs.py) by what their type says, so
that they take no tokens of a domain. What a job says itself is looked at here alone, when it would start.

They end as the store ends what waited for too long: abandoned without a run. What follows from a failure does not, and
they are kept, whatever their handler says: no handler has seen them, and they can be replayed.
"""

from collections.abc import Sequence
from typing import Final

from functory.execution.outcomes import end_of_round
from handlers.model import Handler
from store.base import Job, Release
from store.values.jobs import ABANDONED
from vocabulary.columns import fields
from vocabulary.job_limits import limits_of

_OPTIONS: Final = fields(Job, "options")
_NEVER_MS: Final = -1
"""Nothing was due before it."""


def part_late(jobs: Sequence[Job], handler: Handler, now_ms: int) -> tuple[Sequence[Job], Sequence[Job]]:
    """Those that may run, and those that came too late. Jobs that have run before are none of the latter: since when
    they wait is known to the store alone."""
    wait_s = handler.max_wait_s
    if wait_s is None and not any(map(_OPTIONS, jobs)):
        return jobs, ()
    of_type_ms = _NEVER_MS if wait_s is None else now_ms - wait_s * 1000
    late = [
        job
        for job in jobs
        if job.attempts == 1
        and max(job.due_ms, job.create_ms) < (_before_ms(job, of_type_ms, now_ms) if job.options else of_type_ms)
    ]
    if not late:
        return jobs, ()
    late_ids = {job.id for job in late}
    return [job for job in jobs if job.id not in late_ids], late


def _before_ms(job: Job, of_type_ms: int, now_ms: int) -> int:
    """What was due before this moment is late. The shorter of two times to wait holds, so the later of two moments. A
    parent that runs again when its children have ended counts its attempts anew: its own time is for its first start.
    Children of a job that repeats may be those of an earlier round."""
    own_s = None if job.children and not job.repeat else limits_of(job.options).max_wait_s
    return of_type_ms if own_s is None else max(of_type_ms, now_ms - own_s * 1000)


def end_late(job: Job, now_ms: int) -> Release:
    return end_of_round(job, ABANDONED._replace(started_ms=now_ms), now_ms)
