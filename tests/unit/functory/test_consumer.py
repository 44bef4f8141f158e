"""A consumer in a program of its own: nothing skipped, one look for many checks, progress that survives."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from functory.consumers import Consumer, Job, Notified, WindowLimits
from scheduler.errors import InvalidOptions, NotStarted
from store.errors import InvalidValue, StoreUnavailable
from store.progress_file import ProgressFile

LIMITS = WindowLimits(max_processing=3, max_search_ahead=10)


class Numbers:
    """A source whose job at an index is the index times ten. Counts how often it was asked."""

    def __init__(self, head: int = 0) -> None:
        self.last = head
        self.heads = 0
        self.missing: set[int] = set()
        self.gate = asyncio.Event()
        self.gate.set()

    async def head(self) -> int:
        self.heads += 1
        await self.gate.wait()
        return self.last

    async def at_index(self, index: int) -> Job[int] | None:
        return None if index in self.missing else Job(index, index * 10)


class Held:
    """A worker that ends an index when it is told to."""

    def __init__(self) -> None:
        self.ends: dict[int, asyncio.Future[None]] = {}
        self.begun: list[int] = []
        self.changed = asyncio.Condition()

    async def run(self, job: Job[int], consumer: Notified) -> None:
        assert job.data == job.index * 10
        self.begun.append(job.index)
        end = self.ends[job.index] = asyncio.get_running_loop().create_future()
        async with self.changed:
            self.changed.notify_all()
        try:
            await end
        finally:
            del self.ends[job.index]
        consumer.notify_job_is_done(job.index)

    def end(self, *indexes: int) -> None:
        for index in indexes:
            self.ends[index].set_result(None)

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(10), self.changed:
            await self.changed.wait_for(is_so)


class AtOnce:
    """A worker whose jobs are done when it has them."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def run(self, job: Job[int], consumer: Notified) -> None:
        self.seen.append(job.index)
        consumer.notify_job_is_done(job.index)


class Memory:
    def __init__(self, processed: int | None = None) -> None:
        self.processed = processed
        self.kept: list[int] = []
        self.moved = asyncio.Condition()

    async def processed_index(self) -> int | None:
        return self.processed

    async def set_processed_index(self, index: int) -> None:
        async with self.moved:
            self.processed = index
            self.kept.append(index)
            self.moved.notify_all()

    async def until(self, index: int) -> None:
        async with asyncio.timeout(10), self.moved:
            await self.moved.wait_for(lambda: self.processed == index)


@pytest.fixture
async def progress(tmp_path: Path) -> AsyncIterator[ProgressFile]:
    async with ProgressFile(tmp_path / "progress.db", "blocks") as file:
        yield file


async def test_all_jobs_are_done_and_the_progress_is_kept(progress: ProgressFile, tmp_path: Path) -> None:
    jobs, worker = Numbers(25), AtOnce()
    reached = asyncio.Event()
    told: list[int] = []

    def note(index: int) -> None:
        told.append(index)
        if index == 25:
            reached.set()

    consumer = Consumer(jobs, worker, progress, LIMITS, on_progress=note)
    await consumer.start()
    await asyncio.wait_for(reached.wait(), 10)
    await consumer.stop()
    await consumer.done()
    assert worker.seen == list(range(1, 26))
    assert told == sorted(set(told)), "each move once, in order"
    async with ProgressFile(tmp_path / "progress.db", "blocks") as again:
        assert await again.processed_index() == 25
    async with ProgressFile(tmp_path / "progress.db", "other") as other:
        assert await other.processed_index() is None


async def test_no_more_workers_than_allowed_and_none_too_far_ahead() -> None:
    jobs, worker, progress = Numbers(100), Held(), Memory()
    consumer = Consumer(jobs, worker, progress, WindowLimits(max_processing=3, max_search_ahead=5))
    await consumer.start()
    await worker.until(lambda: worker.begun == [1, 2, 3])
    worker.end(2, 3)
    await worker.until(lambda: worker.begun == [1, 2, 3, 4, 5])
    worker.end(4, 5)
    await asyncio.sleep(0)
    consumer.check()
    jobs.gate.clear()
    await asyncio.sleep(0)
    assert worker.begun == [1, 2, 3, 4, 5], "6 is beyond max_search_ahead while 1 hangs, although workers are free"
    assert progress.kept == [], "nothing is consecutive yet"
    jobs.gate.set()
    worker.end(1)
    await progress.until(5)
    assert progress.kept == [5], "one write for the whole stretch"
    await worker.until(lambda: worker.begun == [1, 2, 3, 4, 5, 6, 7, 8])
    await consumer.stop(grace_s=0)


