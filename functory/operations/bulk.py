"""Many jobs at once, chosen by a filter: cancel what is not over, delete what is. Schedules, which are jobs that
repeat, are left alone by who cancels or replays many, unless they are asked for.

A type may be a pattern (GLOB). It is matched against the names of the tenant's types, and not against its jobs. Each
call has a limit, and says whether more jobs match: repeat it until none do. Repeating is harmless.

Ensures: a tenant does one of these at a time, whatever it asks for, and reads as much for a pattern of thousands of
types as for one.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from functory.errors import Missing, NotReadyYet
from functory.operations.audit import audit
from functory.operations.finding import check_chosen, filter_of, told
from functory.operations.jobs import cancel_job
from functory.operations.keyring import require_same_tenant
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.unseen import bring
from store.base import JobFilter, JobPage, JobRecord, JobState
from store.errors import Conflict
from store.values.jobs import END_OF_TIME_MS

UNFINISHED: Final = (JobState.WAITING, JobState.DEFERRED, JobState.PAUSED, JobState.LAPSED, JobState.RUNNING)
_PAGE: Final = 1000
_FEW: Final = 100
"""Are read together at least, where some of them may be left out."""
_MOST_IN_VAIN: Final = 100
"""Pages of nothing but what is left out."""
_AT_ONCE: Final = 20
"""Runs that are stopped side by side."""


class Matching(NamedTuple):
    """Ids that fit within the limit, with their types; after: others fit, too, from this cursor on, or from the start
    of the next state if it is empty. schedules: how many were left out on the way."""

    ids: tuple[str, ...]
    jobtypes: tuple[str, ...]
    after: str | None
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
    pattern: str | None,
    states: Sequence[JobState],
    where: JobFilter,
    *,
    limit: int,
    dry_run: bool,
    schedules: bool = False,
    created_until_ms: int | None = None,
) -> BulkReport:
    """Cancel jobs of the matching types that are in one of these states, whatever that of `where`, running ones last;
    with created_until_ms only those that were created before it. Without a pattern `where` names a key or a failure.
    What was posted before is among them, unless a long backlog of the tenant stands before it."""
    check_chosen(pattern, where)
    async with service.bulk_turns.of(who.tenant):
        await require_same_tenant(service, who)
        await bring(service, who.tenant)
        of_types = await filter_of(service, who.tenant, pattern, where)
        filters = [of_types._replace(state=state) for state in UNFINISHED if state in states]
        found = await matching(
            service, who.tenant, filters, limit, schedules=schedules, created_until_ms=created_until_ms
        )
        ids, more = found.ids, found.more
        if dry_run or not ids:
            return BulkReport(ids, 0, more, found.schedules)
        changed = 0
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            changed += sum(await asyncio.gather(*(_is_cancelled(service, who.tenant, job_id) for job_id in some)))
    chosen = told(pattern, where)
    await audit(service, who.key_id, "job.cancel", who.tenant, **chosen, matched=len(ids), changed=changed)
    return BulkReport(ids, changed, more, found.schedules)


async def delete_jobs(
    service: Service,
    who: Principal,
    pattern: str | None,
    where: JobFilter,
    *,
    limit: int,
    dry_run: bool,
) -> BulkReport:
    """Remove all trace of ended jobs of the matching types. Without a pattern `where` names a key or a failure."""
    check_chosen(pattern, where)
    async with service.bulk_turns.of(who.tenant):
        await require_same_tenant(service, who)
        of_types = await filter_of(service, who.tenant, pattern, where)
        found = await matching(service, who.tenant, [of_types], limit)
        ids, more = found.ids, found.more
        if dry_run or not ids:
            return BulkReport(ids, 0, more)
        changed = 0
        for start in range(0, len(ids), _PAGE):
            some = ids[start : start + _PAGE]
            changed += await service.store.delete_jobs(who.tenant, some, now_ms=service.now_ms())
    chosen = told(pattern, where)
    await audit(service, who.key_id, "job.delete", who.tenant, **chosen, matched=len(ids), jobs=changed)
    return BulkReport(ids, changed, more)


async def matching(
    service: Service,
    tenant: str,
    filters: Sequence[JobFilter],
    limit: int,
    begin: str | None = None,
    *,
    schedules: bool = True,
    created_until_ms: int | None = None,
) -> Matching:
    """The jobs that fit one of the filters, in their order. With begin, a cursor of the first, those after it. Without
    schedules, those that repeat are only counted, and with created_until_ms those that were created later are left out;
    so many of them that the search takes long break it off, and it goes on from there."""
    search = _Search(service, tenant, schedules=schedules, created_until_ms=created_until_ms)
    cursor = begin
    for number, where in enumerate(filters):
        while True:
            cursor = await search.take(where, cursor, limit - len(search.found))
            if len(search.found) >= limit:
                return search.result(await search.look_on(filters[number:], cursor))
            if cursor is None:
                break
            if search.in_vain >= _MOST_IN_VAIN:
                return search.result(cursor)
    return search.result(None)


class _Search:
    def __init__(self, service: Service, tenant: str, *, schedules: bool, created_until_ms: int | None) -> None:
        self._service = service
        self._tenant = tenant
        self._schedules = schedules
        self._until_ms = END_OF_TIME_MS if created_until_ms is None else created_until_ms
        self._takes_all = schedules and created_until_ms is None
        self.found: dict[str, str] = {}
        """Ids, with their types."""
        self._left_out: set[str] = set()
        self.in_vain = 0

    async def take(self, where: JobFilter, cursor: str | None, room: int) -> str | None:
        """Some more, as many as there is room for. Returns where it goes on, if it does."""
        page = await self._list(where, cursor, room if self._takes_all else max(room, _FEW))
        wanted = [number for number, record in enumerate(page.records) if self._is_wanted(record)]
        if len(wanted) > room:  # a cursor stands at the end of a page, so it is read again, up to the last of them
            page = await self._list(where, cursor, wanted[room - 1] + 1)
        self.in_vain += bool(page.records) and not wanted
        self._leave_out(page)
        self.found |= {record.job.id: record.job.jobtype for record in page.records if self._is_wanted(record)}
        return page.cursor

    async def look_on(self, filters: Sequence[JobFilter], cursor: str | None) -> str | None:
        """Where others fit that are wanted, too: after the cursor in the first of the filters, if there is one, or in
        those that follow."""
        for where in filters if cursor is not None else filters[1:]:
            page = await self._list(where, cursor, 1 if self._takes_all else _PAGE)
            if page.cursor is not None or any(map(self._is_wanted, page.records)):
                return cursor or ""
            self._leave_out(page)
            cursor = None
        return None

    def result(self, after: str | None) -> Matching:
        jobtypes = tuple(dict.fromkeys(self.found.values()))
        return Matching(tuple(self.found), jobtypes, after, len(self._left_out))

    def _is_wanted(self, record: JobRecord) -> bool:
        return (self._schedules or not record.job.repeat) and record.job.create_ms < self._until_ms

    def _leave_out(self, page: JobPage) -> None:
        repeating = (record.job for record in page.records if record.job.repeat and not self._schedules)
        self._left_out |= {job.id for job in repeating if job.create_ms < self._until_ms}

    async def _list(self, where: JobFilter, cursor: str | None, count: int) -> JobPage:
        now_ms, size = self._service.now_ms(), min(count, _PAGE)
        return await self._service.store.list_jobs(self._tenant, where, now_ms=now_ms, cursor=cursor, limit=size)


async def _is_cancelled(service: Service, tenant: str, job_id: str) -> bool:
    try:
        await cancel_job(service, tenant, job_id)
    except (Conflict, Missing, NotReadyYet):  # it ended meanwhile, or somebody else deletes it
        return False
    return True
