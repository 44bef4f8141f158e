"""An extra round of a job that repeats: the regular one keeps its time."""

import pytest

from store.base import (
    Code,
    Creation,
    JobState,
    Schedule,
    Store,
    Timing,
    Unclaim,
)
from store.errors import Conflict
from tests.support.jobs import OWNER, T0, TENANT, archive, claim_one, job_id, new_job, retry
from tests.support.schedules import (
    HOUR_MS,
    PAUSE,
    add,
    change,
    counts,
    extra,
    read,
    rearm,
    rounds,
    run_round,
    waiting,
)


async def test_an_extra_round_leaves_the_next_one_where_it_is(store: Store) -> None:
    await add(store, dt_ms=T0 + 100)
    assert await extra(store) == JobState.WAITING
    job = await claim_one(store, now_ms=T0 + 10)
    await store.release_jobs(OWNER, [retry(job, T0 + 20)], now_ms=T0 + 11)
    await run_round(store, T0 + 20, T0 + HOUR_MS)
    assert (await read(store)).job.due_ms == T0 + 100
    await run_round(store, T0 + 100, T0 + HOUR_MS)
    assert await rounds(store) == [(T0 + 10, Code.OK), (T0 + 100, Code.OK)]
    assert (await read(store)).job.due_ms == T0 + HOUR_MS


async def test_a_regular_round_whose_time_came_meanwhile_follows_at_once(store: Store) -> None:
    await add(store, dt_ms=T0 + 100)
    await extra(store)
    await run_round(store, T0 + 200, T0 + HOUR_MS)
    assert await waiting(store, T0 + 201) == [job_id(1)]


async def test_a_paused_schedule_runs_once_and_is_paused_again(store: Store) -> None:
    await add(store, dt_ms=T0 + 100)
    await change(store, pause=PAUSE)
    assert await extra(store) == JobState.WAITING
    await run_round(store, T0 + 10, T0 + HOUR_MS)
    found = await read(store)
    assert (found.state, found.job.due_ms, found.schedule.pause) == (JobState.PAUSED, T0 + 100, PAUSE)
    assert await waiting(store, T0 + HOUR_MS) == []


async def test_a_pause_takes_back_an_extra_round_that_has_not_begun(store: Store) -> None:
    await add(store, dt_ms=T0 + 100)
    await extra(store)
    assert await change(store, now_ms=T0 + 20, pause=PAUSE) == JobState.PAUSED
    found = await read(store)
    assert (found.job.due_ms, found.schedule) == (T0 + 100, Schedule(pause=PAUSE))


async def test_a_pause_that_is_said_again_leaves_the_extra_round_of_a_paused_one(store: Store) -> None:
    await add(store, dt_ms=T0 + 100)
    await change(store, pause=PAUSE)
    await extra(store)
    assert await change(store, now_ms=T0 + 20, pause=PAUSE) == JobState.WAITING
    assert (await read(store)).schedule == Schedule(pause=PAUSE, regular_ms=T0 + 100)


async def test_an_extra_round_with_children_leaves_the_next_one_where_it_is(store: Store) -> None:
    for number, code in ((1, Code.OK), (3, Code.FAILED)):
        await add(store, number, dt_ms=T0 + 100)
        await change(store, number, now_ms=T0 + 10, dt_ms=T0 + 10, timing=Timing.EXTRA)
        parent = await claim_one(store, now_ms=T0 + 10)
        child = new_job(number + 1, jobtype="acme-child", parent=parent.id)
        await store.create_job(child, now_ms=T0 + 10)
        await store.release_jobs(OWNER, [rearm(parent, T0 + HOUR_MS, code)], now_ms=T0 + 11)
        if code is Code.OK:
            done = await claim_one(store, jobtype="acme-child", now_ms=T0 + 12)
            await store.release_jobs(OWNER, [archive(done)], now_ms=T0 + 13)
            await run_round(store, T0 + 13, T0 + HOUR_MS)
        assert (await read(store, number)).job.due_ms == T0 + 100
        await change(store, number, pause=PAUSE)


async def test_there_is_no_extra_round_beside_one_that_is_due_or_has_begun(store: Store) -> None:
    await add(store)
    with pytest.raises(Conflict, match="not between two rounds"):
        await extra(store)
    job = await claim_one(store, now_ms=T0 + 20)
    with pytest.raises(Conflict, match="is running"):
        await extra(store, T0 + 20)
    await store.release_jobs(OWNER, [retry(job, T0 + 100)], now_ms=T0 + 21)
    with pytest.raises(Conflict, match="not between two rounds"):
        await extra(store, T0 + 30)


@pytest.mark.parametrize("is_paused", [False, True])
async def test_the_attempts_before_a_replay_are_not_those_of_an_extra_round(store: Store, is_paused: bool) -> None:
    await add(store)
    await claim_one(store)
    await store.expire_locks(now_ms=T0 + HOUR_MS)
    await store.cancel_job(TENANT, job_id(1), now_ms=T0 + HOUR_MS)
    await store.replay_jobs(TENANT, [job_id(1)], dt_ms=T0 + 2 * HOUR_MS, now_ms=T0 + HOUR_MS)
    assert len((await read(store)).history) == 1
    if is_paused:
        await change(store, pause=PAUSE)
    await extra(store, T0 + HOUR_MS + 10)
    assert (await read(store)).history == ()


async def test_one_that_is_given_back_stays_an_extra_round(store: Store) -> None:
    await add(store, dt_ms=T0 + 100)
    await extra(store)
    job = await claim_one(store, now_ms=T0 + 10)
    await store.release_jobs(OWNER, [Unclaim(job.id, job.token)], now_ms=T0 + 11)
    await run_round(store, T0 + 12, T0 + HOUR_MS)
    assert (await read(store)).job.due_ms == T0 + 100


