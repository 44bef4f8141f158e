"""functory.queue: one suite for both kinds of queue, in this process and over HTTP."""

import asyncio
import json
from typing import Any

import pytest

from functory.errors import InvalidInput, LeaseLost
from functory.queue import Fail, Job, Retry, Worker, WorkerDrained
from functory.wire.payloads import decode
from functory.workers.values import Answer, Verdict
from store.base import JobState
from tests.support.jobs import new_job
from tests.support.queue_places import Place
from tests.support.service import until
from vocabulary.names import jobtype_of


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drained worker is answered when its time is up."""
    monkeypatch.setattr("functory.queue.queue._WAIT_S", 2.0)


async def test_what_a_second_unique_job_does_not_say_stays(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("feed")
        (job_id,) = await queue.add("feed", "one", unique="news", priority=1000, delay_s=1000)
        again = new_job(1, jobtype=jobtype_of(place.tenant, "feed"), unique="news", priority=1000, repeat="HOURLY")
        assert (await place.store.create_job(again, now_ms=place.now_ms())).id == job_id
        assert await queue.add("feed", "two", unique="news") == [job_id]
        record = await place.record(job_id)
        assert record is not None
        assert (record.job.data, record.job.priority, record.job.repeat) == (b"two", 1000, "HOURLY")
        await queue.add("feed", "three", unique="news", priority=0)
        record = await place.record(job_id)
        assert record is not None
        assert (record.job.data, record.job.priority) == (b"three", 0)


async def test_the_worker_flow(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("resize", body="a name")
        (job_id,) = await queue.add("resize", "cat.png")
        job = await queue.next()
        assert (job.id, job.type, job.text, job.attempts) == (job_id, "resize", "cat.png", 1)
        await job.done({"width": 40})
    outcome = await place.end(job_id)
    assert (outcome.exitcode, json.loads(outcome.result), outcome.isolation) == (200, {"width": 40}, "external")


async def test_jobs_one_after_the_other_and_what_was_not_begun_goes_back(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("resize.a", "resize.b", "mail")
        await queue.add("resize.a", "1", "2")
        await queue.add("resize.b", "3")
        await queue.add("mail", "4")
        seen = []
        jobs = queue.take("resize*", limit=8)
        async for job in jobs:
            seen.append(job.text)
            await job.done()
            if len(seen) == 2:
                break
        await jobs.aclose()  # type: ignore[attr-defined]
        left = await queue.take_some("resize*", limit=8, wait_s=30)
        assert sorted([*seen, *(job.text for job in left)]) == ["1", "2", "3"]
        assert [job.attempts for job in left] == [1], "it was given back unused"


async def test_an_exception_is_the_outcome_of_its_job(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("resize", options={"max_attempts": 2})
        ids = await queue.add("resize", "ok", "fail", "retry", "error")
        ends: dict[str, list[int]] = {}
        async for job in queue.take("resize"):
            ends.setdefault(job.text, []).append(job.attempts)
            async with job:
                if job.text == "fail":
                    raise Fail("no such file")
                if job.text == "retry":
                    raise Retry("busy", delay_s=0, payload="again")
                if job.text == "error":
                    raise ValueError("odd")
                job.result = job.text.upper()
            if ends.get("again") and len(ends.get("error", ())) == 2:
                break
        codes = [await place.end(job_id) for job_id in ids]
    assert [(it.code.value, it.result.decode().splitlines()[-1]) for it in codes] == [
        ("ok", "OK"),
        ("failed", "no such file"),
        ("ok", "AGAIN"),
        ("abandoned", "ValueError: odd"),
    ]


async def test_a_cancelled_block_gives_its_job_back(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("resize")
        await queue.add("resize", "1")
        begun = asyncio.Event()

        async def work() -> None:
            async with await queue.next():
                begun.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await queue.next()).attempts == 1


async def test_a_job_ends_once(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("resize")
        (job_id,) = await queue.add("resize", "1")
        job = await queue.next()
        await job.fail("no")
        with pytest.raises(InvalidInput, match="ends once"):
            await job.done()
        with pytest.raises(InvalidInput, match="is over"):
            await job.progress(1)
        async with job:
            pass
        assert (await place.end(job_id)).exitcode == 400


async def test_leases_are_kept_alive_and_a_lost_one_is_told(place: Place) -> None:
    async with place.open(lease_s=4.0) as queue:
        await queue.register("resize")
        await queue.add("resize", "1")
        job = await queue.next()
        first = await place.record(job.id)
        assert first

        async def renewed() -> bool:
            record = await place.record(job.id)
            assert record
            return record.job.dt_ms > first.job.dt_ms + 600

        await until(renewed)
        await place.store.cancel_job(place.tenant, job.id, now_ms=place.now_ms(), running=True)
        async with asyncio.timeout(30):
            await job.lost.wait()
        with pytest.raises(LeaseLost):
            await job.done("too late")


async def test_a_server_that_cannot_be_reached_costs_the_lease_and_not_the_program(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place.open(lease_s=1.0) as queue:
        await queue.register("resize")
        await queue.add("resize", "1")
        job = await queue.next()

        async def away(*_: object) -> list[Verdict]:
            raise OSError("the cable is cut")

        monkeypatch.setattr(queue._link, "renew", away)
        async with asyncio.timeout(30):
            await job.lost.wait()


async def test_progress_log_and_new_jobs(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("resize", "mail")
        (job_id,) = await queue.add("resize", b"\xff\x00")
        job = await queue.next("resize")
        assert job.payload == b"\xff\x00"
        await job.progress({"page": 3})
        await job.log("half")
        job.add("mail", {"to": "bob"})
        await job.done(b"\xff")
        assert (await queue.next("mail")).json() == {"to": "bob"}
        outcome = await place.end(job_id)
        assert (outcome.result, outcome.log) == (b"\xff", b"half\n")


async def test_a_parent_waits_for_the_children_that_it_made(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("book", "page")
        (book,) = await queue.add("book", "b")
        first = await queue.next("book")
        first.add("page", "1", child=1)
        first.add("page", "2", child=1, priority=1000)
        await first.done()
        pages = [await queue.next("page"), await queue.next("page")]
        assert [page.text for page in pages] == ["2", "1"]
        assert await queue.take_some("book") == [], "it waits for them"
        await pages[0].done("two")
        await pages[1].fail("one")
        again = await queue.next("book")
        assert (again.id, again.attempts) == (book, 1)
        await again.done("bound")
        assert (await place.end(book)).result == b"bound"


async def test_many_ends_share_requests(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async with place.open() as queue:
        await queue.register("resize")
        await queue.add("resize", *map(str, range(100)))
        jobs: list[Job] = []
        while len(jobs) < 100:
            jobs += await queue.take_some("resize", limit=100, wait_s=30)
        requests, report = 0, queue._link.report

        async def counted(reports: Any) -> list[Verdict]:
            nonlocal requests
            requests += 1
            return await report(reports)

        monkeypatch.setattr(queue._link, "report", counted)
        await asyncio.gather(*(job.done(job.text) for job in jobs))
        assert requests <= 5
        assert (await place.end(jobs[57].id)).result == jobs[57].text.encode()


async def test_a_report_that_is_refused_spoils_only_itself(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("resize")
        await queue.add("resize", "1", "2")
        jobs: list[Job] = []
        while len(jobs) < 2:
            jobs += await queue.take_some("resize", limit=2, wait_s=30)
        with pytest.raises(InvalidInput, match="progress: must have at most 4096 bytes"):
            await jobs[0].progress("x" * 5000)
        jobs[0].add("not a type|", "x")
        bad, good = await asyncio.gather(jobs[0].done(), jobs[1].done("fine"), return_exceptions=True)
        assert good is None
        assert bad is None or isinstance(bad, InvalidInput)
        assert (await place.end(jobs[1].id)).result == b"fine"


async def test_a_closed_queue_gives_back_what_is_in_hand(place: Place) -> None:
    async with place.open(name="a") as queue:
        await queue.register("resize")
        await queue.add("resize", "1", "2")
        await queue.next()
    async with place.open(name="b") as queue:
        found: list[Job] = []
        while len(found) < 2:
            found += await queue.take_some("resize", limit=2, wait_s=30)
        assert {job.attempts for job in found} == {1}
    with pytest.raises(InvalidInput, match="closed"):
        await queue.next()


async def test_a_worker_runs_plain_functions_and_coroutines_and_stops_gracefully(place: Place) -> None:
    worker, started, go = Worker(), asyncio.Event(), asyncio.Event()

    @worker.task("double", register=True)
    def double(payload: int) -> int:
        return payload * 2

    @worker.task("slow", options={"max_attempts": 3})
    async def slow(payload: str, job: Job) -> str:
        started.set()
        await go.wait()
        return f"{payload} by {job.type}"

    async with place.open() as queue:
        running = asyncio.create_task(worker.run(queue, concurrency=2))

        async def is_registered() -> bool:
            return len(await place.store.list_handlers(place.tenant)) == 2

        await until(is_registered)
        (first,) = await queue.add("double", 21)
        assert (await place.end(first)).result == b"42"
        (second,) = await queue.add("slow", "work")
        await started.wait()
        (third,) = await queue.add("slow", "more")
        worker.stop()
        go.set()
        await running
        assert (await place.end(second)).result == b"work by slow", "what ran could end"
    record = await place.record(third)
    assert record
    assert record.job.attempts <= 1


async def test_what_runs_for_too_long_at_a_stop_is_given_back(place: Place) -> None:
    worker, started = Worker(), asyncio.Event()

    @worker.task("slow", register=True)
    async def slow(_: str) -> None:
        started.set()
        await asyncio.Event().wait()

    async with place.open() as queue:
        running = asyncio.create_task(worker.run(queue))
        await queue.register("slow")
        await queue.add("slow", "x")
        await started.wait()
        worker.stop()
        worker.stop()
        await running
        assert (await queue.next()).attempts == 1


async def test_a_drained_worker_gets_nothing_more_and_stops_when_its_jobs_have_ended(place: Place) -> None:
    worker, started, go = Worker(), asyncio.Event(), asyncio.Event()

    @worker.task("slow", register=True)
    async def slow(_: str) -> str:
        started.set()
        await go.wait()
        return "done"

    async def knows() -> bool:
        return queue.is_draining

    async with place.open(name="old") as queue:
        running = asyncio.create_task(worker.run(queue, concurrency=2, grace_s=0))
        await queue.register("slow")
        (first,) = await queue.add("slow", "x")
        await started.wait()
        await place.drain(queue, "old", drained=True)
        (second,) = await queue.add("slow", "y")
        await until(knows)
        go.set()
        await running
        assert (await place.end(first)).result == b"done"
        with pytest.raises(WorkerDrained):
            await queue.next()
        await place.drain(queue, "old", drained=False)
        assert (await queue.next()).id == second


async def test_a_drained_worker_can_be_stopped(place: Place) -> None:
    worker, started = Worker(), asyncio.Event()

    @worker.task("slow", register=True)
    async def slow(_: str) -> None:
        started.set()
        await asyncio.Event().wait()

    async def knows() -> bool:
        return queue.is_draining

    async with place.open(name="old") as queue:
        running = asyncio.create_task(worker.run(queue, concurrency=2, grace_s=0))
        await queue.register("slow")
        (job_id,) = await queue.add("slow", "x")
        await started.wait()
        await place.drain(queue, "old", drained=True)
        await until(knows)
        worker.stop()
        await running
        record = await place.record(job_id)
        assert record
        assert (record.state, record.job.attempts) == (JobState.WAITING, 0)


def test_a_task_takes_a_payload_or_a_payload_and_a_job() -> None:
    worker = Worker()
    worker.task("a")(lambda payload: payload)
    with pytest.raises(InvalidInput, match="one parameter"):
        worker.task("b")(lambda: None)
    with pytest.raises(InvalidInput, match="by position"):

        @worker.task("b")
        def by_name(*, payload: object) -> None: ...

    with pytest.raises(InvalidInput, match="'b\\*' is not a type"):
        worker.task("b*")(lambda payload: payload)
    with pytest.raises(InvalidInput, match="two tasks"):
        worker.task("a")(lambda payload: payload)
    assert [decode(raw) for raw in (b'{"a": 1}', b"text", b"\xff", b"7")] == [{"a": 1}, "text", b"\xff", 7]


def test_verdicts_have_the_words_of_the_wire() -> None:
    assert {answer.value for answer in Answer} == {"ok", "late", "unknown", "fixed", "timed_out", "refused"}
