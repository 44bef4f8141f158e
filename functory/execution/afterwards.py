"""What follows from the end of a job besides its outcome, as its handler says: who gets its result, and whether the job
is kept. Pure.

`then` names the type that gets the result of jobs that ended ok as its payload, `on_failure` the one that gets that of
jobs that failed or were abandoned: a chain without code. A run that is ok and made children passes nothing on: it runs
again when they have ended. The new job is told which job it follows. Each link is counted in its options; a chain of
more than MOST_LINKS is refused (wishes.py), so that types which name each other do not go on for ever.

`keep` says which ended jobs are kept: all, only those that failed or were abandoned, or none. The others are counted
and removed at once.
"""

import json
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from handlers.model import KEEP_ALL, KEEP_FAILED, Handler
from store.base import Archive, Code, Discard, Finish, Job, Rearm, Release
from vocabulary.names import type_of
from vocabulary.new_job import NewJob
from vocabulary.origin import Origin

MOST_LINKS: Final = 100
_MARK: Final = '"chain":'
_FAILED: Final = frozenset({Code.FAILED, Code.ABANDONED})


class Afterwards(NamedTuple):
    """What a handler says; empty: its results are passed on to no type."""

    then: str = ""
    on_failure: str = ""
    keep: str = KEEP_ALL


NOTHING_MORE: Final = Afterwards()


def afterwards_of(handler: Handler) -> Afterwards:
    if not handler.then and not handler.on_failure and handler.keep == KEEP_ALL:
        return NOTHING_MORE
    return Afterwards(handler.then, handler.on_failure, handler.keep)


def passed_on(afterwards: Afterwards, job: Job, release: Release, new_jobs: tuple[NewJob, ...]) -> tuple[NewJob, ...]:
    """The new jobs of a run that is over, with the one that gets its result."""
    if afterwards is NOTHING_MORE or not isinstance(release, Archive | Discard | Finish | Rearm):
        return new_jobs
    code = release.outcome.code
    target = afterwards.on_failure if code in _FAILED else ""
    if code is Code.OK and not _has_child(new_jobs):
        target = afterwards.then
    if not target:
        return new_jobs
    origin = Origin(job.id, type_of(job.jobtype), code)
    return (*new_jobs, NewJob(target, release.outcome.result or b"", links=links_of(job) + 1, follows=origin))


def kept(afterwards: Afterwards, job: Job, release: Release, new_jobs: tuple[NewJob, ...]) -> Release:
    """The release, or that of a job of which nothing is kept. Jobs that others look for are kept: children, parents and
    those with a number. So are jobs that were cancelled."""
    if afterwards.keep == KEEP_ALL or not isinstance(release, Archive | Finish):
        return release
    if job.parent or job.children or job.seq is not None or _has_child(new_jobs):
        return release
    code = release.outcome.code
    if code is Code.OK or (code in _FAILED and afterwards.keep != KEEP_FAILED):
        return Discard(release.id, release.token, release.outcome)
    return release


def links_of(job: Job) -> int:
    """How many results were passed on in a row to get to this job."""
    if _MARK not in job.options:
        return 0
    try:
        links = json.loads(job.options)["chain"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0
    return links if type(links) is int and 0 <= links <= MOST_LINKS else 0


def options_of(links: int) -> str:
    """Of a job that a result was passed on to."""
    return f"{{{_MARK}{links}}}" if links else ""


def _has_child(new_jobs: tuple[NewJob, ...]) -> bool:
    return any(dict(parse_qsl(new.options)).get("child") in {"1", "true"} for new in new_jobs if new.options)
