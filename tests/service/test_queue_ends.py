"""functory.queue: ends that the other side does not take, and queues that are closed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from functory.errors import ClientError, DaemonFailed, InvalidInput, ServerUnreachable
from functory.execution.outbox import Outbox
from functory.queue import Job, Queue, open_queue
from functory.queue.in_process import InProcessLink
from functory.wire.add_options import AddOptions
from functory.workers.values import Verdict
from store.base import JobState
from tests.support.queue_places import Place, open_place
from tests.support.service import until

MORE_THAN_THE_STORE_TAKES = (16 << 20) + 1


@pytest.fixture
async def remote(tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place("remote", tmp_path) as opened:
        yield opened


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_a_block_ends_its_job_also_if_its_result_is_too_large(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("resize")
        (job_id,) = await queue.add("resize", "1")
        async with await queue.next() as job:
            job.result = b"x" * MORE_THAN_THE_STORE_TAKES
        assert (await place.end(job_id)).exitcode == 413


async def test_a_block_ends_its_job_also_if_a_new_job_makes_no_sense(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("resize", "mail", options={"max_attempts": 1})
        (job_id,) = await queue.add("resize", "1")
        async with await queue.next() as job:
            job.add("mail", "x")
            job.add("not a type|", "x")
        assert (await place.end(job_id)).exitcode >= 400
        assert await queue.take_some("mail") == []


async def test_a_job_whose_end_is_refused_as_senseless_is_still_in_hand(remote: Place) -> None:
    async with remote.open(lease_s=4.0) as queue:
        await queue.register("resize")
        (job_id,) = await queue.add("resize", "1")
        job = await queue.next()
        first = await remote.record(job_id)
        job.add("not a type|", "x")
        for _ in range(2):
            with pytest.raises(InvalidInput, match="is not a type"):
                await job.done()

        async def is_renewed() -> bool:
            record = await remote.record(job_id)
            assert record
            assert first
            return record.job.dt_ms > first.job.dt_ms + 600

        await until(is_renewed)
        await job.fail("no such type")
        assert (await remote.end(job_id)).result == b"no such type"


async def test_who_ends_a_job_hears_that_it_has_failed_because_of_what_it_leaves(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("resize", "mail")
        first, second = await queue.add("resize", "1", "2")
        job = await queue.next("resize")
        job.add("mail", "x", priority="high")
        with pytest.raises(InvalidInput, match=f"job {job.id} has failed: .*priority"):
            await job.done()
        async with await queue.next("resize") as other:
            other.add("mail", "x", priority="high")
        assert {(await place.end(job_id)).exitcode for job_id in (first, second)} == {400}


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_who_ends_a_job_with_a_result_too_large_for_a_request_still_has_it(remote: Place) -> None:
    async with remote.open() as queue:
        await queue.register("resize")
        (job_id,) = await queue.add("resize", "1")
        job = await queue.next()
        with pytest.raises(InvalidInput, match=f"job {job.id}: .*request_too_large"):
            await job.done(b"x" * MORE_THAN_THE_STORE_TAKES)
        assert not job.is_over
        await job.fail("too large")
        assert (await remote.end(job_id)).result == b"too large"


@pytest.mark.parametrize("status", [429, 503, 507])
async def test_a_block_whose_end_is_never_delivered_says_so(
    remote: Place, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    async def refuse(*_: object) -> list[Verdict]:
        raise ClientError(status, "busy", "not now", {}, retry_after_s=0)

    monkeypatch.setattr("functory.queue.reporter._PATIENCE_S", 0.0)
    async with remote.open() as queue:
        await queue.register("resize")
        await queue.add("resize", "1")
        monkeypatch.setattr(queue._link, "report", refuse)
        with pytest.raises(ClientError, match="not now"):
            async with await queue.next() as job:
                job.result = "precious"


async def say_nothing(*_: object) -> list[Verdict]:
    return await asyncio.Event().wait()  # type: ignore[return-value]


async def refuse_to_listen(*_: object) -> list[Verdict]:
    raise ClientError(503, "busy", "not now", {}, retry_after_s=0)


async def be_away(*_: object) -> list[Verdict]:
    raise ServerUnreachable("away")


AWAY = pytest.mark.parametrize("away", [refuse_to_listen, be_away, say_nothing])


@AWAY
async def test_a_cancelled_block_stays_cancelled_if_its_job_cannot_be_given_back(
    place: Place, monkeypatch: pytest.MonkeyPatch, away: Callable[..., Any]
) -> None:
    monkeypatch.setattr("functory.queue.job._LEAVE_S", 0.0)
    async with place.open() as queue:
        await queue.register("resize")
        await queue.add("resize", "1")
        job = await queue.next()
        with monkeypatch.context() as patched:
            patched.setattr(queue._link, "give_back", away)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0), job:
                    await asyncio.Event().wait()


@AWAY
async def test_a_job_goes_on_whose_progress_cannot_be_told(
    place: Place, monkeypatch: pytest.MonkeyPatch, away: Callable[..., Any]
) -> None:
    monkeypatch.setattr("functory.queue.job._SAY_S", 0.0)
    async with place.open() as queue:
        await queue.register("resize")
        (job_id,) = await queue.add("resize", "1")
        async with await queue.next() as job:
            with monkeypatch.context() as patched:
                patched.setattr(queue._link, "report", away)
                patched.setattr("functory.queue.reporter._PATIENCE_S", 0.0)
                patched.setattr("functory.queue.reporter._ANSWER_S", 0.1)
                await job.progress(40)
                await job.log("still here")
                await queue._reporter.close()
            job.result = "fine"
        assert (await place.end(job_id)).result == b"fine"


async def test_a_job_of_which_nothing_can_be_recorded_has_not_failed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        """As if the store took no form of it: what listens is told that it is over, and nothing was recorded."""

    monkeypatch.setattr(Outbox, "_end_makers", refuse)
    async with place.open() as queue:
        await queue.register("resize", "mail")
        (job_id,) = await queue.add("resize", "1")
        job = await queue.next("resize")
        job.add("mail", "x", child=True)
        with pytest.raises(InvalidInput, match=f"job {job.id}: what it left behind cannot be recorded"):
            await job.done()
        record = await place.record(job_id)
        assert record
        assert record.outcome is None


async def test_options_of_a_new_job_are_what_python_has(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("book", "page")
        (book,) = await queue.add("book", "b")
        job = await queue.next("book")
        job.add("page", "1", child=True, unique=None, domain=None)
        job.add("page", "2", child=False, unique=None)
        await job.done()
        pages = {page.text: page for page in [await queue.next("page"), await queue.next("page")]}
        await pages["2"].done()
        assert await queue.take_some("book") == [], "it waits for its child"
        await pages["1"].done()
        assert (await queue.next("book")).id == book


async def test_a_queue_that_closes_takes_nothing_from_another_of_its_program(remote: Place) -> None:
    async with remote.open() as queue:
        await queue.register("resize")
        await queue.add("resize", "1")
        job = await queue.next()
        async with remote.open() as other:
            await other.add("resize", "2")
            await (await other.next()).done()
        await job.done()


async def test_who_only_adds_says_no_goodbye(remote: Place) -> None:
    async with remote.open(name="gpu") as queue:
        await queue.register("resize")
        await queue.add("resize", "1")
        job = await queue.next()
        async with remote.open(name="gpu") as other:
            await other.add("resize", "2")
        await job.done()


async def in_hand(queue: Queue, count: int) -> list[Job]:
    jobs: list[Job] = []
    while len(jobs) < count:
        jobs += await queue.take_some("resize", limit=min(1000, count - len(jobs)), wait_s=30)
    return jobs


async def test_more_jobs_than_fit_into_a_request_are_given_back(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("resize")
        await queue.add("resize", *map(str, range(1001)))
        await in_hand(queue, 1001)
    async with place.open() as queue, asyncio.timeout(60):
        assert {job.attempts for job in await in_hand(queue, 1001)} == {1}


async def test_a_close_that_cannot_say_an_end_still_gives_back_the_other_jobs(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functory.queue.queue._LAST_WORDS_S", 0.0)
    async with place.open() as queue:
        await queue.register("resize")
        _, other = await queue.add("resize", "1", "2")
        ending, _ = await in_hand(queue, 2)
        monkeypatch.setattr(queue._link, "report", say_nothing)
        done = asyncio.create_task(ending.done())
        await asyncio.sleep(0)
        await queue.close()
        with pytest.raises(ServerUnreachable):
            await done
    record = await place.record(other)
    assert record
    assert (record.state, record.job.attempts) == (JobState.WAITING, 0)


async def test_a_close_gives_no_job_back_whose_end_is_being_said(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been heard, and would be done once more."""
    async with place.open() as queue:
        await queue.register("resize")
        await queue.add("resize", "1", "2")
        ending, other = await in_hand(queue, 2)
        monkeypatch.setattr(queue._link, "report", say_nothing)
        done = asyncio.create_task(ending.done())
        await asyncio.sleep(0)
        assert queue._let_go([ending, other]) == [other]
        done.cancel()
        await asyncio.gather(done, return_exceptions=True)


