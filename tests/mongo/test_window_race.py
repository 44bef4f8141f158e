"""Between any two steps of whoever holds a job or opens a window the consumer ends, or moves its window: no job is held
for ever, and no window stays open without a consumer."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from store.base import ConsumerRecord, Creation, JobState, Store, WindowMove
from store.errors import Conflict, NotFound, StoreUnavailable
from store.mongo import MongoStore
from store.mongo.records import consumers
from store.url import open_store
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, claim_one, job_id, making, new_job
from tests.support.store_audit import check_counters
from tests.support.turns import interleave, open_pair

pytestmark = pytest.mark.slow

NAME = "verify"
MAKER = "acme-maker"
Verb = Callable[[int, Store], Awaitable[object]]


def type_of(number: int) -> str:
    return f"acme-t{number}"


async def replay(number: int, store: Store) -> object:
    return await store.replay_jobs(TENANT, [job_id(number)], dt_ms=T0, now_ms=T0, data=b"x" * 100_000)


async def add(number: int, store: Store) -> object:
    return await store.add_jobs([new_job(number + 1, jobtype=type_of(number))], now_ms=T0)


async def create(number: int, store: Store) -> object:
    return await store.create_jobs([Creation(new_job(number + 1, jobtype=type_of(number), unique="a"))], now_ms=T0)


async def make(number: int, store: Store) -> object:
    record = await store.get_job(TENANT, job_id(number + 2), now_ms=T0)
    assert record is not None
    end = making(archive(record.job), new_job(number + 1, jobtype=type_of(number)))
    return await store.release_with_jobs(OWNER, [end], now_ms=T0)


async def end(store: Store) -> None:
    while (await store.end_consumer(TENANT, NAME, now_ms=T0)).more:
        pass


async def move_on(store: Store) -> None:
    """The window goes over the number, whose job was cancelled: nothing looks there again."""
    (record,) = await store.lead_consumers(OWNER, lease_ms=1000, now_ms=T0)
    move = WindowMove(TENANT, NAME, record.token, processed=0, released=1, after=0, skip_failed=True, note="")
    await store.move_window(move, now_ms=T0)
    await store.move_window(move._replace(processed=1), now_ms=T0)


@pytest.mark.parametrize(("verb", "other"), [(replay, end), (replay, move_on), (add, end), (create, end), (make, end)])
async def test_no_job_is_held_for_ever(mongo_url: str, verb: Verb, other: Callable[[Store], Awaitable[object]]) -> None:
    async with open_pair(mongo_url) as pair:
        store, stop_at, was_stopped = pair.other, 0, True
        while was_stopped:
            stop_at += 1
            number = 10 * stop_at
            await store.set_consumer(ConsumerRecord(TENANT, NAME, type_of(number), "{}", T0))
            await store.add_jobs([new_job(number, jobtype=type_of(number))], now_ms=T0)
            await store.cancel_job(TENANT, job_id(number), now_ms=T0)
            await store.add_jobs([new_job(number + 2, jobtype=MAKER)], now_ms=T0)
            await claim_one(store, jobtype=MAKER)
            _, _, was_stopped = await interleave(pair, partial(verb, number), other, stop_at)
            states = await store.get_states(TENANT, [job_id(number), job_id(number + 1)], now_ms=T0)
            assert JobState.PAUSED not in states.values(), f"before step {stop_at}"
            assert len(await claim(store, jobtype=type_of(number))) == 1
            await check_counters(store, TENANT, T0)
            if other is not end:
                await end(store)


async def hold(token: int, _number: int, store: Store) -> None:
    with suppress(Conflict):
        await store.hold_jobs(TENANT, NAME, token, after=0, now_ms=T0)


async def move(token: int, _number: int, store: Store) -> None:
    first = WindowMove(TENANT, NAME, token, processed=0, released=0, after=0, skip_failed=True, note="")
    with suppress(Conflict):
        await store.move_window(first, now_ms=T0)


async def append(token: int, number: int, store: Store) -> None:
    with suppress(Conflict):
        await store.append_job(TENANT, NAME, token, 1, new_job(number + 2, jobtype=type_of(number)), now_ms=T0)


async def create_consumer(_token: int, number: int, store: Store) -> None:
    with suppress(Conflict):
        await store.set_consumer(ConsumerRecord(TENANT, NAME, type_of(number), "{}", T0))


async def end_if_there(store: Store) -> None:
    with suppress(NotFound):
        await end(store)


async def delete(store: Store) -> None:
    while (await store.delete_tenant(TENANT)).more:
        pass


@pytest.mark.parametrize(
    ("verb", "other"),
    [
        (hold, end_if_there),
        (move, end_if_there),
        (append, end_if_there),
        (create_consumer, end_if_there),
        (move, delete),
        (create_consumer, delete),
    ],
)
async def test_no_window_is_open_without_a_consumer(
    mongo_url: str,
    verb: Callable[[int, int, Store], Awaitable[None]],
    other: Callable[[Store], Awaitable[None]],
) -> None:
    async with open_pair(mongo_url) as pair:
        store, stop_at, was_stopped, token = pair.other, 0, True, 0
        while was_stopped:
            stop_at += 1
            number = 10 * stop_at
            if verb is not append:
                await store.add_jobs([new_job(number, jobtype=type_of(number), indexed=True)], now_ms=T0)
            if verb is not create_consumer:
                consumer = ConsumerRecord(TENANT, NAME, type_of(number), "{}", T0, is_pulled=verb is append)
                await store.set_consumer(consumer)
                ((*_, token, _, _),) = await store.lead_consumers(OWNER, lease_ms=1000, now_ms=T0)
            _, _, was_stopped = await interleave(pair, partial(verb, token, number), other, stop_at)
            if await store.get_consumer(TENANT, NAME) is None:
                await store.add_jobs([new_job(number + 1, jobtype=type_of(number))], now_ms=T0)
                ids = [job_id(number), job_id(number + 1), job_id(number + 2)]
                states = await store.get_states(TENANT, ids, now_ms=T0)
                assert set(states.values()) == {JobState.WAITING}, f"before step {stop_at}"
            if other is end_if_there:
                await check_counters(store, TENANT, T0)
            await end_if_there(store)


async def move_far(token: int, _number: int, store: Store) -> None:
    far = WindowMove(TENANT, NAME, token, processed=0, released=4, after=0, skip_failed=True, note="")
    with suppress(Conflict):
        await store.move_window(far, now_ms=T0)


async def end_as_well(_token: int, _number: int, store: Store) -> None:
    await end_if_there(store)


@pytest.mark.parametrize("verb", [create_consumer, move_far, end_as_well])
async def test_who_is_late_leaves_the_window_of_the_next_consumer_alone(
    mongo_url: str, verb: Callable[[int, int, Store], Awaitable[None]]
) -> None:
    async def replace(number: int, store: Store) -> None:
        await end_if_there(store)
        await store.set_consumer(ConsumerRecord(TENANT, "next", type_of(number), "{}", T0), start_index=3)

    async with open_pair(mongo_url) as pair:
        store, stop_at, was_stopped, token = pair.other, 0, True, 0
        while was_stopped:
            stop_at += 1
            number = 10 * stop_at
            await store.add_jobs([new_job(number, jobtype=type_of(number), indexed=True)], now_ms=T0)
            if verb is not create_consumer:
                await store.set_consumer(ConsumerRecord(TENANT, NAME, type_of(number), "{}", T0))
                await store.add_jobs([new_job(number + n, jobtype=type_of(number)) for n in range(1, 4)], now_ms=T0)
                ((*_, token, _, _),) = await store.lead_consumers(OWNER, lease_ms=1000, now_ms=T0)
            _, _, was_stopped = await interleave(pair, partial(verb, token, number), partial(replace, number), stop_at)
            report = await store.look_at_window(TENANT, type_of(number), after=0, until=0)
            assert (report.processed, report.released) == (2, 2), f"before step {stop_at}"
            await store.add_jobs([new_job(number + n, jobtype=type_of(number)) for n in range(4, 8)], now_ms=T0)
            states = await store.get_states(TENANT, [job_id(number + 7)], now_ms=T0)
            assert set(states.values()) == {JobState.PAUSED}, f"before step {stop_at}"
            while (await store.end_consumer(TENANT, "next", now_ms=T0)).more:
                pass


@pytest.mark.parametrize("verb", [hold, move, create_consumer])
async def test_a_creation_that_was_interrupted_is_completed_where_it_was_to_start(
    mongo_url: str, monkeypatch: pytest.MonkeyPatch, verb: Callable[[int, int, Store], Awaitable[None]]
) -> None:
    async def away(*_given: Any) -> None:
        raise StoreUnavailable("away")

    async with open_store(mongo_url) as store:
        with monkeypatch.context() as interrupted:
            interrupted.setattr(consumers, "_open_window", away)
            with pytest.raises(StoreUnavailable):
                await store.set_consumer(ConsumerRecord(TENANT, NAME, type_of(1), "{}", T0), start_index=5)
        ((*_, token, _, _),) = await store.lead_consumers(OWNER, lease_ms=1000, now_ms=T0)
        await verb(token, 1, store)
        report = await store.look_at_window(TENANT, type_of(1), after=0, until=0)
        assert (report.processed, report.released) == (4, 4)
        await store.add_jobs([new_job(n, jobtype=type_of(1)) for n in range(1, 7)], now_ms=T0)
        states = await store.get_states(TENANT, [job_id(n) for n in range(1, 7)], now_ms=T0)
        assert list(states.values()) == [JobState.WAITING] * 4 + [JobState.PAUSED] * 2


async def test_a_consumer_whose_window_has_no_name_gets_one(mongo_url: str) -> None:
    """It was made by a version that did not name windows, and its creation was interrupted."""
    consumer = ConsumerRecord(TENANT, NAME, type_of(1), "{}", T0)
    async with MongoStore(mongo_url) as store:
        await store.collections.consumers.insert_one(consumers.consumer_document(consumer))
        await store.set_consumer(consumer)
        await store.add_jobs([new_job(1, jobtype=type_of(1))], now_ms=T0)
        assert await store.get_states(TENANT, [job_id(1)], now_ms=T0) == {job_id(1): JobState.PAUSED}
        await end(store)
        assert await store.get_states(TENANT, [job_id(1)], now_ms=T0) == {job_id(1): JobState.WAITING}


async def test_a_window_that_was_left_open_goes_with_the_next_consumer(mongo_url: str) -> None:
    """Earlier versions left some."""
    async with MongoStore(mongo_url) as store:
        await store.collections.types.insert_one({"_id": type_of(1), "processed": 0, "released": 0, "pulled": False})
        await store.add_jobs([new_job(1, jobtype=type_of(1))], now_ms=T0)
        assert await store.get_states(TENANT, [job_id(1)], now_ms=T0) == {job_id(1): JobState.PAUSED}
        await store.set_consumer(ConsumerRecord(TENANT, NAME, type_of(1), "{}", T0))
        await end(store)
        assert await store.get_states(TENANT, [job_id(1)], now_ms=T0) == {job_id(1): JobState.WAITING}
