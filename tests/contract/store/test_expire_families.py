"""Retention of children: they stay as long as their parent may ask for them, and hold up no others."""

from store.base import JobChange, Rearm, Store
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, claim_one, job_id, new_job, new_jobs, outcome

CHILD = "acme-child"
LATER = T0 + 1000


async def paused_parent(store: Store, children: int, *, ended: int, **changes: str) -> None:
    """Job 0 waits for its children 1 and so on, of which some have ended."""
    await store.add_jobs([new_job(0, **changes)], now_ms=T0)
    parent = await claim_one(store)
    for number in range(1, children + 1):
        await store.create_job(new_job(number, jobtype=CHILD, parent=parent.id), now_ms=T0)
    end = Rearm(parent.id, parent.token, LATER, outcome()) if parent.repeat else archive(parent)
    await store.release_jobs(OWNER, [end], now_ms=T0)
    await end_children(store, ended)


async def end_children(store: Store, count: int) -> None:
    jobs = await claim(store, count, jobtype=CHILD)
    assert len(jobs) == count
    await store.release_jobs(OWNER, [archive(job) for job in jobs], now_ms=T0)


async def purged(store: Store, limit: int = 1000, now_ms: int = LATER) -> int:
    report = await store.expire_jobs(now_ms=now_ms, done_before_ms=now_ms, waiting_before_ms=0, limit=limit)
    return report.purged


async def children(store: Store) -> int:
    return len((await store.list_children(TENANT, job_id(0), now_ms=LATER)).records)


async def test_ended_children_stay_until_their_parent_is_over(store: Store) -> None:
    await paused_parent(store, 3, ended=2)
    assert await purged(store) == 0
    await end_children(store, 1)
    assert await purged(store) == 0, "it is queued, and will ask for them"
    parent = await claim_one(store, now_ms=LATER)
    assert await purged(store) == 0, "it runs"
    assert await children(store) == 3
    await store.release_jobs(OWNER, [archive(parent)], now_ms=LATER)
    assert await purged(store, now_ms=LATER + 1) == 4


async def test_children_that_stay_hold_up_no_others(store: Store) -> None:
    await paused_parent(store, 7, ended=6)
    await store.add_jobs(new_jobs(5, 20, jobtype=CHILD, dt_ms=T0 + 1), now_ms=T0)
    jobs = await claim(store, jobtype=CHILD, now_ms=T0 + 1)
    await store.release_jobs(OWNER, [archive(job) for job in jobs if not job.parent], now_ms=T0 + 1)
    reports = [
        await store.expire_jobs(now_ms=LATER, done_before_ms=LATER, waiting_before_ms=0, limit=2) for _ in range(3)
    ]
    assert [(report.purged, report.more) for report in reports] == [(2, True), (2, True), (1, False)]
    assert await children(store) == 7


async def test_children_of_a_repeating_parent_stay_for_their_round(store: Store) -> None:
    await paused_parent(store, 2, ended=1, repeat="FINISHED, +1 SECOND")
    assert await purged(store) == 0
    await end_children(store, 1)
    parent = await claim_one(store, now_ms=LATER)
    assert await purged(store) == 0, "its round is not over"
    await store.release_jobs(OWNER, [Rearm(parent.id, parent.token, LATER + 1000, outcome())], now_ms=LATER)
    assert await purged(store) == 2


async def test_children_of_a_parent_that_has_stopped_to_repeat_stay_until_it_is_over(store: Store) -> None:
    """In its last round it asks for all of them, as one that never repeated."""
    await paused_parent(store, 2, ended=2, repeat="FINISHED, +1 SECOND")
    parent = await claim_one(store, now_ms=LATER)
    await store.release_jobs(OWNER, [Rearm(parent.id, parent.token, LATER + 1000, outcome())], now_ms=LATER)
    await store.update_job(TENANT, parent.id, JobChange(repeat=""), now_ms=LATER)
    assert await purged(store) == 0
    assert await children(store) == 2
