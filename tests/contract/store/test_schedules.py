"""What is kept of a job that repeats: its last rounds, changes of it, a cancel that is under way."""

from typing import Any

import pytest

from store.base import (
    Code,
    Creation,
    JobFilter,
    JobState,
    Round,
    Schedule,
    Store,
    Timing,
)
from store.errors import Conflict
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, claim_one, job_id, new_job, retry
from tests.support.schedules import (
    HOUR_MS,
    HOURLY,
    PAUSE,
    add,
    change,
    read,
    rearm,
    rounds,
    run_round,
    waiting,
)

# Rounds


async def test_a_round_is_kept_with_its_end(store: Store) -> None:
    await add(store)
    job = await claim_one(store, now_ms=T0 + 3)
    said = {"started_ms": T0 + 4, "duration_us": 12, "handler_version": 7, "message": "no such page", "exitcode": 404}
    await store.release_jobs(OWNER, [rearm(job, T0 + HOUR_MS, Code.FAILED, **said)], now_ms=T0 + 9)
    kept = Round(T0, T0 + 4, 12, Code.FAILED, 404, "no such page", 1, 7, OWNER)
    assert (await read(store)).schedule == Schedule((kept,))
    again = await store.release_jobs(OWNER, [rearm(job, T0 + HOUR_MS)], now_ms=T0 + 10)
    assert again.stale == (job.id,)
    assert (await read(store)).schedule == Schedule((kept,))


async def test_the_attempts_of_a_round_are_one_round_that_was_planned_when_the_first_was_due(store: Store) -> None:
    await add(store)
    first = await claim_one(store)
    await store.release_jobs(OWNER, [retry(first, T0 + 100)], now_ms=T0 + 1)
    await claim_one(store, now_ms=T0 + 100)
    await store.expire_locks(now_ms=T0 + HOUR_MS)
    await run_round(store, T0 + HOUR_MS, T0 + 2 * HOUR_MS, Code.ABANDONED)
    (kept,) = (await read(store)).schedule.rounds
    assert (kept.planned_ms, kept.attempts, kept.code) == (T0, 3, Code.ABANDONED)


async def test_the_last_twenty_are_kept_and_ten_are_listed(store: Store) -> None:
    await add(store)
    for n in range(23):
        await run_round(store, T0 + n * HOUR_MS, T0 + (n + 1) * HOUR_MS, Code.FAILED if n == 22 else Code.OK)
    found = await rounds(store)
    assert [planned_ms for planned_ms, _ in found] == [T0 + n * HOUR_MS for n in range(3, 23)]
    (listed,) = (await store.list_repeating(TENANT, now_ms=T0)).records
    assert [(it.planned_ms, it.code) for it in listed.schedule.rounds] == found[10:]


async def test_a_message_is_bounded_in_bytes(store: Store) -> None:
    await add(store)
    await run_round(store, T0, T0 + HOUR_MS, Code.FAILED, message="ü" * 500)
    (kept,) = (await read(store)).schedule.rounds
    assert kept.message == "ü" * 100


async def test_a_round_without_a_run_is_kept_when_the_job_is_cancelled(store: Store) -> None:
    await add(store, dt_ms=T0 + HOUR_MS)
    await store.cancel_job(TENANT, job_id(1), now_ms=T0 + 51)
    assert await rounds(store) == [(T0 + HOUR_MS, Code.CANCELLED)]
    assert (await read(store)).schedule.rounds[0].started_ms == 0


@pytest.mark.parametrize("has_failed", [False, True])
async def test_a_round_that_waits_long_does_not_end_its_schedule(store: Store, has_failed: bool) -> None:
    """Its type was busy, or paused, or had no handler for a while."""
    await add(store)
    await store.add_jobs([new_job(2)], now_ms=T0)
    if has_failed:
        job = await claim_one(store)
        await store.release_jobs(OWNER, [retry(job, T0 + 2)], now_ms=T0 + 1)
    report = await store.expire_jobs(now_ms=T0 + HOUR_MS, done_before_ms=0, waiting_before_ms=T0 + HOUR_MS, limit=1)
    assert (report.abandoned, report.more) == (1, True)
    assert [(await read(store, n, T0 + HOUR_MS)).state for n in (1, 2)] == [JobState.WAITING, JobState.ARCHIVED]
    assert await rounds(store) == []
    await run_round(store, T0 + HOUR_MS, T0 + 2 * HOUR_MS)
    assert await rounds(store) == [(T0, Code.OK)]