async def test_a_source_without_the_job_yet_is_asked_again() -> None:
    jobs, worker, progress = Numbers(3), AtOnce(), Memory()
    jobs.missing = {2}
    consumer = Consumer(jobs, worker, progress, LIMITS)
    await consumer.start()
    await progress.until(1)
    assert worker.seen == [1]
    jobs.missing.clear()
    consumer.check()
    await progress.until(3)
    assert worker.seen == [1, 2, 3]
    await consumer.stop()


async def test_many_checks_cause_one_look() -> None:
    jobs = Numbers(0)
    consumer = Consumer(jobs, AtOnce(), Memory(), LIMITS)
    await consumer.start()
    await consumer.ready()
    assert jobs.heads == 1
    jobs.gate.clear()
    consumer.check()
    await asyncio.sleep(0)
    assert jobs.heads == 2, "the look is under way"
    for _ in range(1000):
        consumer.check()
        await asyncio.sleep(0)
    assert jobs.heads == 2
    jobs.gate.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert jobs.heads == 3, "one more for all that asked meanwhile"
    await consumer.stop()


@pytest.mark.parametrize("ended_first", [(), (1,), (2,), (1, 3), (2, 3), (1, 2, 3)])
async def test_after_a_crash_it_goes_on_where_nothing_is_missing(ended_first: tuple[int, ...]) -> None:
    progress, worker = Memory(), Held()
    first = Consumer(Numbers(6), worker, progress, LIMITS)
    await first.start()
    await worker.until(lambda: worker.begun == [1, 2, 3])
    worker.end(*ended_first)
    await asyncio.sleep(0)
    await first.stop(grace_s=0)  # what is in work is cancelled, as in a crash
    kept = progress.processed or 0
    rest = AtOnce()
    second = Consumer(Numbers(6), rest, progress, LIMITS)
    await second.start()
    await progress.until(6)
    await second.stop()
    assert rest.seen == list(range(kept + 1, 7)), "everything after the progress, in order"


async def test_a_worker_that_raises_ends_the_consumer_and_keeps_its_index() -> None:
    progress = Memory()

    class Failing(AtOnce):
        def run(self, job: Job[int], consumer: Notified) -> None:
            if job.index == 3:
                raise RuntimeError("no disk")
            super().run(job, consumer)

    consumer = Consumer(Numbers(5), Failing(), progress, LIMITS)
    await consumer.start()
    with pytest.raises(RuntimeError, match="no disk"):
        await consumer.done()
    with pytest.raises(RuntimeError, match="no disk"):
        await consumer.ready()
    assert not consumer.is_running
    assert progress.processed in {None, 2}
    await consumer.stop()


async def test_a_coroutine_that_raises_ends_it_too_and_cancels_the_others() -> None:
    worker, progress = Held(), Memory()
    consumer = Consumer(Numbers(3), worker, progress, LIMITS)
    await consumer.start()
    await worker.until(lambda: len(worker.ends) == 3)
    worker.end(1)
    worker.ends[2].set_exception(ValueError("bad block"))
    with pytest.raises(ValueError, match="bad block"):
        await consumer.done()
    assert progress.processed == 1, "what was done before is kept"
    assert worker.ends == {}, "nothing is left behind"


async def test_stop_lets_workers_end_and_keeps_their_progress() -> None:
    worker, progress = Held(), Memory()
    consumer = Consumer(Numbers(9), worker, progress, LIMITS)
    await consumer.start()
    await worker.until(lambda: len(worker.ends) == 3)
    stopping = asyncio.create_task(consumer.stop())
    await asyncio.sleep(0)
    worker.end(1, 2, 3)
    await stopping
    assert progress.processed == 3
    assert worker.begun == [1, 2, 3], "no new ones"


async def test_after_the_grace_a_source_that_does_not_answer_is_left_and_progress_is_kept() -> None:
    jobs, worker, progress = Numbers(2), Held(), Memory()
    consumer = Consumer(jobs, worker, progress, LIMITS)
    await consumer.start()
    await worker.until(lambda: len(worker.ends) == 2)
    jobs.gate.clear()
    consumer.check()
    for _ in range(5):
        await asyncio.sleep(0)
    assert jobs.heads == 2, "it is being asked"
    consumer.notify_job_is_done(1)
    async with asyncio.timeout(10):
        await consumer.stop(grace_s=0)
    await consumer.done()
    assert progress.processed == 1
    assert not worker.ends
    jobs.gate.set()
    await consumer.start()
    await worker.until(lambda: 2 in worker.ends)
    await consumer.stop(grace_s=0)


