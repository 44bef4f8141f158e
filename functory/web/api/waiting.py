"""Many jobs in one answer, once they have ended."""

import asyncio
from typing import Final

from functory.errors import Missing, NotReadyYet
from functory.operations.jobs import Queued, is_over, wait_for_job
from functory.web.api.large_job import kept_bytes
from functory.web.api.rendering import show_job
from functory.web.http.endpoint import Call
from functory.web.http.outflow import LARGE_BYTES
from functory.web.http.routes import Routes
from functory.wire.jobs import EndedJobs, WaitBody
from store.base import JobRecord

routes = Routes()

_ROW_BYTES: Final = 700
_ATTEMPT_BYTES: Final = 250
"""Of the JSON of a job, and of each of its attempts and rounds, beside their texts."""
_HELD_BYTES: Final = 32 * 1024
"""An answer that is larger than this is not kept while its other jobs run: a client that waits costs little."""
_GRACE_S: Final = 2.0
"""How long after its time an answer is finished: each look may have to wait for lines on their way to the store."""


@routes.add(
    "POST", "/{tenant}/jobs/wait", scope="read", summary="Several jobs with their results, once they have ended"
)
async def wait_for_jobs(call: Call, body: WaitBody) -> EndedJobs:
    """In the order of the ids, until the answer is large: the caller asks again for those that are left."""
    ids = list(dict.fromkeys(body.ids))
    gathering = _Gathering(call, body.wait_s)
    with call.service.straight.awaiting(call.tenant, ids):
        for job_id in ids:
            if not await gathering.add(job_id):
                break
    await call.confirm()
    answer = gathering.answer
    answered = {*(job.id for job in answer.jobs), *answer.gone}
    answer.left = [job_id for job_id in ids if job_id not in answered]
    return answer


class _Gathering:
    """An answer while it grows."""

    def __init__(self, call: Call, wait_s: float) -> None:
        self.answer = EndedJobs([], [], [])
        self._call = call
        self._now_s = asyncio.get_running_loop().time
        self._deadline_s = self._now_s() + wait_s
        self._size_bytes = 0

    async def add(self, job_id: str) -> bool:
        """Whether the next one can be asked for. One of which nothing can be told yet is passed over."""
        has_some = bool(self.answer.jobs or self.answer.gone)
        if (has_some and self._now_s() > self._deadline_s + _GRACE_S) or not self._call.is_heard():
            return False
        try:
            found = await self._find(job_id)
        except Missing:
            self.answer.gone.append(job_id)
            return True
        except NotReadyYet:
            return True
        if found is None:
            return False
        size_bytes = _json_bytes(found)
        if self.answer.jobs and self._size_bytes + size_bytes > LARGE_BYTES:
            return False
        self.answer.jobs.append(show_job(found, whole=size_of(found) <= LARGE_BYTES))
        self._size_bytes += size_bytes
        return True

    async def _find(self, job_id: str) -> JobRecord | Queued | None:
        """The job when it is over, or when the time is up. None: it runs, and the answer would have to be kept."""
        try:
            found = await self._wait(job_id, 0.0)
            if is_over(found) or self._left_s() <= 0:
                return found
        except NotReadyYet:
            if self._left_s() <= 0:
                raise
        return None if self._size_bytes > _HELD_BYTES else await self._wait(job_id, self._left_s())

    def _left_s(self) -> float:
        return max(self._deadline_s - self._now_s(), 0.0)

    async def _wait(self, job_id: str, wait_s: float) -> JobRecord | Queued:
        call = self._call
        return await wait_for_job(
            call.service, call.tenant, job_id, wait_s, max_bytes=LARGE_BYTES, is_heard=call.is_heard
        )


def size_of(found: JobRecord | Queued) -> int:
    """Of payload, result and log."""
    return 0 if isinstance(found, Queued) else kept_bytes(found)


def _json_bytes(found: JobRecord | Queued) -> int:
    """About how long it is in an answer."""
    if isinstance(found, Queued):
        return _ROW_BYTES
    texts_bytes = size_of(found) if size_of(found) <= LARGE_BYTES else 0
    messages = [run.message for run in found.history] + [ended.message for ended in found.schedule.rounds]
    attempts_bytes = sum(_ATTEMPT_BYTES + len(message) for message in messages)
    return _ROW_BYTES + texts_bytes + len(found.job.options) + attempts_bytes
