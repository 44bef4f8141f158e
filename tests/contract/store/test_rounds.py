"""Rounds of a repeating job: its retry window, its schedule, its children."""

import pytest

from store.base import Code, Job, JobChange, JobState, Rearm, Store
from tests.support.jobs import (
    LEASE_MS,
    OWNER,
    T0,
    TENANT,
    archive,
    claim,
    claim_one,
    job_id,
    new_job,
    outcome,
    retry,
)

CHILD = "acme-child"
HOUR_MS = 3_600_000


def rearm(job: Job, dt_ms: int, code: Code = Code.OK, data: bytes | None = None) -> Rearm:
    return Rearm(job.id, job.token, dt_ms, outcome(code), data)


async def read(store: Store, number: int = 1, now_ms: int = T0) -> Job:
    record = await store.get_job(TENANT, job_id(number), now_ms=now_ms)
    assert record is not None
    return record.job


async def state(store: Store, number: int, now_ms: int = T0) -> JobState:
    return (await store.get_states(TENANT, [job_id(number)], now_ms=now_ms))[job_id(number)]


async def failed_once(store: Store) -> Job:
    """A job that was created at T0, due at T0 + 4000, and failed its first attempt."""
    await store.add_jobs([new_job(1, dt_ms=T0 + 4000)], now_ms=T0)
    first = await claim_one(store, now_ms=T0 + 4001)
    assert (first.window_ms, first.scheduled_ms) == (T0 + 4000, T0 + 4000)
    await store.release_jobs(OWNER, [retry(first, T0 + 5000)], now_ms=T0 + 4002)
    return await claim_one(store, now_ms=T0 + 5000)


async def test_the_retry_window_begins_when_a_job_first_becomes_due(store: Store) -> None:
    second = await failed_once(store)
    assert (second.due_ms, second.window_ms, second.scheduled_ms) == (T0 + 5000, T0 + 4000, T0 + 4000)
    await store.release_jobs(OWNER, [retry(second, T0 + 6000)], now_ms=T0 + 5001)
    third = await claim_one(store, now_ms=T0 + 6000)
    assert (third.due_ms, third.window_ms) == (T0 + 6000, T0 + 4000)


async def test_the_window_of_a_job_that_is_moved_before_it_starts_moves_along(store: Store) -> None:
    await store.add_jobs([new_job(1, dt_ms=T0 + 4000)], now_ms=T0)
    await store.update_job(TENANT, job_id(1), JobChange(dt_ms=T0 + 9000), now_ms=T0)
    assert (await read(store)).window_ms == T0 + 9000


async def test_a_lapsed_lease_leaves_the_window_as_it_is(store: Store) -> None:
    second = await failed_once(store)
    late_ms = T0 + 5000 + LEASE_MS
    await store.expire_locks(now_ms=late_ms)
    assert (await claim_one(store, now_ms=late_ms)).window_ms == second.window_ms


async def test_each_round_and_each_replay_has_a_window_of_its_own(store: Store) -> None:
    second = await failed_once(store)
    await store.release_jobs(OWNER, [rearm(second, T0 + HOUR_MS)], now_ms=T0 + 5001)
    third = await claim_one(store, now_ms=T0 + HOUR_MS + 7)
    assert (third.window_ms, third.scheduled_ms, third.attempts) == (T0 + HOUR_MS, T0 + HOUR_MS, 1)
    await store.release_jobs(OWNER, [retry(third, T0 + HOUR_MS + 9)], now_ms=T0 + HOUR_MS + 8)
    fourth = await claim_one(store, now_ms=T0 + HOUR_MS + 9)
    assert fourth.window_ms == T0 + HOUR_MS
    await store.release_jobs(OWNER, [archive(fourth)], now_ms=T0 + HOUR_MS + 9)
    await store.replay_jobs(TENANT, [job_id(1)], dt_ms=T0 + 2 * HOUR_MS, now_ms=T0 + HOUR_MS + 10)
    assert (await read(store)).window_ms == T0 + 2 * HOUR_MS
    assert (await read(store)).scheduled_ms == T0 + 2 * HOUR_MS


