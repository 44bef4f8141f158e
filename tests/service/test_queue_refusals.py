"""functory.queue: what both kinds of queue refuse, with the same error, and what they show of a worker."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from functory.errors import FunctoryError
from functory.queue import Conflict, Fail, InvalidInput, Job, NotFound, OverLimit, Retry, Worker
from functory.workers.presence import Seen
from tests.support.queue_places import Place
from tests.support.service import until

if TYPE_CHECKING:
    from collections.abc import Awaitable

NAN = float("nan")


async def test_what_no_queue_takes_is_refused_in_the_same_words(place: Place) -> None:
    wrong: list[tuple[object, dict[str, Any], str]] = [
        ("x", {"delay_s": -1}, "delay_s must be from 0 to 3,155,760,000, not -1"),
        ("x", {"delay_s": 1e12}, "delay_s must be from 0 to 3,155,760,000, not 1e+12"),
        ("x", {"delay_s": NAN}, "delay_s must be a finite number, not nan"),
        ("x", {"delay_s": float("inf")}, "delay_s must be a finite number, not inf"),
        ("x", {"unique": "\ud800"}, "unique holds a lone surrogate, which is not text"),
        ("x", {"domain": "\ud800"}, "domain holds a lone surrogate, which is not text"),
        ("x", {"key": "\ud800"}, "key holds a lone surrogate, which is not text"),
        *(("x", {name: ""}, f"{name} is empty: leave it out") for name in ("unique", "domain", "key", "parent")),
        ("\ud800", {}, "the payload holds a lone surrogate, which is not text"),
        (NAN, {}, "the payload cannot be written as JSON"),
        ({"deep": [NAN]}, {}, "the payload cannot be written as JSON"),
        (object(), {}, "the payload cannot be written as JSON"),
    ]
    async with place.open() as queue:
        await queue.register("resize")
        for payload, options, says in wrong:
            with pytest.raises(InvalidInput) as caught:
                await queue.add("resize", payload, **options)
            assert says in str(caught.value)
        (job_id,) = await queue.add("resize", {"a": 1.5}, delay_s=0, unique="\U0001f600")
        assert (await queue.next()).id == job_id, "nothing else was added"


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_a_mistake_is_the_same_error_on_both_kinds(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("resize")
        await queue.add("resize", "x", unique="one")
        job = await queue.next()
        mistakes: list[tuple[Awaitable[Any], type[Exception], str]] = [
            (queue.add("resize", "x", unique="one"), Conflict, "the unique name 'one' is taken"),
            (queue.add("resize", "x", parent="nobody"), NotFound, "job nobody"),
            (queue.add("resize", b"x" * (1 << 20) + b"x"), OverLimit, "1048577"),
            (queue.add("resize", "x", priority=7), InvalidInput, "priority"),
            (queue.add("resize", "x", repeat="0 25 * * *"), InvalidInput, "repeat"),
            (queue.add("resize", "x", repeat="0 4 * * *" + " " * 200), InvalidInput, "repeat must have at most 200"),
            (queue.add("resize", "x", repeat=60), InvalidInput, "repeat must be text, not 60"),  # type: ignore[arg-type]
            (queue.add("resize", "x", key=b"k"), InvalidInput, "key must be text, not b'k'"),  # type: ignore[arg-type]
            (queue.add("resize", "x", "y", unique="two"), InvalidInput, "unique is the name of one job"),
            (queue.add("resize", "x", domain="a\n"), InvalidInput, "rate domain 'a\\n'"),
            (queue.add("resize", "x", key="k" * 256), InvalidInput, "key"),
            (queue.add("bad type", "x"), InvalidInput, "'bad type' is not a type"),
            (queue.add(None, "x"), InvalidInput, "None is not a type"),  # type: ignore[arg-type]
            (queue.add("resize"), InvalidInput, "give a payload"),
            (queue.register("good", "bad type"), InvalidInput, "'bad type' is not a type"),
            (queue.register("resize", options={"max_atempts": 3}), InvalidInput, "options.max_atempts"),
            (queue.take_some("resize", limit=0, capacity=1), InvalidInput, "limit"),
        ]
        for mistake, kind, says in mistakes:
            with pytest.raises(kind) as caught:
                await mistake
            assert isinstance(caught.value, FunctoryError)
            assert says in str(caught.value)
            assert "-bad type" not in str(caught.value), "the caller named no tenant"
        with pytest.raises(InvalidInput, match="unique is empty"):
            job.add("resize", "x", unique="")
        await job.done()


async def test_a_result_that_json_cannot_say_is_an_error_of_its_job(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("resize", options={"max_attempts": 1})
        (job_id,) = await queue.add("resize", "1")
        async with await queue.next() as job:
            for wrong in (job.progress(NAN), job.done(NAN), job.retry("later", delay_s=-1)):
                with pytest.raises(InvalidInput):
                    await wrong
            job.result = NAN
        outcome = await place.end(job_id)
    assert (outcome.exitcode, b"the result cannot be written as JSON" in outcome.result) == (500, True)


class Unspeakable(Fail):
    def __str__(self) -> str:
        raise TypeError("no words")


MINUTE: Any = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("error", "told"),
    [(Retry("later", delay_s=MINUTE), b"delay_s must be a number of seconds"), (Unspeakable(), b"no words")],
)
async def test_an_end_that_cannot_be_said_is_an_error_of_its_job(place: Place, error: Exception, told: bytes) -> None:
    async with place.open() as queue:
        await queue.register("resize", options={"max_attempts": 1})
        (job_id,) = await queue.add("resize", "1")
        async with await queue.next() as job:
            raise error
        assert job.is_over
        outcome = await place.end(job_id)
    assert (outcome.exitcode, told in outcome.result) == (500, True)


@pytest.mark.parametrize("concurrency", [0, -1])
async def test_a_worker_that_could_never_work_does_not_start(place: Place, concurrency: int) -> None:
    worker = Worker()
    worker.task("resize")(lambda payload: payload)
    async with place.open() as queue:
        with pytest.raises(InvalidInput, match=f"concurrency must be 1 or more, not {concurrency}"):
            async with asyncio.timeout(10):
                await worker.run(queue, concurrency=concurrency)


async def test_the_capacity_of_a_worker_is_its_own_while_it_has_less_room(place: Place) -> None:
    worker, started, go = Worker(), asyncio.Event(), asyncio.Event()

    @worker.task("slow", register=True)
    async def slow(_: str, job: Job) -> None:
        started.set()
        await go.wait()

    async with place.open(name="eight") as queue:
        running = asyncio.create_task(worker.run(queue, concurrency=8))
        await queue.register("slow")
        await queue.add("slow", "1")
        await started.wait()
        first = await place.seen(queue, "eight")
        assert first
        await queue.add("slow", "2")

        async def both_run() -> Seen | None:
            seen = await place.seen(queue, "eight")
            return seen if seen is not None and seen.running == 2 else None

        assert ((await until(both_run)).capacity, first.capacity) == (8, 8)
        go.set()
        worker.stop()
        await running
