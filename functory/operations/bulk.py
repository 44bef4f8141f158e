"""Many jobs at once, chosen by a filter: cancel what is not over, delete what is. Schedules, which are jobs that
repeat, are left alone by who cancels or replays many, unless they are asked for.

A type may be a pattern (GLOB). It is matched against the names of the tenant's types, and not against its jobs. Each
call has a limit, and says whether more jobs match: repeat it until none do. Repeating is harmless.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from functory.errors import Missing, NotReadyYet
from functory.operations.audit import audit
from functory.operations.jobs import cancel_job
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.type_patterns import types_matching
from store.base import Code, JobFilter, JobState
from store.errors import Conflict

UNFINISHED: Final = (JobState.WAITING, JobState.DEFERRED, JobState.PAUSED, JobState.LAPSED, JobState.RUNNING)
_PAGE: Final = 1000
_AT_ONCE: Final = 20
"""Runs that are stopped side by side."""


class Place(NamedTuple):
    """Where a search goes on: in the listing of this type, or of all if it is empty, after this cursor, or at its start
    if that is empty."""

    jobtype: str
    cursor: str


class Matching(NamedTuple):
    """Ids that fit within the limit, with their types; after: others fit, too, from there on. schedules: how many were
    left out on the way."""

    ids: tuple[str, ...]
    jobtypes: tuple[str, ...]
    after: Place | None
    schedules: int = 0

    @property
    def more(self) -> bool:
        return self.after is not None


class BulkReport(NamedTuple):
    """changed is 0 in a dry run; jobs that changed by themselves meanwhile are not counted. schedules: how many fit,
    too, and were left alone."""

    ids: tuple[str, ...]
    changed: int
    more: bool
    schedules: int = 0


async def cancel_jobs(
    service: Service,
    who: Principal,
    pattern: str,
    states: Sequence[JobState],
    *,
    limit: int,
    dry_run: bool,
    schedules: bool = False,
) -> BulkReport:
    """Cancel jobs of the matching types that are in one of these states, running ones last. What was posted before
    is among them, unless a long backlog of the tenant stands before it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(service.settings.flush_timeout_s):
            await service.intake.flush(who.tenant)
    ordered = [state for state in UNFINISHED if state in states]
    jobtypes = await types_matching(service, who.tenant, pattern)
    filters = [JobFilter(state, jobtype) for state in ordered for jobtype in jobtypes]
    found = await matching(service, who.tenant, filters, limit, schedules=schedules)
    ids, more = found.ids, found.more
    if dry_run or not ids:
        return BulkReport(ids, 0, more, found.schedules)
    changed = 0
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        changed += sum(await asyncio.gather(*(_is_cancelled(service, who.tenant, job_id) for job_id in some)))
    await audit(service, who.key_id, "job.cancel", who.tenant, type=pattern, matched=len(ids), changed=changed)
    return BulkReport(ids, changed, more, found.schedules)


async def delete_jobs(
    service: Service,
    who: Principal,
    pattern: str,
    codes: frozenset[Code] | None,
    *,
    since_ms: int | None,
    until_ms: int | None,
    limit: int,
    dry_run: bool,
) -> BulkReport:
    """Remove all trace of ended jobs of the matching types."""
    filters = [
        JobFilter(JobState.ARCHIVED, jobtype, codes, since_ms, until_ms)
        for jobtype in await types_matching(service, who.tenant, pattern)
    ]
    found = await matching(service, who.tenant, filters, limit)
    ids, more = found.ids, found.more
    if dry_run or not ids:
        return BulkReport(ids, 0, more)
    changed = 0
    for start in range(0, len(ids), _PAGE):
        changed += await service.store.delete_jobs(who.tenant, ids[start : start + _PAGE])
    await audit(service, who.key_id, "job.delete", who.tenant, type=pattern, matched=len(ids), jobs=changed)
    return BulkReport(ids, changed, more)


async def matching(
    service: Service,
    tenant: str,
    filters: Sequence[JobFilter],
    limit: int,
    begin: Place | None = None,
    *,
    schedules: bool = True,
) -> Matching:
    """The jobs that fit one of the filters, in their order. With begin, those after it: the filters are of one state
    then, and in the order of their types. Without schedules, those that repeat are only counted."""
    found: dict[str, str] = {}
    left_out: set[str] = set()
    for number, where in enumerate(filters):
        cursor: str | None = None
        if begin is not None and (where.jobtype or "") <= begin.jobtype:
            if (where.jobtype or "") < begin.jobtype:
                continue
            cursor = begin.cursor or None
        while True:
            size = min(_PAGE, limit - len(found))
            page = await service.store.list_jobs(tenant, where, now_ms=service.now_ms(), cursor=cursor, limit=size)
            jobs = [record.job for record in page.records]
            if not schedules:
                left_out |= {job.id for job in jobs if job.repeat}
            found |= {job.id: job.jobtype for job in jobs if schedules or not job.repeat}
            cursor = page.cursor
            if len(found) >= limit:
                here = None if cursor is None else Place(where.jobtype or "", cursor)
                after = here or await _first(service, tenant, filters[number + 1 :])
                return _matching(found, after, len(left_out))
            if cursor is None:
                break
    return _matching(found, None, len(left_out))


def _matching(found: dict[str, str], after: Place | None, schedules: int) -> Matching:
    return Matching(tuple(found), tuple(dict.fromkeys(found.values())), after, schedules)


async def _first(service: Service, tenant: str, filters: Sequence[JobFilter]) -> Place | None:
    """The first of the filters that a job fits."""
    for where in filters:
        if (await service.store.list_jobs(tenant, where, now_ms=service.now_ms(), limit=1)).records:
            return Place(where.jobtype or "", "")
    return None


async def _is_cancelled(service: Service, tenant: str, job_id: str) -> bool:
    try:
        await cancel_job(service, tenant, job_id)
    except (Conflict, Missing, NotReadyYet):  # it ended meanwhile, or somebody else deletes it
        return False
    return True