@pytest.mark.parametrize("is_carried", [False, True])
async def test_a_close_waits_for_a_large_end_as_long_as_its_sending_may_take(
    place: Place, monkeypatch: pytest.MonkeyPatch, is_carried: bool
) -> None:
    monkeypatch.setattr("functory.queue.queue._LAST_WORDS_S", 0.0)
    monkeypatch.setattr("functory.queue.reporter._LEAST_BYTES_PER_S", 1)
    async with place.open() as queue:
        await queue.register("resize")
        (job_id,) = await queue.add("resize", "1")
        job = await queue.next()
        is_closing, report, close = asyncio.Event(), queue._link.report, queue._reporter.close

        async def report_late(reports: Any) -> list[Verdict]:
            await is_closing.wait()
            return await report(reports)

        async def close_and_tell() -> None:
            is_closing.set()
            await close()

        monkeypatch.setattr(queue._link, "report", report_late)
        monkeypatch.setattr(queue._reporter, "close", close_and_tell)
        large = b"x" * 600
        ending = job.retry("", delay_s=600, payload=large) if is_carried else job.done(large)
        done = asyncio.create_task(ending)
        await asyncio.sleep(0)
        await queue.close()
        await done
    record = await place.record(job_id)
    assert record
    assert record.outcome, "it was recorded"


