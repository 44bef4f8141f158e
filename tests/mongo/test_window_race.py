"""While a job is being held its consumer ends, or moves its window, between any two steps: no job is held for ever."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from store.base import ConsumerRecord, Creation, JobState, Store, WindowMove
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, claim_one, job_id, new_job
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
    made = [Creation(new_job(number + 1, jobtype=type_of(number)))]
    return await store.release_with_jobs(OWNER, archive(record.job), made, now_ms=T0)


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
