"""functory.queue.Worker: how it calls tasks, and what it makes of those that raise what ends more than a function."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from functory.queue import InvalidInput, LeaseLost, Queue, ThreadJob, Worker, open_queue
from functory.queue.remote import RemoteLink
from functory.workers.values import Report, Verdict
from tests.support.queue_places import Place
from tests.support.service import until

MORE_THAN_THE_LOOP_HAS = min(32, (os.cpu_count() or 1) + 4) + 3


@asynccontextmanager
async def working(place: Place, worker: Worker, *, lease_s: float | None = None, **more: Any) -> AsyncIterator[Queue]:
    async with place.open(lease_s=lease_s) as queue:
        await queue.register(*worker.types, options={"max_attempts": 1})
        running = asyncio.create_task(worker.run(queue, **more))
        try:
            yield queue
        finally:
            worker.stop()
            await running


async def test_as_many_plain_functions_run_as_were_asked_for_and_the_threads_of_the_loop_are_free(place: Place) -> None:
    worker, go = Worker(), threading.Event()
    begun: list[str] = []

    @worker.task("wait")
    def wait(payload: str) -> None:
        begun.append(payload)
        go.wait()

    async def all_run() -> bool:
        return len(begun) == MORE_THAN_THE_LOOP_HAS

    async with working(place, worker, concurrency=MORE_THAN_THE_LOOP_HAS) as queue:
        try:
            ids = await queue.add("wait", *(f"job {number}" for number in range(MORE_THAN_THE_LOOP_HAS)))
            await until(all_run)
            async with asyncio.timeout(30):
                assert await asyncio.to_thread(lambda: "free") == "free", "the names of hosts are looked up there"
        finally:
            go.set()
        assert {(await place.end(job_id)).exitcode for job_id in ids} == {200}


def exits(_: object) -> None:
    sys.exit(3)


def stops(_: object) -> Any:
    return next(iter(()))


def is_cancelled(_: object) -> None:
    raise asyncio.CancelledError


async def exits_on_the_loop(_: object) -> None:
    sys.exit(3)


async def is_interrupted_on_the_loop(_: object) -> None:
    raise KeyboardInterrupt


class OddError(BaseException):
    """No Exception."""


async def is_odd_on_the_loop(_: object) -> None:
    raise OddError


async def has_odd_children(_: object) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(is_odd_on_the_loop(1))


async def is_cancelled_on_the_loop(_: object) -> None:
    raise asyncio.CancelledError


async def exits_its_generator_on_the_loop(_: object) -> None:
    raise GeneratorExit


async def cancels_itself(_: object) -> None:
    task = asyncio.current_task()
    assert task
    task.cancel()
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (exits, "SystemExit"),
        (exits_on_the_loop, "SystemExit"),
        (is_interrupted_on_the_loop, "KeyboardInterrupt"),
        (is_odd_on_the_loop, "OddError"),
        (exits_its_generator_on_the_loop, "GeneratorExit"),
        (has_odd_children, "OddError"),
        (stops, "StopIteration"),
        (is_cancelled, "CancelledError"),
        (is_cancelled_on_the_loop, "CancelledError"),
        (cancels_itself, "CancelledError"),
    ],
)
async def test_what_would_end_the_worker_is_an_error_of_its_job(
    place: Place, function: Callable[..., Any], name: str
) -> None:
    worker = Worker()
    worker.task("odd")(function)
    worker.task("even")(lambda payload: payload)
    async with working(place, worker) as queue:
        (odd,) = await queue.add("odd", "1")
        outcome = await place.end(odd)
        (even,) = await queue.add("even", "2")
        assert (await place.end(even)).result == b"2", "the worker goes on"
    assert (outcome.exitcode, name in outcome.result.decode()) == (500, True)


@pytest.mark.parametrize("kind", [asyncio.CancelledError, OddError])
async def test_a_block_that_raises_what_is_no_exception_ends_its_job(place: Place, kind: type[BaseException]) -> None:
    """Also a cancellation, if it is the block's own."""
    async with place.open() as queue:
        await queue.register("resize", options={"max_attempts": 1})
        (job_id,) = await queue.add("resize", "1")
        with pytest.raises(kind):
            async with await queue.next():
                raise kind
        assert (await place.end(job_id)).exitcode == 500


async def test_only_tasks_that_say_so_are_registered(place: Place) -> None:
    worker = Worker()
    for job_type, fields in (("a", {"register": True}), ("b", {"timeout_s": 9}), ("c", {}), ("d", {"register": False})):
        worker.task(job_type, **fields)(lambda payload: payload)
    async with place.open() as queue:
        await worker.run(queue, begun=worker.stop)
    assert sorted(row.jobtype for row in await place.store.list_handlers(place.tenant)) == [
        f"{place.tenant}-{name}" for name in "ab"
    ]


