"""The gate of a consumer: what a job is when it is let in, and who may not go past it."""

import pytest

from store.base import ConsumerRecord, JobState, Store, WindowMove
from store.errors import Conflict
from tests.support.jobs import (
    JOBTYPE,
    LEASE_MS,
    OWNER,
    T0,
    TENANT,
    archive,
    claim,
    ids,
    job_id,
    new_job,
    new_jobs,
    retry,
)
from tests.support.store_audit import check_counters

NAME = "verify"
CONSUMER = ConsumerRecord(TENANT, NAME, JOBTYPE, "{}", T0)
LATER = T0 + 1_000_000


async def let_in(store: Store, released: int, now_ms: int = T0) -> None:
    (record,) = await store.lead_consumers(OWNER, lease_ms=LEASE_MS, now_ms=now_ms)
    move = WindowMove(TENANT, NAME, record.token, 0, released, 0, skip_failed=False, note="")
    await store.move_window(move, now_ms=now_ms)


async def test_a_job_that_was_held_for_long_waits_since_it_was_let_in(store: Store) -> None:
    await store.set_consumer(CONSUMER)
    await store.add_jobs(new_jobs(2), now_ms=T0)
    await let_in(store, 1, LATER)
    while (await store.end_consumer(TENANT, NAME, now_ms=LATER)).more:
        pass
    report = await store.expire_jobs(now_ms=LATER, done_before_ms=0, waiting_before_ms=LATER)
    assert report.abandoned == 0
    report = await store.expire_jobs(now_ms=LATER, done_before_ms=0, waiting_before_ms=LATER + 1)
    assert report.abandoned == 2


async def test_a_job_that_was_held_for_long_keeps_its_schedule_and_gets_its_retry_window(store: Store) -> None:
    await store.set_consumer(CONSUMER)
    await store.add_jobs([new_job(0), new_job(1, dt_ms=LATER + 5)], now_ms=T0)
    await let_in(store, 2, LATER)
    await check_counters(store, TENANT, LATER)
    (job,) = await claim(store, now_ms=LATER)
    assert (job.id, job.due_ms, job.window_ms, job.scheduled_ms) == (job_id(0), LATER, LATER, T0)
    await store.release_jobs(OWNER, [retry(job, LATER + 5)], now_ms=LATER)
    jobs = await claim(store, now_ms=LATER + 5)
    assert [(job.window_ms, job.scheduled_ms) for job in jobs] == [(LATER, T0), (LATER + 5, LATER + 5)]


@pytest.mark.parametrize("dt_ms", [T0, T0 + 5])
async def test_a_job_that_is_replayed_waits_until_its_number_is_let_in(store: Store, dt_ms: int) -> None:
    await store.set_consumer(CONSUMER)
    await store.add_jobs(new_jobs(3), now_ms=T0)
    await let_in(store, 1)
    (first,) = await claim(store)
    await store.release_jobs(OWNER, [archive(first)], now_ms=T0)
    await store.cancel_job(TENANT, job_id(2), now_ms=T0)
    assert len(await store.replay_jobs(TENANT, [job_id(0), job_id(2)], dt_ms=dt_ms, now_ms=T0)) == 2
    await check_counters(store, TENANT, T0)
    states = await store.get_states(TENANT, [job_id(1), job_id(2)], now_ms=T0)
    assert set(states.values()) == {JobState.PAUSED}
    assert ids(await claim(store, now_ms=dt_ms)) == [job_id(0)], "it was let in before"
    await let_in(store, 3, dt_ms)
    await check_counters(store, TENANT, dt_ms)
    assert set(ids(await claim(store, now_ms=dt_ms))) == {job_id(1), job_id(2)}


async def test_a_job_cannot_move_to_a_type_whose_consumer_would_not_see_it(store: Store) -> None:
    await store.set_consumer(CONSUMER)
    await store.add_jobs([new_job(1, jobtype="acme-other"), new_job(2, jobtype="acme-other")], now_ms=T0)
    running, _ = await claim(store, jobtype="acme-other")
    with pytest.raises(Conflict):
        await store.move_job(TENANT, running.id, JOBTYPE, dt_ms=T0, now_ms=T0, token=running.token)
    await store.cancel_job(TENANT, job_id(2), now_ms=T0, running=True)
    with pytest.raises(Conflict):
        await store.move_job(TENANT, job_id(2), JOBTYPE, dt_ms=T0, now_ms=T0)
    while (await store.end_consumer(TENANT, NAME, now_ms=T0)).more:
        pass
    await store.set_consumer(CONSUMER._replace(is_pulled=True))
    await store.move_job(TENANT, job_id(2), JOBTYPE, dt_ms=T0, now_ms=T0)
    assert ids(await claim(store)) == [job_id(2)], "those of a pulled type that nobody pulled run as any other"
