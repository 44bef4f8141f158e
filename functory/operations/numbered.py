"""Jobs by number: each job can have one within its tenant, for protocols that know jobs by numbers."""

from collections.abc import Sequence

from functory.errors import NotReadyYet
from functory.operations.jobs import Queued, get_job
from functory.operations.service import Service
from store.base import JobRecord


async def number_jobs(service: Service, tenant: str, job_ids: Sequence[str]) -> dict[str, int]:
    """The numbers of those that exist; one without gets the next. They ascend, and none is given twice."""
    return await service.store.number_jobs(tenant, job_ids)


async def take_numbers(service: Service, tenant: str, count: int) -> range:
    """Numbers for jobs that exist no more. No other job ever gets them."""
    first = await service.store.take_numbers(tenant, count)
    return range(first, first + count)


async def find_numbered(service: Service, tenant: str, number: int) -> str | None:
    """The id of the job that has the number."""
    return await service.store.find_numbered(tenant, number)


async def get_numbered(service: Service, tenant: str, job_id: str, *, max_bytes: int = 0) -> JobRecord:
    """A job that has a number, so the store has it; as `get_job`. Raises Missing."""
    found = await get_job(service, tenant, job_id, max_bytes=max_bytes)
    if isinstance(found, Queued):
        raise NotReadyYet(f"job {job_id} is on its way into the store: ask again in a moment")
    return found


async def store_lines(service: Service, tenant: str) -> None:
    """Wait until all jobs that this daemon has accepted of the tenant are in the store. Raises StoreUnavailable."""
    await service.intake.flush(tenant)
