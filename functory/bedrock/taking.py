"""GetJob and GetJobs: jobs in the hands of a worker, at once or as soon as there are some.

Ensures: a job is handed to a connection that was open when it was claimed, or given back. What is claimed and cannot be
answered is given back.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from functory.bedrock.call import Call
from functory.bedrock.records import CANCELLED, FINISHED, data_json, object_json, state_of
from functory.bedrock.refusals import Refusal, missing, wrong
from functory.errors import Missing
from functory.execution.families import before_round
from functory.operations import workers
from functory.operations.jobs import get_payload, list_children
from functory.operations.numbered import get_numbered
from functory.workers.values import Delivery, Order, Taken, Worker
from store.base import Job
from vocabulary.names import type_of

_MOST_RESULTS: Final = 1000
_FAMILY: Final = 1000
"""Children that a parent is told of."""


async def get_job(call: Call) -> bytes:
    if call.parameters.text("numResults"):
        raise Refusal(402, "numResults is for GetJobs: GetJob takes one job")
    (shown,) = await _get(call, 1)
    return shown


async def get_jobs(call: Call) -> bytes:
    limit = call.parameters.number("numResults", 1, _MOST_RESULTS)
    if limit is None:
        raise missing("numResults")
    return object_json({"jobs": [msgspec.Raw(shown) for shown in await _get(call, limit)]})


async def _get(call: Call, limit: int) -> list[bytes]:
    pattern = call.parameters.text("name", 127)
    if not pattern:
        raise missing("name")
    waits = call.parameters.text("connection").lower() == "wait"
    timeout_ms = call.parameters.number("timeout", 0)
    if timeout_ms is not None and timeout_ms > 10**12:
        raise wrong("timeout", "must be a number of milliseconds, at most 1,000,000,000,000")
    worker = Worker(name=f"bedrock {call.peer.address}"[:100], host=call.peer.address[:100])
    order = Order(call.tenant, (pattern,), limit, worker=worker)
    taken = await (_wait(call, order, timeout_ms) if waits else workers.take(call.service, call.who, order))
    if not taken:
        raise Refusal(303, "Timeout") if waits else Refusal(404, "No job found")
    try:
        await call.confirm()
        shown = await _show(call, taken)
    except BaseException:
        await _give_back(call, taken)
        raise
    if waits and call.peer.gone.is_set():
        await _give_back(call, taken)
        raise Refusal(303, "Timeout")
    for job, _ in taken:
        call.peer.has_taken(job.id, job.token, repeats=bool(job.repeat))
    return shown


async def _wait(call: Call, order: Order, timeout_ms: int | None) -> list[Taken]:
    """Until there is a job, the time is up, the peer has gone or the daemon stops."""
    loop = asyncio.get_running_loop()
    deadline_s = None if timeout_ms is None else loop.time() + timeout_ms / 1000
    gone = asyncio.ensure_future(call.peer.gone.wait())
    try:
        while True:
            left_s = workers.MOST_WAIT_S if deadline_s is None else deadline_s - loop.time()
            until_s = loop.time() + min(max(left_s, 0.0), workers.MOST_WAIT_S)
            step = order._replace(wait_s=until_s - loop.time() if until_s > loop.time() else 0.0)
            jobs = await _take_unless(call, step, gone)
            # One that was answered before its time was answered by a daemon that stops.
            if jobs or gone.done() or loop.time() < until_s or (deadline_s is not None and loop.time() >= deadline_s):
                return jobs
    finally:
        gone.cancel()


async def _take_unless(call: Call, order: Order, gone: "asyncio.Future[Any]") -> list[Taken]:
    taking = asyncio.ensure_future(workers.take(call.service, call.who, order))
    try:
        await asyncio.wait([taking, gone], return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not taking.done():
            taking.cancel()
            await asyncio.wait([taking])
    if taking.cancelled():
        return []
    jobs = taking.result()
    if jobs and gone.done():
        await _give_back(call, jobs)
        return []
    return jobs


async def _give_back(call: Call, taken: Sequence[Taken]) -> None:
    await workers.give_back(call.service, call.who, [Delivery(job.id, job.token) for job, _ in taken])


async def _show(call: Call, taken: Sequence[Taken]) -> list[bytes]:
    jobs = [job for job, _ in taken]
    family = [*(job.id for job in jobs), *(job.parent for job in jobs if job.parent)]
    numbers = await call.numbers.of(call.tenant, list(dict.fromkeys(family)))
    shown = []
    for job in jobs:
        fields: dict[str, Any] = {
            "data": data_json(job.data),
            "jobID": numbers.get(job.id, 0),
            "name": type_of(job.jobtype),
        }
        if job.parent in numbers:
            fields["parentJobID"] = numbers[job.parent]
            fields["parentData"] = await _data(call, job.parent)
        if job.children:
            fields |= await _children(call, job)
        shown.append(object_json(fields))
    return shown


async def _children(call: Call, parent: Job) -> dict[str, Any]:
    """The children that have ended, by how they did; of a parent that repeats, those of its round."""
    first = before_round(parent)
    page = await list_children(call.service, call.tenant, parent.id, cursor=first, limit=_FAMILY)
    numbers = await call.numbers.of(call.tenant, [record.job.id for record in page.records])
    found: dict[str, list[Any]] = {}
    for record in page.records:
        state = state_of(record)
        if record.done_ms and record.job.id in numbers:
            kind = {FINISHED: "finishedChildJobs", CANCELLED: "cancelledChildJobs"}.get(state, "failedChildJobs")
            child = {"data": await _data(call, record.job.id), "jobID": numbers[record.job.id]}
            found.setdefault(kind, []).append(child)
    return found


async def _data(call: Call, job_id: str) -> msgspec.Raw:
    try:
        record = await get_numbered(call.service, call.tenant, job_id)
        return data_json(await get_payload(call.service, call.tenant, record))
    except Missing:  # deleted just now
        return data_json(b"{}")
