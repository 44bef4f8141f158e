"""Chaining by option: the result of a job becomes the payload of a job of another type, without code. Pure.

A handler names the type that gets the result of jobs that ended ok (`then`), and the one that gets that of jobs that
failed or were abandoned (`on_failure`). A run that made children passes nothing on: it runs again when they have ended.
Each link is counted in the options of the new job; a chain of more than MOST_LINKS is refused (wishes.py), so that
types which name each other do not go on for ever.
"""

import json
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from handlers.model import Handler
from runner.protocol import NewJob
from store.base import Archive, Code, Job, Rearm, Release

MOST_LINKS: Final = 100
_MARK: Final = '"chain":'
_FAILED: Final = frozenset({Code.FAILED, Code.ABANDONED})


class Chain(NamedTuple):
    """The types to which a type passes results on; empty: to none."""

    then: str = ""
    on_failure: str = ""


NO_CHAIN: Final = Chain()


def chain_of(handler: Handler) -> Chain:
    if not handler.then and not handler.on_failure:
        return NO_CHAIN
    return Chain(handler.then, handler.on_failure)


def passed_on(chain: Chain, job: Job, release: Release, new_jobs: tuple[NewJob, ...]) -> tuple[NewJob, ...]:
    """The new jobs of a run that is over, with the one that gets its result."""
    if chain is NO_CHAIN or not isinstance(release, Archive | Rearm) or _has_child(new_jobs):
        return new_jobs
    code = release.outcome.code
    target = chain.then if code is Code.OK else chain.on_failure if code in _FAILED else ""
    if not target:
        return new_jobs
    return (*new_jobs, NewJob(target, release.outcome.result or b"", links=links_of(job) + 1))


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
