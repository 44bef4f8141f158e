"""Ending deliveries: archive, retry, unclaim, re-arm, in one mixed batch."""

import pytest

from store.base import Archive, Attempt, Code, JobFilter, JobState, Outcome, Rearm, Release, Retry, Store, Unclaim
from store.errors import InvalidValue
from store.names import DONE_LOCK, DONE_OFFSET_MS, MAX_LOG_BYTES, MAX_RESULT_BYTES
from tests.support.jobs import (
    OWNER,
    T0,
    TENANT,
    archive,
    claim,
    claim_one,
    ids,
    job_id,
    new_job,
    new_jobs,
    outcome,
    retry,
)


async def test_an_archived_job_keeps_its_outcome(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    job = await claim_one(store)
    ended = Outcome(
        Code.FAILED,
        404,
        started_ms=T0 + 1,
        duration_us=2_500,
        result=b"\x00\xffresult",
        log=b"tail",
        handler_version=3,
        isolation="L3",
        fingerprint="KeyError:x",
        message="KeyError: 'x'",
    )
    await store.release_jobs(OWNER, [Archive(job.id, job.token, ended)], now_ms=T0 + 9)
    record = await store.get_job(TENANT, job.id, now_ms=T0 + 9)
    assert record is not None
    assert record.state == JobState.ARCHIVED
    assert record.outcome == ended
    assert (record.done_ms, record.result_bytes) == (T0 + 9, 8)
    assert (record.job.lock, record.job.dt_ms) == (DONE_LOCK, T0 + 9 + DONE_OFFSET_MS)
    assert (record.job.token, record.job.attempts, record.job.data) == (1, 1, job.data)
    assert await claim(store, now_ms=T0 + DONE_OFFSET_MS) == []


@pytest.mark.parametrize("size", [256 * 1024, 256 * 1024 + 1, 1_000_003])
async def test_large_payloads_and_results_come_back_whole(store: Store, size: int) -> None:
    body = bytes(range(251)) * (size // 251 + 1)
    await store.add_jobs([new_job(1, data=body[:size])], now_ms=T0)
    job = await claim_one(store)
    assert job.data == body[:size]
    await store.release_jobs(OWNER, [archive(job, result=body[-size:])], now_ms=T0)
    record = await store.get_job(TENANT, job.id, now_ms=T0)
    assert record is not None
    assert record.outcome is not None
    assert (record.outcome.result, record.result_bytes) == (body[-size:], size)


async def test_no_result_and_an_empty_result_are_different(store: Store) -> None:
    await store.add_jobs(new_jobs(2), now_ms=T0)
    one, two = await claim(store)
    await store.release_jobs(OWNER, [archive(one), archive(two, result=b"")], now_ms=T0)
    results = []
    for job in (one, two):
        record = await store.get_job(TENANT, job.id, now_ms=T0)
        assert record is not None
        assert record.outcome is not None
        results.append(record.outcome.result)
    assert results == [None, b""]


async def test_a_retry_comes_back_at_its_time(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    job = await claim_one(store)
    again = retry(job, T0 + 500, Code.ERROR, log=b"oops", result=b"what went wrong")._replace(data=b"progress")
    await store.release_jobs(OWNER, [again], now_ms=T0 + 10)
    record = await store.get_job(TENANT, job.id, now_ms=T0 + 10)
    assert record is not None
    assert record.outcome == again.outcome
    assert (record.state, record.done_ms) == (JobState.DEFERRED, T0 + 10)
    assert await claim(store, now_ms=T0 + 499) == []
    second = await claim_one(store, now_ms=T0 + 500)
    assert (second.data, second.token, second.attempts, second.due_ms) == (b"progress", 2, 2, T0 + 500)


async def test_a_job_given_back_keeps_its_place_and_its_attempts(store: Store) -> None:
    await store.add_jobs([new_job(1, dt_ms=T0 - 50), new_job(2, dt_ms=T0 - 40)], now_ms=T0)
    job = await claim_one(store)
    await store.release_jobs(OWNER, [Unclaim(job.id, job.token)], now_ms=T0 + 5)
    first, _ = await claim(store, now_ms=T0 + 5)
    assert (first.id, first.due_ms, first.attempts, first.token) == (job.id, T0 - 50, 1, 2)


async def test_a_repeating_job_is_armed_again(store: Store) -> None:
    await store.add_jobs([new_job(1, repeat="finished, +1 hour")], now_ms=T0)
    job = await claim_one(store)
    rearm = Rearm(job.id, job.token, T0 + 3_600_000, outcome(result=b"round one"), data=b"next")
    await store.release_jobs(OWNER, [rearm], now_ms=T0)
    record = await store.get_job(TENANT, job.id, now_ms=T0)
    assert record is not None
    assert (record.state, record.job.attempts, record.job.repeat) == (JobState.DEFERRED, 0, "finished, +1 hour")
    assert record.outcome == rearm.outcome
    (counters,) = await store.get_counters(TENANT, now_ms=T0)
    assert (counters.ok, counters.deferred) == (1, 1)
    second = await claim_one(store, now_ms=T0 + 3_600_000)
    assert (second.data, second.token, second.attempts) == (b"next", 2, 1)


async def test_one_batch_with_every_outcome(store: Store) -> None:
    await store.add_jobs(new_jobs(8), now_ms=T0)
    jobs = await claim(store)
    releases: list[Release] = [
        archive(jobs[0], Code.OK, result=b"r"),
        archive(jobs[1], Code.FAILED),
        archive(jobs[2], Code.ABANDONED),
        retry(jobs[3], T0 + 10),
        retry(jobs[4], T0, Code.ERROR),
        Unclaim(jobs[5].id, jobs[5].token),
        Rearm(jobs[6].id, jobs[6].token, T0 + 10, outcome()),
        Archive(jobs[7].id, 99, outcome()),
    ]
    report = await store.release_jobs(OWNER, releases, now_ms=T0)
    assert (report.applied, report.stale, report.paused) == (7, (jobs[7].id,), ())
    (counters,) = await store.get_counters(TENANT, now_ms=T0)
    assert counters._asdict() | {"jobtype": ""} == {
        "jobtype": "",
        "waiting": 2,
        "deferred": 2,
        "running": 1,
        "blocked": 0,
        "ok": 2,
        "failed": 1,
        "retry": 1,
        "error": 1,
        "abandoned": 1,
        "cancelled": 0,
        "paused": False,
    }
    assert ids(await claim(store)) == [jobs[4].id, jobs[5].id]


@pytest.mark.parametrize("size_bytes", [2048, 2049, 70_000, 1024 * 1024])
async def test_payloads_and_results_of_any_size_come_back(store: Store, size_bytes: int) -> None:
    data = bytes(range(256)) * (size_bytes // 256 + 1)
    data = data[:size_bytes]
    await store.add_jobs([new_job(1, data=data)], now_ms=T0)
    job = await claim_one(store)
    assert job.data == data
    await store.release_jobs(OWNER, [archive(job, result=data[::-1])], now_ms=T0)
    record = await store.get_job(TENANT, job.id, now_ms=T0)
    assert record is not None
    assert record.outcome is not None
    assert (record.job.data, record.outcome.result) == (data, data[::-1])
    assert (await store.get_usage(TENANT)).size_bytes == 2 * size_bytes
    assert await store.replay_jobs(TENANT, [job.id], dt_ms=T0, now_ms=T0) == (job.id,)
    assert (await claim_one(store)).data == data
    assert (await store.get_usage(TENANT)).size_bytes == size_bytes


@pytest.mark.slow
async def test_the_biggest_result_is_kept(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    job = await claim_one(store)
    result = b"\x00r" * (MAX_RESULT_BYTES // 2)
    await store.release_jobs(OWNER, [archive(job, result=result)], now_ms=T0)
    record = await store.get_job(TENANT, job.id, now_ms=T0)
    assert record is not None
    assert record.outcome is not None
    assert record.outcome.result == result


BAD_OUTCOME = outcome(Code.OK)


@pytest.mark.parametrize(
    "bad",
    [
        Archive(job_id(1), 1, outcome(Code.RETRY)),
        Archive(job_id(1), 1, outcome(Code.ERROR)),
        Retry(job_id(1), 1, T0, outcome(Code.OK)),
        Rearm(job_id(1), 1, T0, outcome(Code.CANCELLED)),
        Rearm(job_id(1), 1, T0, outcome(Code.RETRY)),
        Retry(job_id(1), 1, -1, outcome(Code.RETRY)),
        Archive(job_id(1), 1, BAD_OUTCOME._replace(exitcode=1000)),
        Archive(job_id(1), 1, BAD_OUTCOME._replace(duration_us=-1)),
        Archive(job_id(1), 1, BAD_OUTCOME._replace(log=b"x" * (MAX_LOG_BYTES + 1))),
        Archive(job_id(1), 1, BAD_OUTCOME._replace(fingerprint="f", message="\ud800")),
    ],
    ids=lambda bad: type(bad).__name__,
)
async def test_a_release_that_does_not_fit_releases_nothing(store: Store, bad: Release) -> None:
    await store.add_jobs(new_jobs(3), now_ms=T0)
    jobs = await claim(store)
    with pytest.raises(InvalidValue):
        await store.release_jobs(OWNER, [archive(jobs[0]), bad], now_ms=T0)
    (counters,) = await store.get_counters(TENANT, now_ms=T0)
    assert counters.running == 3


async def test_one_job_twice_in_a_batch_is_refused(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    job = await claim_one(store)
    with pytest.raises(InvalidValue):
        await store.release_jobs(OWNER, [archive(job), Unclaim(job.id, job.token)], now_ms=T0)


async def test_a_job_that_is_tried_again_keeps_its_last_error_and_a_history(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    for number in range(1, 13):
        job = await claim_one(store, now_ms=T0 + number, owner=f"a{number}")
        words = {"message": f"no {number}", "result": b"trace %d" % number * 500, "log": b"said", "handler_version": 7}
        release = retry(job, T0, Code.ERROR, started_ms=T0 + number, **words)
        await store.release_jobs(f"a{number}", [release], now_ms=T0 + number)
    record = await store.get_job(TENANT, job_id(1), now_ms=T0 + 20)
    assert record is not None
    assert record.outcome is not None
    assert (record.outcome.result, record.outcome.log) == (b"trace 12" * 500, b"said")
    assert record.result_bytes == len(b"trace 12" * 500)
    assert [(one.number, one.daemon, one.message) for one in record.history] == [
        (number, f"a{number}", f"no {number}") for number in range(3, 13)
    ]
    assert record.history[0] == Attempt(3, T0 + 3, 1000, Code.ERROR, 500, "no 3", 7, "a3")
    usage = await store.get_usage(TENANT)
    assert usage.size_bytes == len(b"payload 1") + len(b"trace 12" * 500) + len(b"said")
    job = await claim_one(store, now_ms=T0 + 20)
    await store.release_jobs(OWNER, [archive(job, result=b"done")], now_ms=T0 + 20)
    record = await store.get_job(TENANT, job_id(1), now_ms=T0 + 20)
    assert record is not None
    assert record.outcome is not None
    assert (record.outcome.result, len(record.history)) == (b"done", 10)
    page = await store.list_jobs(TENANT, JobFilter(JobState.ARCHIVED), now_ms=T0 + 20)
    assert page.records[0].history == ()


async def test_the_history_begins_anew_with_every_round(store: Store) -> None:
    await store.add_jobs([new_job(1, repeat="daily")], now_ms=T0)
    await store.release_jobs(OWNER, [retry(await claim_one(store), T0)], now_ms=T0)
    job = await claim_one(store)
    await store.release_jobs(OWNER, [Rearm(job.id, job.token, T0 + 5, outcome())], now_ms=T0)
    record = await store.get_job(TENANT, job_id(1), now_ms=T0)
    assert record is not None
    assert record.history == ()


async def test_a_cancelled_job_keeps_what_its_last_run_left(store: Store) -> None:
    await store.add_jobs(new_jobs(2), now_ms=T0)
    job = await claim_one(store)
    words = {"message": "oh dear", "result": b"trace" * 1000, "log": b"said", "handler_version": 7}
    await store.release_jobs(OWNER, [retry(job, T0 + 5, Code.ERROR, **words)], now_ms=T0)
    before = await store.get_usage(TENANT)
    for number in (0, 1):
        await store.cancel_job(TENANT, job_id(number), now_ms=T0 + 1)
    record = await store.get_job(TENANT, job_id(0), now_ms=T0 + 1)
    assert record is not None
    assert record.outcome == outcome(Code.ERROR, **words)._replace(code=Code.CANCELLED, exitcode=499)
    assert (await store.get_usage(TENANT)).size_bytes == before.size_bytes
    never_ran = await store.get_job(TENANT, job_id(1), now_ms=T0 + 1)
    assert never_ran is not None
    assert never_ran.outcome == Outcome(Code.CANCELLED, 499, started_ms=0)
