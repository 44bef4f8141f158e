"""Jobs that are looked for: by unique name, by key, by failure.

A failure is a group of `scoreboard.failures`, by its fingerprint. Its jobs are those whose last run ended with that
error: one that is tried again is among them until it ends otherwise.
"""

from typing import Final

from functory.errors import InvalidInput
from functory.operations.service import Service
from functory.operations.type_patterns import types_matching
from store.base import JobFilter, JobState
from store.values.scoreboard import MAX_FAILURE_GROUPS, OTHER_FAILURES

EVERY_STATE: Final = (
    JobState.RUNNING,
    JobState.LAPSED,
    JobState.WAITING,
    JobState.DEFERRED,
    JobState.PAUSED,
    JobState.ARCHIVED,
)
"""Who looks for a job by its name wants the live one first."""


def is_named(where: JobFilter) -> bool:
    """Whether it looks for jobs by what only some have."""
    return bool(where.unique or where.key or where.failure)


def states_meant(where: JobFilter) -> tuple[JobState, ...]:
    """Those of a listing for which none is said: a code, or a time of the end, is one of archived jobs."""
    about_end = (where.codes, where.since_ms, where.until_ms)
    return EVERY_STATE if is_named(where) and about_end == (None, None, None) else (JobState.ARCHIVED,)


def check_findable(where: JobFilter) -> JobFilter:
    """Raises InvalidInput for the group of those that have none of their own."""
    if where.failure == OTHER_FAILURES:
        raise InvalidInput(
            f"the group {OTHER_FAILURES!r} counts the errors of a type that has {MAX_FAILURE_GROUPS - 1} other kinds of"
            " them, and has no list: choose its jobs by type and code",
            detail={"field": "failure"},
        )
    return where


async def filter_of(service: Service, tenant: str, pattern: str | None, where: JobFilter) -> JobFilter:
    """The same, for the types that the pattern matches; without one, for all. Raises InvalidInput."""
    check_findable(where)
    if pattern is None:
        return where
    return where._replace(jobtypes=tuple(await types_matching(service, tenant, pattern)))


def check_chosen(pattern: str | None, where: JobFilter) -> None:
    """Who cancels or deletes many jobs says which. Raises InvalidInput."""
    if pattern is None and not is_named(where):
        raise InvalidInput("name a type, a failure or a key; all types are *", detail={"field": "type"})


def told(pattern: str | None, where: JobFilter) -> dict[str, str]:
    """What was chosen, for the audit log."""
    given = {"type": pattern, "failure": where.failure, "key": where.key}
    return {name: value for name, value in given.items() if value}