async def repeating_parent(store: Store, count: int = 2) -> Job:
    """A running parent 1 with held children 2..count + 1."""
    await store.add_jobs([new_job(1, repeat="SCHEDULED, +1 HOUR")], now_ms=T0)
    parent = await claim_one(store)
    for number in range(2, count + 2):
        await store.create_job(new_job(number, jobtype=CHILD, parent=parent.id), now_ms=T0)
    return parent


async def test_children_of_a_repeating_parent_run_and_then_the_parent_and_then_its_next_round(store: Store) -> None:
    parent = await repeating_parent(store)
    report = await store.release_jobs(OWNER, [rearm(parent, T0 + HOUR_MS, data=b"carried")], now_ms=T0 + 1)
    assert (report.applied, report.paused) == (1, (parent.id,))
    assert [await state(store, n, T0 + 1) for n in (1, 2, 3)] == [JobState.PAUSED, JobState.WAITING, JobState.WAITING]
    children = await claim(store, jobtype=CHILD, now_ms=T0 + 2)
    await store.release_jobs(OWNER, [archive(children[0])], now_ms=T0 + 3)
    assert await state(store, 1, T0 + 3) == JobState.PAUSED
    await store.release_jobs(OWNER, [archive(children[1], Code.FAILED)], now_ms=T0 + 4)
    again = await claim_one(store, now_ms=T0 + 4)
    assert (again.id, again.data, again.attempts, again.due_ms) == (parent.id, b"carried", 1, T0 + 4)
    assert (again.window_ms, again.scheduled_ms) == (T0 + 4, T0), "a window of its own, and the schedule of its round"
    report = await store.release_jobs(OWNER, [rearm(again, T0 + HOUR_MS)], now_ms=T0 + 5)
    assert (report.applied, report.paused) == (1, ())
    following = await read(store)
    assert (following.due_ms, following.attempts, following.scheduled_ms) == (T0 + HOUR_MS, 0, T0 + HOUR_MS)
    counters = {c.jobtype: c for c in await store.get_counters(TENANT, now_ms=T0 + 5)}
    assert (counters[parent.jobtype].ok, counters[parent.jobtype].deferred) == (1, 1)
    assert {c.blocked for c in counters.values()} == {0}


@pytest.mark.parametrize("code", [Code.FAILED, Code.ABANDONED])
async def test_a_round_that_did_not_end_well_takes_its_held_children_along_and_the_next_comes(
    store: Store, code: Code
) -> None:
    parent = await repeating_parent(store)
    report = await store.release_jobs(OWNER, [rearm(parent, T0 + HOUR_MS, code, b"carried")], now_ms=T0 + 1)
    assert (report.applied, report.paused) == (1, ())
    assert [await state(store, n, T0 + 1) for n in (1, 2, 3)] == [
        JobState.DEFERRED,
        JobState.ARCHIVED,
        JobState.ARCHIVED,
    ]
    counters = {c.jobtype: c for c in await store.get_counters(TENANT, now_ms=T0 + 1)}
    assert (counters[CHILD].cancelled, counters[CHILD].blocked, counters[parent.jobtype].blocked) == (2, 0, 0)
    assert (counters[parent.jobtype].failed, counters[parent.jobtype].abandoned).count(1) == 1
    record = await store.get_job(TENANT, parent.id, now_ms=T0 + 1)
    assert record is not None
    assert record.outcome is not None
    assert (record.outcome.code, record.pending_children) == (code, 0)
    following = await claim_one(store, now_ms=T0 + HOUR_MS)
    assert (following.data, following.attempts, following.scheduled_ms) == (b"carried", 1, T0 + HOUR_MS)
    await store.create_job(new_job(9, jobtype=CHILD, parent=parent.id), now_ms=T0 + HOUR_MS)
    await store.expire_locks(now_ms=T0 + HOUR_MS)
    assert await state(store, 9, T0 + HOUR_MS) == JobState.PAUSED


async def test_a_release_of_a_round_that_lost_its_lease_changes_nothing(store: Store) -> None:
    parent = await repeating_parent(store, 1)
    await store.expire_locks(now_ms=T0 + LEASE_MS)
    report = await store.release_jobs(OWNER, [rearm(parent, T0 + HOUR_MS, Code.FAILED)], now_ms=T0 + LEASE_MS)
    assert report.stale == (parent.id,)
    assert [await state(store, n, T0 + LEASE_MS) for n in (1, 2)] == [JobState.WAITING, JobState.PAUSED]
