"""Jobs on the straight way, which the store does not have, as the store would show them."""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final

from store.base import Archive, Discard, Finish, Job, JobRecord, JobState, NewJob
from store.names import DONE_LOCK, DONE_OFFSET_MS
from vocabulary.columns import make_all

_NOTHING_MORE: Final = Job("", "", b"", 0, "", 0, 0, 0, 0, 0)[10:]
"""The fields of a plain job that stay as they are without being named."""


def delivered(job: NewJob, owner: str, until_ms: int) -> Job:
    """The first delivery."""
    return Job(job.id, job.jobtype, job.data, until_ms, owner, 1, 1, job.priority, job.dt_ms, job.create_ms)


def delivered_all(jobs: Sequence[NewJob], owner: str, until_ms: int) -> list[Job]:
    """The same for many. They are plain."""
    ids, jobtypes, payloads, due, created, priorities, *_ = zip(*jobs, strict=True)
    shared = [repeat(each) for each in (until_ms, owner, 1, 1)]
    return make_all(Job, ids, jobtypes, payloads, *shared, priorities, due, created, *map(repeat, _NOTHING_MORE))


def running(job: NewJob, owner: str, now_ms: int, until_ms: int) -> JobRecord:
    sent = delivered(job, owner, until_ms)
    return JobRecord(sent, JobState.RUNNING, None, now_ms, 0, len(job.data), 0, 0, 0)


def ended(job: Job, release: Archive | Discard | Finish, now_ms: int) -> JobRecord:
    """It has never had relatives."""
    outcome = release.outcome
    archived = Job._make((*job[:3], now_ms + DONE_OFFSET_MS, DONE_LOCK, *job[5:]))
    result_bytes = len(outcome.result or b"")
    return JobRecord(
        archived, JobState.ARCHIVED, outcome, outcome.started_ms, now_ms, len(job.data), result_bytes, 0, 0
    )


def never(_jobs: Iterable[Job]) -> bool:
    """Its tenant was deleted: it does not start, and if it runs its end is stale."""
    return False