async def test_a_goodbye_that_is_refused_leaves_no_connection_open(
    remote: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any) -> Any:
        raise ClientError(401, "unauthorized", "the key was revoked", {}, None)

    async with remote.open() as queue:
        await queue.register("resize")
        await queue.add("resize", "1")
        await queue.next()
        with monkeypatch.context() as patch:
            patch.setattr(queue._link, "give_back", refuse)
            with pytest.raises(ClientError):
                await queue.close()
    with pytest.raises(RuntimeError, match="Session is closed"):
        await queue._link.add("resize", [b"2"], AddOptions())


async def test_however_many_wait_for_a_job_those_in_hand_are_kept_and_end(
    remote: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection for each that waits is more than a pool of connections has."""
    monkeypatch.setattr("functory.queue.queue._MOMENT_S", 30.0)
    count = 110

    async def all_wait() -> bool:
        return remote.workers.gauges()["workers_waiting"] >= count

    async with remote.open(lease_s=2.0) as queue:
        await queue.register("resize", "mail")
        (job_id,) = await queue.add("resize", "1")
        job = await queue.next("resize")
        waiting = [asyncio.create_task(queue.next("mail")) for _ in range(count)]
        await until(all_wait)
        record = await remote.record(job_id)
        assert record

        async def is_renewed() -> bool:
            now = await remote.record(job_id)
            return now is not None and now.job.dt_ms > record.job.dt_ms

        await until(is_renewed)
        await queue.add("resize", "2")
        await job.done("1")
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert (await remote.end(job_id)).exitcode == 200


async def test_a_queue_whose_own_daemon_fails_says_so_to_who_waits(tmp_path: Path) -> None:
    """Nobody starts that again. Whoever waited for a job would ask for ever, and leave no turn to anybody."""

    async def fail() -> None:
        raise RuntimeError("a defect")

    async with AsyncExitStack() as stack:
        stack.enter_context(pytest.raises(DaemonFailed, match="a defect"))  # by the close, too
        queue = await stack.enter_async_context(open_queue(f"sqlite://{tmp_path}/jobs.db", lease_s=60.0))
        await queue.register("resize")
        await queue.add("resize", "1")
        job = await queue.next()
        waiting = asyncio.create_task(queue.next())
        assert isinstance(queue._link, InProcessLink)
        hearing = queue._link._daemon.hearing
        hearing._errands["defect"] = fail
        hearing._woken.set()
        for step in (waiting, queue.next(), queue.add("resize", "1"), job.done()):
            async with asyncio.timeout(30):
                with pytest.raises(DaemonFailed, match="the queue has ended: the peers loop ended"):
                    await step


async def test_what_a_block_raises_is_not_hidden_by_a_close_that_fails(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """A name that is too long is refused for the first time when jobs are asked for, and again with the goodbye."""
    with pytest.raises(InvalidInput, match="worker"):
        async with place.open(name="n" * 101) as queue:
            await queue.take_some("resize")
    assert {record.message for record in caplog.records if "closed" in record.message} == {"queue.not_closed"}