@pytest.mark.parametrize("has_failed", [False, True])
async def test_a_new_time_or_calendar_is_that_of_the_regular_round_after_it(store: Store, has_failed: bool) -> None:
    await add(store, unique="nightly", dt_ms=T0 + 100)
    await extra(store)
    if has_failed:
        job = await claim_one(store, now_ms=T0 + 10)
        await store.release_jobs(OWNER, [retry(job, T0 + 30)], now_ms=T0 + 11)
    await change(store, now_ms=T0 + 20, dt_ms=T0 + 900, timing=Timing.ANEW, at_rest=True)
    found = await read(store)
    assert (found.schedule.regular_ms, found.job.attempts) == (T0 + 900, int(has_failed))
    again = new_job(2, repeat="0 9 * * *", unique="nightly", data=b"new", dt_ms=T0 + 700)
    await store.create_jobs([Creation(again)], now_ms=T0 + 21)
    await run_round(store, T0 + 30, T0 + HOUR_MS)
    assert await rounds(store) == [(T0 + 10, Code.OK)]
    found = await read(store)
    assert (found.job.due_ms, found.job.repeat, found.schedule.regular_ms) == (T0 + 700, "0 9 * * *", None)


async def test_a_new_time_of_one_that_stops_to_repeat_is_that_of_its_last_round(store: Store) -> None:
    await add(store, dt_ms=T0 + 100)
    await extra(store)
    assert await change(store, dt_ms=T0 + 900, timing=Timing.ANEW, repeat="") == JobState.DEFERRED
    found = await read(store)
    assert (found.job.due_ms, found.schedule.regular_ms) == (T0 + 900, None)


async def test_one_that_waits_too_long_is_dropped_and_the_schedule_goes_on(store: Store) -> None:
    await add(store, dt_ms=T0 + HOUR_MS)
    await extra(store)
    report = await store.expire_jobs(now_ms=T0 + 50, done_before_ms=0, waiting_before_ms=T0 + 40)
    assert (report.purged, report.abandoned, report.more) == (0, 1, False)
    found = await read(store, now_ms=T0 + 50)
    assert (found.state, found.job.due_ms, found.schedule.regular_ms) == (JobState.DEFERRED, T0 + HOUR_MS, None)
    assert await rounds(store) == [(T0 + 10, Code.ABANDONED)]
    assert await counts(store, T0 + 50) == (0, 1, 0, 0)
    (counters,) = await store.get_counters(TENANT, now_ms=T0 + 50)
    assert counters.abandoned == 1
    await run_round(store, T0 + HOUR_MS, T0 + 2 * HOUR_MS)
    assert await rounds(store) == [(T0 + 10, Code.ABANDONED), (T0 + HOUR_MS, Code.OK)]


async def test_the_regular_round_after_one_that_was_dropped_waits_on(store: Store) -> None:
    await add(store, dt_ms=T0 + 20)
    await extra(store)
    for now_ms, abandoned in ((T0 + 50, 1), (T0 + 51, 0), (T0 + 60, 0)):
        report = await store.expire_jobs(now_ms=now_ms, done_before_ms=0, waiting_before_ms=now_ms - 9)
        assert report.abandoned == abandoned
    assert await rounds(store) == [(T0 + 10, Code.ABANDONED)]
    assert await waiting(store, T0 + 60) == [job_id(1)]


async def test_one_of_a_paused_schedule_that_waits_too_long_is_dropped_and_the_schedule_stays_paused(
    store: Store,
) -> None:
    await add(store, dt_ms=T0 + 100)
    await change(store, pause=PAUSE)
    await extra(store)
    for now_ms in (T0 + 50, T0 + HOUR_MS):
        await store.expire_jobs(now_ms=now_ms, done_before_ms=0, waiting_before_ms=now_ms - 10)
    found = await read(store)
    assert (found.state, found.job.due_ms, found.schedule.pause) == (JobState.PAUSED, T0 + 100, PAUSE)
    assert await rounds(store) == [(T0 + 10, Code.ABANDONED)]
    assert await counts(store, T0 + HOUR_MS) == (0, 0, 0, 1)
    assert await waiting(store, T0 + HOUR_MS) == []


async def test_the_children_of_a_failed_attempt_are_cancelled_with_the_round_that_is_dropped(store: Store) -> None:
    await add(store, dt_ms=T0 + HOUR_MS)
    await extra(store)
    parent = await claim_one(store, now_ms=T0 + 10)
    await store.create_job(new_job(2, jobtype="acme-child", parent=parent.id), now_ms=T0 + 10)
    await store.release_jobs(OWNER, [retry(parent, T0 + 20)], now_ms=T0 + 11)
    await store.expire_jobs(now_ms=T0 + 50, done_before_ms=0, waiting_before_ms=T0 + 40)
    assert (await read(store, 2)).state == JobState.ARCHIVED
    found = await read(store, now_ms=T0 + 50)
    assert (found.state, found.job.due_ms, found.pending_children) == (JobState.DEFERRED, T0 + HOUR_MS, 0)
    assert found.history == ()
    (kept,) = found.schedule.rounds
    assert (kept.planned_ms, kept.code, kept.attempts) == (T0 + 10, Code.ABANDONED, 1)
    again = await claim_one(store, now_ms=T0 + HOUR_MS)
    assert (again.attempts, again.scheduled_ms, again.window_ms) == (1, T0 + HOUR_MS, T0 + HOUR_MS)
