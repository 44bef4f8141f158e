"""A schedule that is paused: what goes on, what stops, and what a resume makes of it."""

from typing import Any

import pytest

from store.base import (
    Code,
    Creation,
    JobState,
    Pause,
    Schedule,
    Store,
    Timing,
    Unclaim,
)
from store.errors import Conflict
from tests.support.jobs import LEASE_MS, OWNER, T0, TENANT, archive, claim, claim_one, job_id, new_job, retry
from tests.support.schedules import (
    HOUR_MS,
    HOURLY,
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


async def test_a_paused_schedule_is_out_of_the_queue_until_it_is_resumed(store: Store) -> None:
    await add(store, dt_ms=T0 + 100)
    assert await change(store, pause=PAUSE) == JobState.PAUSED
    assert await waiting(store, T0 + HOUR_MS) == []
    assert await counts(store, T0 + HOUR_MS) == (0, 0, 0, 1)
    assert await store.get_next_due(after_ms=T0) is None
    found = await read(store)
    assert (found.schedule.pause, found.job.due_ms) == (PAUSE, T0 + 100)
    assert [it.job.id for it in (await store.list_repeating(TENANT, now_ms=T0)).records] == [job_id(1)]
    later = T0 + HOUR_MS
    assert await change(store, now_ms=later, resume_ms=later + 50) == JobState.DEFERRED
    assert await counts(store, later) == (0, 1, 0, 0)
    assert await waiting(store, later + 50) == [job_id(1)]
    assert (await read(store)).schedule == Schedule()


async def test_one_that_is_due_already_does_not_start_either(store: Store) -> None:
    await add(store)
    assert await change(store, pause=PAUSE) == JobState.PAUSED
    assert await counts(store, T0 + 9) == (0, 0, 0, 1)
    assert await change(store, resume_ms=0) == JobState.WAITING
    assert await waiting(store, T0 + 9) == [job_id(1)]


async def test_a_round_that_runs_ends_and_then_the_pause_holds(store: Store) -> None:
    await add(store)
    job = await claim_one(store)
    assert await change(store, pause=PAUSE) == JobState.RUNNING
    await store.release_jobs(OWNER, [retry(job, T0 + 20)], now_ms=T0 + 10)
    await run_round(store, T0 + 20, T0 + HOUR_MS)
    assert await rounds(store) == [(T0, Code.OK)]
    assert (await read(store)).state == JobState.PAUSED
    assert await counts(store, T0 + HOUR_MS) == (0, 0, 0, 1)
    assert await waiting(store, T0 + HOUR_MS) == []
    await change(store, resume_ms=0)
    assert await waiting(store, T0 + HOUR_MS) == [job_id(1)]


async def test_a_round_that_is_tried_again_goes_on(store: Store) -> None:
    await add(store)
    job = await claim_one(store)
    await store.release_jobs(OWNER, [retry(job, T0 + 100)], now_ms=T0 + 1)
    assert await change(store, pause=PAUSE) == JobState.DEFERRED
    assert await waiting(store, T0 + 100) == [job_id(1)]


async def test_a_round_that_is_given_back_does_not_begin(store: Store) -> None:
    await add(store)
    job = await claim_one(store)
    await change(store, pause=PAUSE)
    report = await store.release_jobs(OWNER, [Unclaim(job.id, job.token)], now_ms=T0 + 10)
    assert report.applied == 1
    found = await read(store)
    assert (found.state, found.job.attempts, found.job.due_ms) == (JobState.PAUSED, 0, T0)
    assert await counts(store, T0 + 20) == (0, 0, 0, 1)
    assert await waiting(store, T0 + HOUR_MS) == []
    assert await change(store, now_ms=T0 + 30, resume_ms=T0 + 30) == JobState.WAITING
    assert await counts(store, T0 + 30) == (1, 0, 0, 0)
    assert await waiting(store, T0 + 30) == [job_id(1)]


async def test_a_round_that_has_begun_or_is_an_extra_one_is_given_back_to_go_on(store: Store) -> None:
    await add(store, 1)
    first = await claim_one(store)
    await store.release_jobs(OWNER, [retry(first, T0 + 2)], now_ms=T0 + 1)
    again = await claim_one(store, now_ms=T0 + 2)
    await change(store, pause=PAUSE)
    await store.release_jobs(OWNER, [Unclaim(again.id, again.token)], now_ms=T0 + 10)
    await run_round(store, T0 + 11, T0 + HOUR_MS)
    await change(store, now_ms=T0 + 20, dt_ms=T0 + 20, timing=Timing.EXTRA)
    early = await claim_one(store, now_ms=T0 + 20)
    await store.release_jobs(OWNER, [Unclaim(early.id, early.token)], now_ms=T0 + 21)
    await run_round(store, T0 + 22, T0 + 2 * HOUR_MS)
    assert await rounds(store) == [(T0, Code.OK), (T0 + 20, Code.OK)]
    assert await counts(store, T0 + 2 * HOUR_MS) == (0, 0, 0, 1)


async def test_a_round_whose_parent_has_waited_for_its_children_is_given_back_to_go_on(store: Store) -> None:
    await add(store)
    parent = await claim_one(store)
    await store.create_job(new_job(2, jobtype="acme-child", parent=parent.id), now_ms=T0)
    await store.release_jobs(OWNER, [rearm(parent, T0 + HOUR_MS)], now_ms=T0 + 1)
    await store.cancel_job(TENANT, job_id(2), now_ms=T0 + 2)
    again = await claim_one(store, now_ms=T0 + 3)
    await change(store, pause=PAUSE)
    await store.release_jobs(OWNER, [Unclaim(again.id, again.token)], now_ms=T0 + 10)
    await run_round(store, T0 + 11, T0 + HOUR_MS)
    assert await rounds(store) == [(T0, Code.OK)]


async def test_a_round_whose_lease_lapses_has_begun_and_goes_on(store: Store) -> None:
    await add(store)
    await claim_one(store)
    await change(store, pause=PAUSE)
    await store.expire_locks(now_ms=T0 + LEASE_MS)
    found = await read(store)
    assert (found.state, found.job.attempts) == (JobState.WAITING, 1)
    await run_round(store, T0 + LEASE_MS, T0 + HOUR_MS)
    assert (await read(store)).state == JobState.PAUSED


async def test_a_resume_while_the_round_runs_takes_the_pause_back(store: Store) -> None:
    await add(store)
    job = await claim_one(store)
    await change(store, pause=PAUSE)
    assert await change(store, resume_ms=0) == JobState.RUNNING
    await store.release_jobs(OWNER, [rearm(job, T0 + HOUR_MS)], now_ms=T0 + 10)
    assert await waiting(store, T0 + HOUR_MS) == [job_id(1)]


async def test_a_resume_moves_no_round_that_was_not_paused(store: Store) -> None:
    await add(store)
    await change(store, resume_ms=T0 + HOUR_MS)
    assert await waiting(store, T0 + 9) == [job_id(1)]


async def test_a_resume_during_an_extra_round_moves_the_regular_one(store: Store) -> None:
    await add(store, dt_ms=T0 + 100)
    await change(store, pause=PAUSE)
    await extra(store)
    job = await claim_one(store, now_ms=T0 + 200)
    await change(store, now_ms=T0 + 201, resume_ms=T0 + 900)
    await store.release_jobs(OWNER, [rearm(job, T0 + HOUR_MS)], now_ms=T0 + 202)
    found = await read(store, now_ms=T0 + 202)
    assert (found.state, found.job.due_ms) == (JobState.DEFERRED, T0 + 900)


async def test_pause_and_resume_can_be_said_twice(store: Store) -> None:
    await add(store)
    await change(store, pause=PAUSE)
    assert await change(store, pause=Pause(T0 + 99, "k2")) == JobState.PAUSED
    assert (await read(store)).schedule.pause == PAUSE
    await change(store, resume_ms=0)
    assert await change(store, resume_ms=0) == JobState.WAITING
    assert await counts(store, T0 + 9) == (1, 0, 0, 0)


async def test_a_parent_whose_children_are_cancelled_after_its_round_is_paused_then(store: Store) -> None:
    await add(store)
    parent = await claim_one(store)
    await store.create_job(new_job(2, jobtype="acme-child", parent=parent.id), now_ms=T0)
    await change(store, pause=PAUSE)
    await store.release_jobs(OWNER, [rearm(parent, T0 + HOUR_MS, Code.FAILED)], now_ms=T0 + 10)
    assert (await read(store)).state == JobState.PAUSED
    assert await waiting(store, T0 + HOUR_MS) == []
    assert await rounds(store) == [(T0, Code.FAILED)]
    await change(store, resume_ms=0)
    assert await waiting(store, T0 + HOUR_MS) == [job_id(1)]


async def test_who_waits_for_nothing_but_a_resume_is_never_abandoned(store: Store) -> None:
    await add(store)
    await change(store, pause=PAUSE)
    now_ms = T0 + 1000 * HOUR_MS
    await store.expire_locks(now_ms=now_ms)
    report = await store.expire_jobs(now_ms=now_ms, done_before_ms=now_ms, waiting_before_ms=now_ms)
    assert (report.purged, report.abandoned) == (0, 0)
    assert (await read(store)).state == JobState.PAUSED


async def test_a_schedule_that_is_said_again_stays_paused(store: Store) -> None:
    await add(store, unique="nightly", dt_ms=T0 + 100)
    await change(store, pause=PAUSE)
    again = new_job(2, repeat="0 9 * * *", unique="nightly", data=b"new", dt_ms=T0 + 300, priority=1000)
    (report,) = await store.create_jobs([Creation(again)], now_ms=T0 + 50)
    assert (report.id, report.state) == (job_id(1), JobState.PAUSED)
    found = await read(store)
    assert (found.job.data, found.job.repeat, found.job.priority) == (b"new", "0 9 * * *", 1000)
    assert (found.schedule.pause, found.job.due_ms) == (PAUSE, T0 + 300)
    assert await waiting(store, T0 + HOUR_MS) == []
    await change(store, resume_ms=0)
    assert await waiting(store, T0 + HOUR_MS) == [job_id(1)]


async def test_one_that_is_cancelled_while_it_is_paused_is_not_paused_when_it_is_replayed(store: Store) -> None:
    await add(store)
    await change(store, pause=PAUSE)
    await store.cancel_job(TENANT, job_id(1), now_ms=T0 + 20)
    assert await counts(store, T0 + 30) == (0, 0, 0, 0)
    await store.replay_jobs(TENANT, [job_id(1)], dt_ms=T0 + 30, now_ms=T0 + 30)
    assert (await read(store)).schedule.pause is None
    assert await waiting(store, T0 + 30) == [job_id(1)]


async def listed(store: Store) -> list[str]:
    return [it.job.id for it in (await store.list_repeating(TENANT, now_ms=T0)).records]


@pytest.mark.parametrize("is_said_again", [False, True])
async def test_one_that_stops_to_repeat_while_it_is_paused_can_be_found_and_resumed(
    store: Store, is_said_again: bool
) -> None:
    await add(store, unique="nightly")
    await add(store, 2)
    await change(store, pause=PAUSE)
    if is_said_again:
        await store.create_jobs([Creation(new_job(3, unique="nightly"))], now_ms=T0)
    else:
        await change(store, repeat="")
    assert (await read(store)).job.repeat == ""
    assert await listed(store) == [job_id(1), job_id(2)], "nothing else would lead to it"
    assert await change(store, resume_ms=0) == JobState.WAITING
    last, other = await claim(store, 10, now_ms=T0 + 9)
    assert (last.id, other.id) == (job_id(1), job_id(2))
    assert await listed(store) == [job_id(2)], "it has one last round"
    await store.release_jobs(OWNER, [archive(last)], now_ms=T0 + 10)
    assert (await read(store)).schedule.rounds == ()


async def test_one_that_stopped_to_repeat_and_ended_while_it_was_paused_is_not_listed_again(store: Store) -> None:
    await add(store)
    await change(store, pause=PAUSE)
    await change(store, repeat="")
    await store.cancel_job(TENANT, job_id(1), now_ms=T0 + 1)
    assert await listed(store) == []
    await store.replay_jobs(TENANT, [job_id(1)], dt_ms=T0 + 2, now_ms=T0 + 2)
    assert await listed(store) == []


async def test_who_never_repeated_and_is_not_to_is_no_schedule(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    parent = await claim_one(store)
    await store.create_job(new_job(2, jobtype="acme-child", parent=parent.id), now_ms=T0)
    assert await change(store, 2, repeat="") == JobState.PAUSED
    assert await listed(store) == []


async def test_a_job_that_does_not_repeat_is_refused(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    refused: list[dict[str, Any]] = [{"pause": PAUSE}, {"repeat": HOURLY}, {"dt_ms": T0 + 9, "timing": Timing.EXTRA}]
    for said in refused:
        with pytest.raises(Conflict, match="does not repeat"):
            await change(store, **said)
    assert await waiting(store, T0 + 9) == [job_id(1)]


async def test_one_with_a_key_comes_back_to_its_queue(store: Store) -> None:
    await store.add_jobs([new_job(1, repeat=HOURLY, key="ada"), new_job(2, key="ada")], now_ms=T0)
    await change(store, pause=PAUSE)
    assert await waiting(store, T0 + 9) == [job_id(2)]
    await change(store, resume_ms=T0 + 20)
    assert await waiting(store, T0 + 20) == [job_id(1)]
