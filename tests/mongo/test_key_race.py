"""Two daemons claim jobs of one key, step against step: never more of them run than the cap, and none is stuck.

The second comes while the first stands before one of its steps: at once, or so late that it takes the first for dead.
Another job has become the first of the key meanwhile, so that the two want different ones.
"""

from functools import partial

import pytest

from store.base import Store
from store.mongo.queue.turns import PENDING_MS
from tests.support.jobs import OWNER, T0, archive, claim, new_job
from tests.support.turns import interleave, open_pair

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