async def test_a_last_round_that_waits_long_is_abandoned(store: Store) -> None:
    await add(store)
    await change(store, repeat="")
    report = await store.expire_jobs(now_ms=T0 + HOUR_MS, done_before_ms=0, waiting_before_ms=T0 + HOUR_MS)
    assert (report.abandoned, (await read(store)).state) == (1, JobState.ARCHIVED)


async def test_a_job_that_ends_for_good_keeps_its_last_round_and_goes_on_with_it_when_it_is_replayed(
    store: Store,
) -> None:
    await add(store)
    await run_round(store, T0, T0 + 100)
    job = await claim_one(store, now_ms=T0 + 100)
    await store.release_jobs(OWNER, [archive(job, Code.FAILED)], now_ms=T0 + 101)
    await store.replay_jobs(TENANT, [job.id], dt_ms=T0 + 200, now_ms=T0 + 150)
    await run_round(store, T0 + 200, T0 + 300)
    assert await rounds(store) == [(T0, Code.OK), (T0 + 100, Code.FAILED), (T0 + 200, Code.OK)]


async def test_a_job_that_does_not_repeat_keeps_none(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    job = await claim_one(store)
    await store.release_jobs(OWNER, [archive(job)], now_ms=T0 + 1)
    assert (await read(store)).schedule == Schedule()


async def test_a_round_that_waits_for_children_is_one_round(store: Store) -> None:
    await add(store)
    parent = await claim_one(store)
    await store.create_job(new_job(2, jobtype="acme-child", parent=parent.id), now_ms=T0)
    await store.release_jobs(OWNER, [rearm(parent, T0 + HOUR_MS)], now_ms=T0 + 1)
    assert await rounds(store) == []
    child = await claim_one(store, jobtype="acme-child", now_ms=T0 + 2)
    await store.release_jobs(OWNER, [archive(child)], now_ms=T0 + 3)
    await run_round(store, T0 + 3, T0 + HOUR_MS)
    assert await rounds(store) == [(T0, Code.OK)]


async def test_a_listing_of_jobs_has_no_rounds(store: Store) -> None:
    await add(store)
    await run_round(store, T0, T0 + HOUR_MS)
    await store.cancel_job(TENANT, job_id(1), now_ms=T0 + 9)
    (listed,) = (await store.list_jobs(TENANT, JobFilter(JobState.ARCHIVED), now_ms=T0 + 9)).records
    assert listed.schedule.rounds == ()


# Changes


async def test_a_schedule_gets_another_pattern_time_and_priority(store: Store) -> None:
    await add(store, dt_ms=T0 + 100)
    said: dict[str, Any] = {"repeat": "0 9 * * *", "priority": 1000, "data": b"new", "dt_ms": T0 + 900}
    assert await change(store, timing=Timing.ANEW, **said) == JobState.DEFERRED
    job = (await read(store)).job
    assert (job.repeat, job.priority, job.due_ms) == ("0 9 * * *", 1000, T0 + 900)
    assert await waiting(store, T0 + 899) == []
    (taken,) = await claim(store, 9, now_ms=T0 + 900)
    assert (taken.data, taken.repeat, taken.priority) == (b"new", "0 9 * * *", 1000)


async def test_a_new_time_is_that_of_a_new_round(store: Store) -> None:
    await add(store)
    job = await claim_one(store)
    await store.release_jobs(OWNER, [retry(job, T0 + 100)], now_ms=T0 + 1)
    await change(store, dt_ms=T0 + 200, timing=Timing.ANEW)
    found = await read(store)
    assert (found.job.attempts, found.job.window_ms, found.history) == (0, T0 + 200, ())
    await run_round(store, T0 + 200, T0 + HOUR_MS)
    assert await rounds(store) == [(T0 + 200, Code.OK)]


@pytest.mark.parametrize("said", [{"repeat": "0 9 * * *"}, {"priority": 0}, {"dt_ms": T0 + 9}])
async def test_nothing_of_it_changes_while_it_runs(store: Store, said: dict[str, Any]) -> None:
    await add(store)
    await claim_one(store)
    with pytest.raises(Conflict, match="is running"):
        await change(store, **said)


async def test_a_job_that_does_not_repeat_can_have_another_priority(store: Store) -> None:
    await store.add_jobs([new_job(1), new_job(2)], now_ms=T0)
    await change(store, 2, priority=1000)
    assert await waiting(store, T0 + 9) == [job_id(2), job_id(1)]


# A new time while it waits for its children


async def test_a_new_time_of_one_that_waits_for_its_children_is_that_of_the_round_after(store: Store) -> None:
    await add(store)
    parent = await claim_one(store)
    await store.create_job(new_job(2, jobtype="acme-child", parent=parent.id), now_ms=T0)
    await store.release_jobs(OWNER, [rearm(parent, T0 + HOUR_MS)], now_ms=T0 + 1)
    assert await change(store, dt_ms=T0 + 900, timing=Timing.ANEW, at_rest=True) == JobState.PAUSED
    child = await claim_one(store, jobtype="acme-child", now_ms=T0 + 2)
    await store.release_jobs(OWNER, [archive(child)], now_ms=T0 + 3)
    await run_round(store, T0 + 3, T0 + HOUR_MS)
    found = await read(store)
    assert (found.state, found.job.due_ms, found.schedule.regular_ms) == (JobState.DEFERRED, T0 + 900, None)
    assert await rounds(store) == [(T0, Code.OK)]


async def test_so_is_that_of_one_whose_round_is_over_and_a_child_of_it_runs_again(store: Store) -> None:
    await between_rounds_with_a_child(store)
    assert await change(store, dt_ms=T0 + 900, timing=Timing.ANEW, at_rest=True) == JobState.PAUSED
    await end_child(store)
    found = await read(store)
    assert (found.state, found.job.due_ms, found.schedule.regular_ms) == (JobState.DEFERRED, T0 + 900, None)
    assert await rounds(store) == [(T0, Code.FAILED)]


async def between_rounds_with_a_child(store: Store) -> None:
    """Its round is over, its next one planned, and a child of it runs again."""
    await add(store)
    parent = await claim_one(store)
    await store.create_job(new_job(2, jobtype="acme-child", parent=parent.id), now_ms=T0)
    await store.cancel_job(TENANT, job_id(2), now_ms=T0)
    await store.replay_jobs(TENANT, [job_id(2)], dt_ms=T0, now_ms=T0)
    await store.release_jobs(OWNER, [rearm(parent, T0 + HOUR_MS, Code.FAILED)], now_ms=T0 + 1)


@pytest.mark.parametrize(
    ("resume_ms", "due_ms"), [(T0 + 2 * HOUR_MS, T0 + 2 * HOUR_MS), (T0 + 9, T0 + HOUR_MS)], ids=["later", "earlier"]
)
async def test_its_next_round_is_not_before_the_time_of_a_resume(store: Store, resume_ms: int, due_ms: int) -> None:
    await between_rounds_with_a_child(store)
    await change(store, pause=PAUSE)
    assert await change(store, resume_ms=resume_ms) == JobState.PAUSED
    await end_child(store)
    assert (await read(store)).job.due_ms == due_ms


async def test_what_moves_it_moves_its_next_round(store: Store) -> None:
    await between_rounds_with_a_child(store)
    await change(store, dt_ms=T0 + 900)
    await end_child(store)
    assert (await read(store)).job.due_ms == T0 + 900


async def end_child(store: Store) -> None:
    child = await claim_one(store, jobtype="acme-child", now_ms=T0 + 2)
    await store.release_jobs(OWNER, [archive(child)], now_ms=T0 + 3)


# A cancel that is under way


async def test_a_schedule_that_is_being_cancelled_cannot_be_said_again(store: Store) -> None:
    await add(store, unique="nightly")
    await claim_one(store)
    same = new_job(2, repeat=HOURLY, unique="nightly", data=b"payload 1")
    (report,) = await store.create_jobs([Creation(same)], now_ms=T0 + 1)
    assert report.id == job_id(1)
    await change(store, ending_ms=T0 + 100)
    with pytest.raises(Conflict, match="is being cancelled"):
        await store.create_jobs([Creation(same)], now_ms=T0 + 99)
    await store.cancel_job(TENANT, job_id(1), now_ms=T0 + 50, running=True)
    (fresh,) = await store.create_jobs([Creation(same)], now_ms=T0 + 60)
    assert (fresh.id, fresh.created) == (job_id(2), True)


async def test_nor_after_its_round_if_the_cancel_has_not_come_yet_but_a_cancel_that_never_comes_is_forgotten(
    store: Store,
) -> None:
    await add(store, unique="nightly")
    job = await claim_one(store)
    await change(store, ending_ms=T0 + 100)
    await store.release_jobs(OWNER, [rearm(job, T0 + HOUR_MS)], now_ms=T0 + 10)
    same = new_job(2, repeat=HOURLY, unique="nightly", data=b"payload 1")
    with pytest.raises(Conflict, match="is being cancelled"):
        await store.create_jobs([Creation(same)], now_ms=T0 + 99)
    (report,) = await store.create_jobs([Creation(same)], now_ms=T0 + 100)
    assert (report.id, report.created) == (job_id(1), False)
