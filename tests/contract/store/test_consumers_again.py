"""Between any two steps of whoever ends a consumer another one of its name is made: it stays, and its jobs are held."""

from contextlib import suppress
from functools import partial

import pytest

from store.base import ConsumerRecord, JobState, Store
from store.errors import NotFound
from tests.support.jobs import T0, TENANT, job_id, new_job
from tests.support.turns import interleave, open_pair

NAME = "verify"


def type_of(number: int) -> str:
    return f"acme-t{number}"


async def end(only_ending: bool, store: Store) -> None:
    with suppress(NotFound):
        await store.end_consumer(TENANT, NAME, now_ms=T0, only_ending=only_ending)


async def replace(number: int, store: Store) -> None:
    with suppress(NotFound):
        while (await store.end_consumer(TENANT, NAME, now_ms=T0)).more:
            pass
    assert await store.set_consumer(ConsumerRecord(TENANT, NAME, type_of(number), "{}", T0))


@pytest.mark.parametrize("only_ending", [False, True])
async def test_who_ends_a_consumer_late_leaves_the_next_of_its_name_alone(store_url: str, only_ending: bool) -> None:
    async with open_pair(store_url) as pair:
        store, stop_at, was_stopped = pair.other, 0, True
        while was_stopped:
            stop_at += 1
            number = 10 * stop_at
            await store.set_consumer(ConsumerRecord(TENANT, NAME, type_of(number), "{}", T0))
            if only_ending:
                await store.add_jobs([new_job(number, jobtype=type_of(number))], now_ms=T0)
                assert (await store.end_consumer(TENANT, NAME, now_ms=T0, limit=1)).more
            _, _, was_stopped = await interleave(pair, partial(end, only_ending), partial(replace, number), stop_at)
            record = await store.get_consumer(TENANT, NAME)
            if only_ending or stop_at > 1:  # before its first step the call may as well come after all that
                assert record is not None, f"before step {stop_at}"
                assert not record.is_ending
            await store.add_jobs([new_job(number + 1, jobtype=type_of(number))], now_ms=T0)
            states = await store.get_states(TENANT, [job_id(number + 1)], now_ms=T0)
            expected = JobState.WAITING if record is None else JobState.PAUSED
            assert states == {job_id(number + 1): expected}, f"before step {stop_at}"
            await end(False, store)
        assert stop_at > 1


async def test_a_consumer_that_nobody_deletes_is_left_alone(store: Store) -> None:
    consumer = ConsumerRecord(TENANT, NAME, type_of(1), "{}", T0)
    assert await store.set_consumer(consumer)
    with pytest.raises(NotFound):
        await store.end_consumer(TENANT, NAME, now_ms=T0, only_ending=True)
    assert await store.get_consumer(TENANT, NAME) == consumer
