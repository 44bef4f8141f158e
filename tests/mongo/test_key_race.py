"""Two daemons claim jobs of one key, step against step: never more of them run than the cap, and none is stuck.

The second comes while the first stands before one of its steps: at once, or so late that it takes the first for dead.
Another job has become the first of the key meanwhile, so that the two want different ones.
"""

from functools import partial

import pytest

from store.base import Job, Store
from store.checked import CheckedStore
from store.mongo import MongoStore
from store.mongo.queue.turns import PENDING_MS
from store.url import open_store
from tests.support.jobs import OWNER, T0, archive, claim, claim_one, new_job, retry
from tests.support.mongo_commands import CommandLog
from tests.support.turns import Pair, Turn, interleave, open_pair

pytestmark = pytest.mark.slow


async def claim_late(store: Store, number: int, late_ms: int) -> int:
    await store.add_jobs([new_job(number, key="ada", priority=1000, jobtype=f"acme-{late_ms}")], now_ms=T0)
    return len(await claim(store, 2, max_per_key=1, now_ms=T0 + late_ms, jobtype=f"acme-{late_ms}"))


async def claim_first(store: Store, late_ms: int) -> int:
    return len(await claim(store, 2, max_per_key=1, jobtype=f"acme-{late_ms}"))


@pytest.mark.parametrize("late_ms", [0, PENDING_MS + 1])
async def test_a_place_of_a_key_is_given_once(mongo_url: str, late_ms: int) -> None:
    async with open_pair(mongo_url) as pair:
        stop_at, was_stopped = 1, True
        while was_stopped:
            stop_at += 1
            jobs = [new_job(100 * stop_at + n, key="ada", jobtype=f"acme-{late_ms}") for n in range(2)]
            await pair.other.add_jobs(jobs, now_ms=T0)
            first = partial(claim_first, late_ms=late_ms)
            second = partial(claim_late, number=100 * stop_at + 50, late_ms=late_ms)
            one, two, was_stopped = await interleave(pair, first, second, stop_at)
            state = await pair.other.get_key_state("acme", f"acme-{late_ms}", "ada", limit=10, now_ms=T0)
            assert one + two == len(state.running) <= 1, f"before step {stop_at}"
            await _drain(pair.other, f"acme-{late_ms}", set(state.running))


async def _drain(store: Store, jobtype: str, running: set[str]) -> None:
    """End everything, each one alone: or it would be there the next time."""
    now_ms, ended = T0 + 10 * PENDING_MS, 0
    for job_id in running:
        record = await store.get_job("acme", job_id, now_ms=T0)
        assert record is not None
        await store.release_jobs(OWNER, [archive(record.job)], now_ms=now_ms)
        ended += 1
    for _ in range(50):
        now_ms += PENDING_MS + 1000
        jobs = await claim(store, 10, max_per_key=1, now_ms=now_ms, jobtype=jobtype)
        assert len(jobs) <= 1
        for job in jobs:
            await store.release_jobs(OWNER, [archive(job)], now_ms=now_ms)
            ended += 1
        if ended == 3:
            return
    raise AssertionError(f"{ended} of 3 jobs ended: the key is stuck")


async def add_before(jobtype: str, number: int, store: Store) -> list[Job]:
    await store.add_jobs([new_job(number, key="ada", priority=1000, jobtype=jobtype)], now_ms=T0)
    return []


async def claim_alone(jobtype: str, store: Store) -> list[Job]:
    return await claim(store, 1, max_per_key=1, now_ms=T0 + 1, jobtype=jobtype)


@pytest.mark.parametrize("is_retried", [False, True])
async def test_a_key_to_which_jobs_are_added_is_searched_once_after_its_cap_became_one(
    mongo_url: str, commands: CommandLog, *, is_retried: bool
) -> None:
    """For jobs to be tried again, in a queue that may be long: the search counts, whatever is added meanwhile."""
    turn = Turn()
    stopping = MongoStore(mongo_url, listeners=[turn, commands])
    async with CheckedStore(stopping) as first, open_store(mongo_url) as store:
        stop_at, was_stopped = 0, True
        while was_stopped:
            stop_at += 1
            jobtype, number = f"acme-t{stop_at}", 10 * stop_at
            for n in range(2):  # the second claim without a cap forgets what the first one took
                await store.add_jobs([new_job(number + n, key="ada", jobtype=jobtype)], now_ms=T0)
                job = await claim_one(store, jobtype=jobtype)
                release = retry(job, T0 + 1) if is_retried and n == 0 else archive(job)
                await store.release_jobs(OWNER, [release], now_ms=T0)
            await store.add_jobs([new_job(number + 2, key="ada", jobtype=jobtype)], now_ms=T0)
            commands.sent.clear()
            one, other = partial(claim_alone, jobtype), partial(add_before, jobtype, number + 3)
            (taken,), _, was_stopped = await interleave(Pair(first, store, turn), one, other, stop_at)
            searches = [sent for sent in commands.sent if "begun" in sent.get("filter", ())]
            assert len(searches) == 1, f"before step {stop_at}"
            assert (taken.id == new_job(number).id) == is_retried
