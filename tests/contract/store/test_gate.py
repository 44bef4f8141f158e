"""The gate of a consumer: what a job is when it is let in, and who may not go past it."""

from store.base import ConsumerRecord, Store, WindowMove
from tests.support.jobs import JOBTYPE, LEASE_MS, OWNER, T0, TENANT, claim, job_id, new_job, new_jobs, retry
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