async def test_start_and_stop_are_idempotent_and_it_can_start_again() -> None:
    worker, progress, jobs = AtOnce(), Memory(), Numbers(2)
    consumer = Consumer(jobs, worker, progress, LIMITS)
    await consumer.stop()
    await consumer.done()
    await consumer.start()
    await consumer.start()
    await progress.until(2)
    await consumer.stop()
    await consumer.stop()
    jobs.last = 4
    await consumer.start()
    await progress.until(4)
    await consumer.stop()
    assert worker.seen == [1, 2, 3, 4]


@pytest.mark.parametrize("part", ["worker", "source", "callback"])
async def test_a_cancellation_of_its_own_part_ends_the_consumer_and_is_told(part: str) -> None:
    """Otherwise the index would be in work for ever, or the consumer would seem to have stopped as it was told to."""
    jobs, progress = Numbers(5), Memory()

    def cancelled() -> None:
        raise asyncio.CancelledError

    class Cancelled(AtOnce):
        def run(self, job: Job[int], consumer: Notified) -> Coroutine[Any, Any, None] | None:  # type: ignore[override]
            return self.work(job, consumer)

        async def work(self, job: Job[int], consumer: Notified) -> None:
            if part == "worker" and job.index == 2:
                cancelled()
            super().run(job, consumer)

    if part == "source":
        jobs.at_index = lambda _: cancelled()  # type: ignore[assignment, return-value]
    told = (lambda _: cancelled()) if part == "callback" else None
    consumer = Consumer(jobs, Cancelled(), progress, LIMITS, on_progress=told)
    await consumer.start()
    async with asyncio.timeout(10):
        with pytest.raises(RuntimeError, match=f"the {part} of index 2|source.*callback raised CancelledError"):
            await consumer.done()
    assert not consumer.is_running
    await consumer.stop()


@pytest.mark.parametrize("part", ["worker", "callback"])
async def test_its_own_parts_may_stop_it(part: str) -> None:
    jobs, progress, worked = Numbers(9), Memory(), list[int]()

    class Stopping:
        async def run(self, job: Job[int], notified: Notified) -> None:
            worked.append(job.index)
            notified.notify_job_is_done(job.index)
            if part == "worker":
                await consumer.stop()

    async def told(_: int) -> None:
        if part == "callback":
            await consumer.stop()

    consumer = Consumer(jobs, Stopping(), progress, LIMITS, on_progress=told)
    await consumer.start()
    async with asyncio.timeout(10):
        await consumer.done()
    assert progress.processed == len(worked) < 9


async def test_two_who_start_it_start_it_once_and_a_stop_meanwhile_counts() -> None:
    jobs, worker = Numbers(3), AtOnce()

    class Slow(Memory):
        gate = asyncio.Event()

        async def processed_index(self) -> int | None:
            await self.gate.wait()
            return await super().processed_index()

    progress = Slow()
    consumer = Consumer(jobs, worker, progress, LIMITS)
    starting = [asyncio.create_task(consumer.start()) for _ in range(2)]
    await asyncio.sleep(0)
    stopping = asyncio.create_task(consumer.stop())
    await asyncio.sleep(0)
    progress.gate.set()
    await asyncio.gather(*starting)
    async with asyncio.timeout(10):
        await stopping
    assert not consumer.is_running
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "consumer"], "no other one runs"


async def test_it_begins_at_the_start_index_only_if_no_progress_was_kept() -> None:
    for kept, expected in ((None, [7, 8]), (3, [4, 5, 6, 7, 8])):
        worker, progress = AtOnce(), Memory(kept)
        consumer = Consumer(Numbers(8), worker, progress, LIMITS, start_index=7)
        await consumer.start()
        await progress.until(8)
        await consumer.stop()
        assert worker.seen == expected


async def test_an_index_that_was_never_handed_out_cannot_be_done() -> None:
    consumer = Consumer(Numbers(0), AtOnce(), Memory(), LIMITS)
    await consumer.start()
    with pytest.raises(NotStarted, match="index 1 "):
        consumer.notify_job_is_done(1)
    await consumer.stop()


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptions, match="processed index"):
        Consumer(Numbers(0), AtOnce(), Memory(), LIMITS, start_index=0)
    with pytest.raises(InvalidValue, match="name of a consumer"):
        ProgressFile(tmp_path / "p.db", "")


async def test_progress_never_falls_and_a_missing_folder_is_said(progress: ProgressFile, tmp_path: Path) -> None:
    await progress.set_processed_index(5)
    await progress.set_processed_index(4)
    assert await progress.processed_index() == 5
    async with ProgressFile(tmp_path / "no" / "p.db", "blocks") as nowhere:
        with pytest.raises(StoreUnavailable, match="folder exists"):
            await nowhere.processed_index()
