"""GetJob and GetJobs: jobs in the hands of a worker, at once or as soon as there are some.

Ensures: a job is handed to a connection that was open when it was claimed, or given back. What is claimed and cannot be
answered is given back, also if that shows only when the answer is to be sent. A claimed job waits for room for the data
of its relatives for a few seconds at most.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

import msgspec

from functory.bedrock.call import Call
from functory.bedrock.records import data_json, object_json
from functory.bedrock.refusals import Refusal, missing, wrong
from functory.bedrock.relatives import Relatives
from functory.operations import workers
from functory.workers.values import Order, Taken, Worker
from vocabulary.names import type_of

_MOST_RESULTS: Final = 1000
ROOM_WAIT_S: Final = 5.0
"""For the data of relatives; the lease of the jobs runs meanwhile."""


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
    give_back = partial(workers.return_taken, call.service, call.who, taken)
    try:
        await call.confirm()
        shown = await _show(call, taken)
    except BaseException:
        await give_back()
        raise
    if waits and call.peer.gone.is_set():
        await give_back()
        raise Refusal(303, "Timeout")
    call.peer.if_unheard = give_back
    for job, _ in taken:
        call.takers.has_taken(call.peer, job.id, job.token, repeats=bool(job.repeat))
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
        await workers.return_taken(call.service, call.who, jobs)
        return []
    return jobs


async def _show(call: Call, taken: Sequence[Taken]) -> list[bytes]:
    jobs = [job for job, _ in taken]
    family = [*(job.id for job in jobs), *(job.parent for job in jobs if job.parent)]
    numbers = await call.numbers.of(call.tenant, list(dict.fromkeys(family)))
    relatives = Relatives(call)
    found = [await relatives.find(job, numbers.get(job.parent)) for job in jobs]
    async with AsyncExitStack() as held:
        try:
            async with asyncio.timeout(ROOM_WAIT_S):
                await held.enter_async_context(call.web.bodies.of(call.tenant, relatives.size_bytes))
        except TimeoutError:
            relatives.keep_within(call.web.bodies.free_bytes)
        return [
            object_json(
                {
                    "data": data_json(job.data),
                    "jobID": numbers.get(job.id, 0),
                    "name": type_of(job.jobtype),
                    **await relatives.show(its),
                }
            )
            for job, its in zip(jobs, found, strict=True)
        ]