async def test_a_worker_says_why_nothing_will_come(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker()
    for name in ("mine", "of.nobody"):
        worker.task(name)(lambda payload: payload)

    async def told() -> list[str]:
        return [record.__dict__["type"] for record in caplog.records if record.message == "worker.type_without_handler"]

    async with place.open() as queue:
        await queue.register("mine")
        running = asyncio.create_task(worker.run(queue))
        assert await until(told) == ["of.nobody"]
        worker.stop()
        await running


@pytest.mark.parametrize("types", [(), ("of.*", "mine"), ("mine", "of.nobody")])
async def test_a_queue_says_why_nothing_will_come(
    place: Place, caplog: pytest.LogCaptureFixture, types: tuple[str, ...]
) -> None:
    async def told() -> list[str]:
        return [record.__dict__["type"] for record in caplog.records if record.message == "queue.type_without_handler"]

    async with place.open() as queue:
        await queue.add("of.nobody", "1")
        if types:
            await queue.register("mine")
        waiting = asyncio.create_task(queue.next(*types))
        assert await until(told) == [next((name for name in types if name != "mine"), "*")]
        await queue.register("of.nobody")
        async with asyncio.timeout(60):
            job = await waiting
        assert job.type == "of.nobody"
        await queue.add("of.nobody", "2")
        assert (await queue.next(*types)).text == "2"
        assert len(await told()) == 1


@pytest.mark.parametrize("fields", [{}, {"register": True}])
async def test_a_worker_can_be_stopped_while_its_server_does_not_answer(fields: dict[str, bool]) -> None:
    worker, asked = Worker(), asyncio.Event()
    for number in range(3):
        worker.task(f"resize.{number}", **fields)(lambda payload: payload)

    async def say_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    link = RemoteLink(url, "fk_x", "acme")
    running = asyncio.create_task(worker.run(Queue(link)))
    try:
        await asked.wait()
        worker.stop()
        async with asyncio.timeout(30):
            await running
    finally:
        await link.close()
        server.close()


async def test_a_worker_works_while_nobody_tells_it_of_its_types(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker()
    worker.task("even")(lambda payload: payload)

    async def never(_: str) -> str:
        await asyncio.Event().wait()
        return ""

    async with working(place, worker) as queue:
        monkeypatch.setattr(queue, "language", never)
        (job_id,) = await queue.add("even", "2")
        assert (await place.end(job_id)).result == b"2"


async def test_a_worker_whose_type_is_refused_does_not_begin(place: Place) -> None:
    worker, begun = Worker(), asyncio.Event()
    worker.task("resize", options={"max_atempts": 1})(lambda payload: payload)
    async with place.open() as queue:
        with pytest.raises(InvalidInput, match="max_atempts"):
            await worker.run(queue, begun=begun.set)
    assert not begun.is_set()


async def test_a_plain_function_says_how_far_it_is(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker()
    told: list[bytes | None] = []

    @worker.task("resize")
    def resize(payload: str, job: ThreadJob) -> str:
        job.progress(50)
        job.log(f"half of {payload}, attempt {job.attempts}")
        job.add("mail", {"to": "bob"})
        assert not job.is_lost
        return job.text

    async with working(place, worker) as queue:
        report = queue._link.report

        async def spied(reports: Sequence[Report]) -> list[Verdict]:
            told.extend(each.progress for each in reports)
            return await report(reports)

        monkeypatch.setattr(queue._link, "report", spied)
        await queue.register("mail")
        (job_id,) = await queue.add("resize", "cat")
        outcome = await place.end(job_id)
        assert outcome.exitcode == 200, outcome.result
        assert (await queue.next("mail")).json() == {"to": "bob"}
    assert (outcome.exitcode, outcome.log, told) == (200, b"half of cat, attempt 1\n", [b"50", None, None])


async def test_a_plain_function_whose_job_is_lost_can_see_it(place: Place) -> None:
    worker, begun, given_up = Worker(), threading.Event(), threading.Event()
    seen: list[str] = []

    @worker.task("resize")
    def resize(_: object, job: ThreadJob) -> None:
        begun.set()
        while not job.is_lost and not given_up.wait(0.01):
            pass
        try:
            job.log("still here")
        except LeaseLost as error:
            seen.append(str(error))

    async def is_begun() -> bool:
        return begun.is_set()

    async def is_seen() -> list[str]:
        return seen

    async with working(place, worker, lease_s=1.0) as queue:
        try:
            (job_id,) = await queue.add("resize", "1")
            await until(is_begun)
            await place.store.cancel_job(place.tenant, job_id, now_ms=place.now_ms(), running=True)
            assert await until(is_seen) == [f"job {job_id} is lost"]
        finally:
            given_up.set()


async def test_a_plain_function_learns_that_its_job_was_given_back(tmp_path: Path) -> None:
    worker, has_begun, may_go_on = Worker(), threading.Event(), threading.Event()
    seen: asyncio.Queue[object] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    @worker.task("resize")
    def resize(_: object, job: ThreadJob) -> None:
        has_begun.set()
        may_go_on.wait(20)
        loop.call_soon_threadsafe(seen.put_nowait, job.is_lost)
        try:
            job.log("x")
        except LeaseLost as error:
            loop.call_soon_threadsafe(seen.put_nowait, str(error))

    async with open_queue(f"sqlite://{tmp_path}/a.db") as queue:
        await queue.register("resize")
        await queue.add("resize", "1")
        running = asyncio.create_task(worker.run(queue, grace_s=0.0))
        await asyncio.to_thread(has_begun.wait)
        worker.stop()
        await running
        may_go_on.set()
        assert await seen.get() is True
        assert "was given back" in str(await seen.get())
