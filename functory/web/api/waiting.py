"""Many jobs in one answer, once they have ended: of those that a request has added, and of those that it names."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Final

from functory.errors import Missing, NotReadyYet
from functory.operations.jobs import Queued, wait_for_job
from functory.operations.service import Service
from functory.web.api.large_job import kept_bytes
from functory.web.api.rendering import show_job
from functory.web.http.endpoint import Call
from functory.web.http.outflow import LARGE_BYTES
from functory.web.http.routes import Routes
from functory.wire.jobs import EndedJobs, WaitBody
from store.base import JobRecord

routes = Routes()

_ROW_BYTES: Final = 700
"""Of a job's JSON beside its payload, result and log."""


@routes.add(
    "POST", "/{tenant}/jobs/wait", scope="read", summary="Several jobs with their results, once they have ended"
)
async def wait_for_jobs(call: Call, body: WaitBody) -> EndedJobs:
    """In the order of the ids, until the answer is large: the caller asks again for those that are left."""
    ids = list(dict.fromkeys(body.ids))
    answer, room_bytes = EndedJobs([], [], []), LARGE_BYTES
    async with aclosing(ended_jobs(call.service, call.tenant, ids, body.wait_s, call.is_heard)) as ended:
        async for job_id, found in ended:
            if isinstance(found, NotReadyYet):
                continue
            if found is None:
                answer.gone.append(job_id)
                continue
            size_bytes = size_of(found)
            if answer.jobs and _ROW_BYTES + size_bytes > room_bytes:
                break
            answer.jobs.append(show_job(found, whole=size_bytes <= LARGE_BYTES))
            room_bytes -= _ROW_BYTES + size_bytes
    await call.confirm()
    answered = {*(job.id for job in answer.jobs), *answer.gone}
    answer.left = [job_id for job_id in ids if job_id not in answered]
    return answer


async def ended_jobs(
    service: Service, tenant: str, ids: Sequence[str], wait_s: float, is_heard: Callable[[], bool]
) -> AsyncGenerator[tuple[str, JobRecord | Queued | NotReadyYet | None], None]:
    """Each with its id, one after the other: as it is when it has ended or when the time of all is up, read up to
    LARGE_BYTES; None if there is no such job; the error if that cannot be told yet. Those that end meanwhile and are
    not kept are there when their turn comes."""
    now_s = asyncio.get_running_loop().time
    deadline_s = now_s() + wait_s
    with service.straight.awaiting(tenant, ids):
        for job_id in ids:
            if not is_heard():
                return
            left_s = max(deadline_s - now_s(), 0.0)
            try:
                found = await wait_for_job(service, tenant, job_id, left_s, max_bytes=LARGE_BYTES, is_heard=is_heard)
            except Missing:
                yield job_id, None
            except NotReadyYet as error:
                yield job_id, error
            else:
                yield job_id, found


def size_of(found: JobRecord | Queued) -> int:
    return 0 if isinstance(found, Queued) else kept_bytes(found)
