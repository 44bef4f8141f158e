"""functory.queue: a close or a worker that is cancelled leaves nothing behind that goes on."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from functory.queue import Queue, Worker
from functory.workers.values import Report, Verdict
from store.base import JobState
from tests.support.queue_places import Place
from tests.support.service import until


async def cancel(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def state(place: Place, job_id: str) -> tuple[JobState, int]:
    record = await place.record(job_id)
    assert record is not None
    return record.state, record.job.attempts


async def test_a_queue_is_closed_although_who_closes_it_is_cancelled(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place.open() as queue:
        await queue.register("resize")
        ended, left = await queue.add("resize", "1", "2")
        jobs = {job.id: job for job in [await queue.next(), await queue.next()]}
        link, is_sending, go_on, told = queue._link, asyncio.Event(), asyncio.Event(), list[str]()
        report, close = link.report, link.close

        async def report_late(reports: Sequence[Report]) -> list[Verdict]:
            is_sending.set()
            await go_on.wait()
            return await report(reports)

        async def close_and_tell() -> None:
            await close()
            told.append("closed")

        monkeypatch.setattr(link, "report", report_late)
        monkeypatch.setattr(link, "close", close_and_tell)
        ending = asyncio.create_task(jobs[ended].done())
        await is_sending.wait()
        first = asyncio.create_task(queue.close())
        await asyncio.sleep(0)
        await cancel(first)
        others = [asyncio.create_task(queue.close()) for _ in range(2)]
        go_on.set()
        await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        assert told == ["closed"]
        await asyncio.gather(ending, *others)
    assert told == ["closed"], "once"
    assert await state(place, left) == (JobState.WAITING, 0)
    assert (await place.end(ended)).exitcode == 200


def worker_of(queue: Queue) -> "asyncio.Task[None]":
    worker = Worker()

    @worker.task("resize")
    async def resize(_: object) -> None: ...

    return asyncio.create_task(worker.run(queue))


async def test_a_worker_that_is_cancelled_asks_for_no_more_jobs(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functory.queue.worker._WAIT_S", 60.0)  # longer than `until` looks
    async with place.open() as queue:
        await queue.register("resize")
        workers = place._workers_of(queue)

        async def asks(count: int) -> bool:
            return workers.gauges()["workers_waiting"] == count

        running = worker_of(queue)
        await until(lambda: asks(1))
        await cancel(running)
        await until(lambda: asks(0))


async def test_a_job_that_comes_for_a_worker_that_is_cancelled_goes_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place.open() as queue:
        await queue.register("resize")
        (job_id,) = await queue.add("resize", "1")
        jobs = [await queue.next()]
        is_asked, go_on = asyncio.Event(), asyncio.Event()

        async def given(*_: object, **__: object) -> Any:
            is_asked.set()
            await go_on.wait()
            return jobs

        monkeypatch.setattr(queue, "take_some", given)
        running = worker_of(queue)
        await is_asked.wait()
        go_on.set()
        await cancel(running)
        assert await state(place, job_id) == (JobState.WAITING, 0)
