"""The log of a job, and its progress, also while it runs.

What a running job prints is in the memory of the daemon that runs it. Elsewhere the log is there when it has ended.
Ensures: who follows a log costs no memory; a follower that is too slow misses lines, and is told how many bytes they
had, or that attempts have ended meanwhile of which nothing is kept.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, Final, NamedTuple

from functory.operations.jobs import Queued, get_job, wait_for_job
from functory.operations.service import Service
from runner.log_note import gap, split
from store.base import JobRecord, JobState

_LOOK_S: Final = 0.25


class LogPart(NamedTuple):
    """text is empty when nothing was printed meanwhile; ended is the job when it is over, and nothing follows."""

    text: bytes
    ended: JobRecord | None = None


async def get_log(service: Service, tenant: str, job_id: str) -> bytes:
    """What it has printed so far if it runs here, or what is kept of its last run. Raises Missing."""
    found = await get_job(service, tenant, job_id)
    return log_of(service, tenant, found) if isinstance(found, JobRecord) else b""


def log_of(service: Service, tenant: str, found: JobRecord) -> bytes:
    """The same of a job that was just read."""
    glimpse = service.control.glimpse(tenant, found.job.id)
    if glimpse is not None:
        return glimpse.text
    return found.outcome.log if found.outcome is not None else b""


def get_progress(service: Service, tenant: str, job_id: str) -> Any:
    """What a job that runs here last said of its progress; None if it said nothing, or runs elsewhere."""
    glimpse = service.control.glimpse(tenant, job_id)
    if glimpse is None or not glimpse.progress:
        return None
    try:
        return json.loads(glimpse.progress)
    except ValueError:  # it had the value of a secret where there was no text
        return glimpse.progress.decode("utf-8", "replace")


async def follow_log(service: Service, tenant: str, job_id: str) -> AsyncGenerator[LogPart, None]:
    """The log from its beginning to the end of the job, attempt after attempt, in parts as it is printed. There is a
    part now and then even if nothing was printed. Raises Missing."""
    with service.straight.awaiting(tenant, [job_id]):
        async for part in _follow(service, tenant, job_id):
            yield part


async def _follow(service: Service, tenant: str, job_id: str) -> AsyncGenerator[LogPart, None]:
    attempt, offset = 0, 0  # the run that is shown, or comes next; 0: nothing has been looked at
    while True:
        glimpse = service.control.glimpse(tenant, job_id, offset)
        if glimpse is not None and (not attempt or glimpse.attempt == attempt) and glimpse.offset >= offset:
            attempt, offset = glimpse.attempt, glimpse.offset
            yield LogPart(glimpse.text)
            await asyncio.sleep(_LOOK_S)
            continue
        if glimpse is not None:  # another attempt, which began between two looks
            if glimpse.attempt != attempt:
                yield LogPart(_since(await get_job(service, tenant, job_id), attempt, offset))
            attempt, offset = glimpse.attempt, 0
            continue
        found = await wait_for_job(service, tenant, job_id, _LOOK_S)
        if not isinstance(found, JobRecord) or found.outcome is None or found.state is JobState.RUNNING:
            yield LogPart(b"")
        elif found.state is JobState.ARCHIVED:
            yield LogPart(_since(found, attempt, offset) if attempt else found.outcome.log, found)
            return
        else:  # it is to be tried again; who begins to follow now sees the next attempt
            yield LogPart(_since(found, attempt, offset) if attempt else b"")
            attempt, offset = found.job.attempts + 1, 0


def _since(found: JobRecord | Queued, attempt: int, offset: int) -> bytes:
    """What is kept of the runs that have ended after the first `offset` bytes of an attempt: the log of the last."""
    if not isinstance(found, JobRecord) or found.outcome is None:
        return b""
    ended, log = found.job.attempts - (found.state is JobState.RUNNING), found.outcome.log
    if ended > attempt:
        return b"[what was printed before attempt %d is not kept]\n" % ended + log
    is_new = ended == attempt or offset > 0  # the runs of a job that repeats are counted from 1 again
    return rest_of(log, offset) if is_new else b""


def rest_of(log: bytes, offset: int) -> bytes:
    """What a kept log has after the first `offset` bytes of all that was printed. It may lack its beginning."""
    if not offset:
        return log
    begins, kept = split(log)
    if begins > offset:
        return gap(begins - offset) + kept
    return kept[offset - begins :]
