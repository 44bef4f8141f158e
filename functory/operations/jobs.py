"""Look at jobs, and cancel one: get, wait, list. job_changes.py has the other changes.

Read your writes: a job whose id this daemon has returned can be found, as `Queued` if it is not in the store yet.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from functory.errors import InvalidInput, Missing, NotReadyYet
from functory.operations.finding import check_findable
from functory.operations.service import Service
from functory.operations.type_patterns import jobtypes_named
from functory.operations.unseen import bring, bring_some
from journal import parse_id
from store.base import JobChange, JobFilter, JobPage, JobRecord, JobState
from store.errors import Conflict, NotFound, StoreUnavailable

_ON_ITS_WAY_MS: Final = 60_000
"""How long after its id was given a job of another daemon may be missing in the store without being unknown."""
_NOT_READY_PAUSE_S: Final = 0.05
_MOST_OF_A_CANCEL_MS: Final = 30_000
"""For so long a schedule that is being cancelled cannot be said again, if this daemon dies before it is done."""
_STOPS_WITHIN_S: Final = 5.0
"""A run that was asked to stop is over by then, and recorded; otherwise it is cancelled in the store, as elsewhere."""


_IN_A_FLOOD: Final = frozenset({JobState.WAITING, JobState.RUNNING})
LINE_BYTES: Final = 120
"""Of each payload, where jobs are lines of a list."""


class Queued(NamedTuple):
    """A job that the journal holds and the store does not have yet."""

    id: str
    jobtype: str
    due_ms: int
    created_ms: int
    priority: int


async def get_job(service: Service, tenant: str, job_id: str, *, max_bytes: int = 0) -> JobRecord | Queued:
    """One job, with so many bytes of its payload and of its result, from the start: most callers need none, and a
    result can be so large that a few of them are more than the daemon may use.

    Raises Missing, also for another tenant's id; NotReadyYet when this daemon cannot tell in time.
    """
    sysid = _sysid_of(job_id)
    if service.straight.is_here(job_id):
        _hurry(service, tenant, job_id)
        found = service.straight.look(tenant, job_id, service.now_ms()) or _queued(service, tenant, job_id)
        if found is not None:
            return found
    try:
        record = await service.store.get_job(tenant, job_id, now_ms=service.now_ms(), max_bytes=max_bytes)
        if record is None and await _flush_for(service, tenant, job_id, sysid):
            record = await service.store.get_job(tenant, job_id, now_ms=service.now_ms(), max_bytes=max_bytes)
    except (StoreUnavailable, TimeoutError) as error:
        queued = _queued(service, tenant, job_id)
        if queued is not None:
            return queued
        if isinstance(error, StoreUnavailable):
            raise
        raise NotReadyYet(
            f"job {job_id} may be among the lines that are still on their way into the store: ask again in a moment"
        ) from error
    if record is not None:
        return record
    if service.waiters.has_ended_elsewhere(job_id):
        raise Missing(f"there is no job {job_id} any more: if there was one, it has ended and is not kept")
    if await _is_on_its_way_elsewhere(service, job_id, sysid):
        raise NotReadyYet(f"job {job_id} may still be on its way through daemon {sysid}: ask again in a moment")
    raise Missing(f"there is no job {job_id}")


async def get_payload(service: Service, tenant: str, found: JobRecord) -> bytes:
    """The whole payload of a job that was read in part. Raises Missing."""
    if len(found.job.data) == found.data_bytes:
        return found.job.data
    read = await get_job(service, tenant, found.job.id, max_bytes=found.data_bytes)
    if isinstance(read, Queued):
        raise Missing(f"job {found.job.id} is not in the store any more")
    return read.job.data


async def read_result(service: Service, tenant: str, found: JobRecord, piece_bytes: int) -> AsyncIterator[bytes]:
    """The whole result of a job, piece by piece. Raises Missing when it is not there any more."""
    for start in range(0, found.result_bytes, piece_bytes):
        piece = await service.store.read_result(
            tenant, found.job.id, done_ms=found.done_ms, start=start, length=piece_bytes
        )
        if piece is None:
            raise Missing(f"job {found.job.id} has changed while its result was read")
        yield piece


def is_whole(found: JobRecord) -> bool:
    """Whether all of its payload and of its result has been read."""
    result = found.outcome.result if found.outcome else None
    return len(found.job.data) == found.data_bytes and len(result or b"") == found.result_bytes


def is_over(found: JobRecord | Queued) -> bool:
    return isinstance(found, JobRecord) and found.state is JobState.ARCHIVED


async def wait_for_job(
    service: Service,
    tenant: str,
    job_id: str,
    wait_s: float,
    *,
    max_bytes: int = 0,
    is_heard: Callable[[], bool] = lambda: True,
) -> JobRecord | Queued:
    """The job once it has ended, or as it is when the time is up or when nobody listens any more; as `get_job`. One
    that ends here and is not kept is there as a whole."""
    deadline_s = asyncio.get_running_loop().time() + wait_s
    with service.straight.awaiting(tenant, [job_id]):
        return await wait_for_awaited(service, tenant, job_id, deadline_s, max_bytes=max_bytes, is_heard=is_heard)


async def wait_for_awaited(
    service: Service, tenant: str, job_id: str, deadline: float, *, max_bytes: int, is_heard: Callable[[], bool]
) -> JobRecord | Queued:
    """The same, within `awaiting` of the job, up to a time of the event loop."""
    loop = asyncio.get_running_loop()

    def is_time_up() -> bool:
        return loop.time() >= deadline or not is_heard()

    is_ours = _hurry(service, tenant, job_id)
    has_waited = False
    while service.straight.is_here(job_id) and (is_ours or _runs(service, tenant, job_id)) and not is_time_up():
        has_waited = True
        if not await service.waiters.wait(job_id, deadline - loop.time()):
            break
    # Of one that ended before, the store knows more: it may have been retried or deleted since.
    ended = service.straight.just_ended(tenant, job_id, also_kept=True) if has_waited else None
    if ended is not None:
        return ended
    while True:
        # Listen first, then look: so no end in between is missed.
        heard = asyncio.ensure_future(service.waiters.wait(job_id, max(deadline - loop.time(), 0.0)))
        try:
            await asyncio.sleep(0)
            try:
                job = await _look(service, tenant, job_id, max_bytes)
            except NotReadyYet:
                if is_time_up() or (heard.done() and not heard.result()):
                    raise
                await asyncio.sleep(_NOT_READY_PAUSE_S)
                continue
            if is_over(job) or is_time_up():
                return job
            if not await heard:
                return await _look(service, tenant, job_id, max_bytes)
        finally:
            heard.cancel()


async def _look(service: Service, tenant: str, job_id: str, max_bytes: int) -> JobRecord | Queued:
    """As `get_job`; also one that is not kept, for a moment."""
    try:
        return await get_job(service, tenant, job_id, max_bytes=max_bytes)
    except (Missing, NotReadyYet):  # of an id that another daemon gave, the store alone does not tell which
        gone = service.straight.just_ended(tenant, job_id, also_kept=False)
        if gone is None:
            raise
        return gone


async def list_jobs(
    service: Service,
    tenant: str,
    where: JobFilter,
    *,
    cursor: str | None,
    limit: int,
    named: str | None = None,
    max_bytes: int = 0,
) -> JobPage:
    """named: a type, or a pattern of types. With the first max_bytes bytes of each payload. Raises InvalidInput."""
    check_findable(where)
    if named is not None:
        where = where._replace(jobtypes=await jobtypes_named(service, tenant, named))
    look = partial(service.store.list_jobs, tenant, where, cursor=cursor, limit=limit, max_bytes=max_bytes)
    if where.state in _IN_A_FLOOD and cursor is None and not await bring_some(service, tenant):
        page = await look(now_ms=service.now_ms())
        if page.records:
            return page
        await bring(service, tenant)  # a slow store has none of them by then
    return await look(now_ms=service.now_ms())


async def get_lines(service: Service, tenant: str, ids: Sequence[str]) -> list[JobRecord]:
    """Those of a few jobs that are there, as a list shows them: with the beginnings of their payloads."""
    now_ms = service.now_ms()
    found = [await service.store.get_job(tenant, it, now_ms=now_ms, max_bytes=LINE_BYTES) for it in ids]
    return [record for record in found if record is not None]


async def list_states(
    service: Service,
    tenant: str,
    states: Sequence[JobState],
    where: JobFilter,
    *,
    cursor: str | None,
    limit: int,
    named: str | None = None,
    max_bytes: int = 0,
) -> JobPage:
    """The jobs of several states, one after the other, as `list_jobs` lists each; the state of `where` does not count.
    The store lists one state at a time, so a cursor is that of a state, after its name. A job that changes its state
    between two pages may be on both, or on none."""
    if len(states) == 1:
        where = where._replace(state=states[0])
        return await list_jobs(service, tenant, where, cursor=cursor, limit=limit, named=named, max_bytes=max_bytes)
    name, _, place = (cursor or "").partition(":")
    known = [state.value for state in states]
    if cursor and name not in known:
        told = f"cursor {cursor!r:.80} is not one of a listing of {' and '.join(known)} jobs"
        raise InvalidInput(told, detail={"field": "cursor"})
    records: list[JobRecord] = []
    for state in states[known.index(name) if name in known else 0 :]:
        if len(records) == limit:
            return JobPage(tuple(records), state.value)
        rest = limit - len(records)
        of_state = where._replace(state=state)
        page = await list_jobs(
            service, tenant, of_state, cursor=place or None, limit=rest, named=named, max_bytes=max_bytes
        )
        records += page.records
        if page.cursor is not None:
            return JobPage(tuple(records), f"{state.value}:{page.cursor}")
        place = ""
    return JobPage(tuple(records), None)


async def list_children(
    service: Service, tenant: str, job_id: str, *, cursor: str | None, limit: int, max_bytes: int = 0
) -> JobPage:
    """Of a job that was found, each with the first max_bytes bytes of its result."""
    return await service.store.list_children(
        tenant, job_id, now_ms=service.now_ms(), cursor=cursor, limit=limit, max_bytes=max_bytes
    )


async def cancel_job(service: Service, tenant: str, job_id: str) -> None:
    """Cancel a job that is not over. Raises Missing, Conflict.

    If it is running on this daemon, it is asked to stop, then ended, and keeps its log. A run elsewhere loses its lease
    now: its outcome will not count, and its daemon is told to end it, and would find it at the next renewal.
    """
    await _announce_cancel(service, tenant, job_id)
    if service.control.cancel_run(tenant, job_id):
        await wait_for_job(service, tenant, job_id, _STOPS_WITHIN_S)
    await when_stored(
        service, tenant, job_id, lambda: service.store.cancel_job(tenant, job_id, now_ms=service.now_ms(), running=True)
    )
    service.control.cancelled(job_id)


async def _announce_cancel(service: Service, tenant: str, job_id: str) -> None:
    """A schedule whose run is stopped first is not to be said again meanwhile: that would be lost with it."""
    if service.control.glimpse(tenant, job_id) is None:
        return
    now_ms = service.now_ms()
    found = await service.store.get_job(tenant, job_id, now_ms=now_ms, max_bytes=0)
    if found is not None and found.job.repeat and found.job.unique:
        with suppress(NotFound, Conflict):  # it has just ended: the cancel itself says so
            await service.store.update_job(
                tenant, job_id, JobChange(ending_ms=now_ms + _MOST_OF_A_CANCEL_MS), now_ms=now_ms
            )


async def when_stored(service: Service, tenant: str, job_id: str, change: Callable[[], Awaitable[None]]) -> None:
    """Make a change that needs the job in the store, and raises NotFound if it is not there. If this daemon may still
    have the job among its lines, they go into the store first. Raises Missing, NotReadyYet."""
    sysid = _sysid_of(job_id)
    try:
        await change()
    except NotFound:
        try:
            if not await _flush_for(service, tenant, job_id, sysid):
                raise Missing(f"there is no job {job_id}") from None
        except TimeoutError:
            raise NotReadyYet(f"job {job_id} is still on its way into the store: ask again in a moment") from None
        await change()


def _sysid_of(job_id: str) -> str:
    try:
        return parse_id(job_id).sysid
    except ValueError:
        raise Missing(f"there is no job {job_id[:80]!r}") from None


async def _flush_for(service: Service, tenant: str, job_id: str, sysid: str) -> bool:
    """Move this daemon's lines into the store if the job may be among them. False if it cannot be.

    Raises TimeoutError, StoreUnavailable.
    """
    if sysid != service.control.sysid:
        return False
    if service.accepted.find(tenant, job_id) is None and service.journal.stats().backlog_bytes == 0:
        return False
    async with asyncio.timeout(service.settings.flush_timeout_s):
        await service.intake.flush(tenant)
    return True


async def _is_on_its_way_elsewhere(service: Service, job_id: str, sysid: str) -> bool:
    """Whether another living daemon may have accepted it a moment ago: behind one address there may be several."""
    young = service.now_ms() - parse_id(job_id).time_ms < _ON_ITS_WAY_MS
    if sysid == service.control.sysid or not young:
        return False
    return any(daemon.sysid == sysid for daemon in await service.store.list_daemons(now_ms=service.now_ms()))


def _hurry(service: Service, tenant: str, job_id: str) -> bool:
    """Somebody asks for the job: if it waits on this daemon for others to start with, it starts now. Returns whether
    this daemon knows that it has accepted it of the tenant."""
    batch = service.accepted.find(tenant, job_id)
    if batch is not None:
        service.straight.hurry(batch.jobtype)
    return batch is not None


def _runs(service: Service, tenant: str, job_id: str) -> bool:
    """Whether it is a job of the tenant that runs on this daemon, and that the store does not have."""
    return service.straight.look(tenant, job_id, service.now_ms()) is not None


def _queued(service: Service, tenant: str, job_id: str) -> Queued | None:
    batch = service.accepted.find(tenant, job_id)
    if batch is None:
        return None
    created_ms = parse_id(job_id).time_ms
    due_ms = created_ms if batch.options.dt_ms is None else batch.options.dt_ms
    return Queued(job_id, batch.jobtype, due_ms, created_ms, batch.options.priority)
