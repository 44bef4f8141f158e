"""Looking at jobs and acting on one: get, wait, list, cancel, retry.

Read your writes: a job whose id this daemon has answered is there, if not yet in the store then as `Queued`.
"""

import asyncio
from typing import NamedTuple

from functory.errors import Missing, NotReadyYet
from functory.operations.service import Service
from journal import parse_id
from store.base import JobFilter, JobPage, JobRecord, JobState
from store.errors import Conflict, NotFound, StoreUnavailable


class Queued(NamedTuple):
    """A job that the journal holds and the store does not have yet."""

    id: str
    jobtype: str
    due_ms: int
    created_ms: int
    priority: int


async def get_job(service: Service, tenant: str, job_id: str) -> JobRecord | Queued:
    """Raises Missing, also for another tenant's id; NotReadyYet when this daemon cannot tell in time."""
    sysid = _sysid_of(job_id)
    try:
        record = await service.store.get_job(tenant, job_id, now_ms=service.now_ms())
        if record is None and await _flush_for(service, tenant, job_id, sysid):
            record = await service.store.get_job(tenant, job_id, now_ms=service.now_ms())
    except (StoreUnavailable, TimeoutError) as error:
        queued = _queued(service, tenant, job_id)
        if queued is not None:
            return queued
        if isinstance(error, StoreUnavailable):
            raise
        raise NotReadyYet(
            f"job {job_id} may be among the lines that are still on their way into the store: ask again in a moment"
        ) from error
    if record is None:
        raise Missing(f"there is no job {job_id}")
    return record


async def wait_for_job(service: Service, tenant: str, job_id: str, wait_s: float) -> JobRecord | Queued:
    """The job once it is terminal, or as it is when the time is up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    while True:
        # Listen first, then look: a job that ends in between is heard.
        heard = asyncio.ensure_future(service.endings.wait(job_id, max(deadline - loop.time(), 0.0)))
        try:
            await asyncio.sleep(0)
            job = await get_job(service, tenant, job_id)
            is_over = isinstance(job, JobRecord) and job.state is JobState.ARCHIVED
            if is_over or loop.time() >= deadline or not await heard:
                return job if is_over else await get_job(service, tenant, job_id)
        finally:
            heard.cancel()


async def list_jobs(service: Service, tenant: str, where: JobFilter, *, cursor: str | None, limit: int) -> JobPage:
    return await service.store.list_jobs(tenant, where, now_ms=service.now_ms(), cursor=cursor, limit=limit)


async def list_children(service: Service, tenant: str, job_id: str, *, cursor: str | None, limit: int) -> JobPage:
    await get_job(service, tenant, job_id)
    return await service.store.list_children(tenant, job_id, now_ms=service.now_ms(), cursor=cursor, limit=limit)


async def cancel_job(service: Service, tenant: str, job_id: str) -> None:
    """Only what has not started. Raises Missing, Conflict."""
    sysid = _sysid_of(job_id)
    try:
        await service.store.cancel_job(tenant, job_id, now_ms=service.now_ms())
    except NotFound:
        try:
            if not await _flush_for(service, tenant, job_id, sysid):
                raise Missing(f"there is no job {job_id}") from None
        except TimeoutError:
            raise NotReadyYet(f"job {job_id} is still on its way into the store: ask again in a moment") from None
        await service.store.cancel_job(tenant, job_id, now_ms=service.now_ms())


async def retry_job(service: Service, tenant: str, job_id: str, delay_s: float) -> None:
    """Queue an archived job again. Raises Missing, Conflict (it is not archived, or its unique name is taken)."""
    _sysid_of(job_id)
    now_ms = service.now_ms()
    if await service.store.replay_jobs(tenant, [job_id], dt_ms=now_ms + round(delay_s * 1000), now_ms=now_ms):
        service.control.wake()
        return
    job = await get_job(service, tenant, job_id)
    state = job.state.value if isinstance(job, JobRecord) else "queued"
    if state == JobState.ARCHIVED.value:
        raise Conflict(f"job {job_id} has a unique name that another job holds now")
    raise Conflict(f"job {job_id} is {state}: only a job that has ended can be retried")


def _sysid_of(job_id: str) -> str:
    try:
        return parse_id(job_id).sysid
    except ValueError:
        raise Missing(f"there is no job {job_id[:80]!r}") from None


async def _flush_for(service: Service, tenant: str, job_id: str, sysid: str) -> bool:
    """Get this daemon's lines into the store if the job may be among them; False when it cannot be.

    Raises TimeoutError and StoreUnavailable.
    """
    if sysid != service.control.sysid:
        return False
    if service.accepted.find(tenant, job_id) is None and service.journal.stats().backlog_bytes == 0:
        return False
    async with asyncio.timeout(service.settings.flush_timeout_s):
        await service.intake.flush(tenant)
    return True


def _queued(service: Service, tenant: str, job_id: str) -> Queued | None:
    batch = service.accepted.find(tenant, job_id)
    if batch is None:
        return None
    created_ms = parse_id(job_id).time_ms
    due_ms = created_ms if batch.options.dt_ms is None else batch.options.dt_ms
    return Queued(job_id, batch.jobtype, due_ms, created_ms, batch.options.priority)
