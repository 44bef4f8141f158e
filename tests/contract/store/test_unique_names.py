"""Jobs with unique names: what a second one of the name changes of the first."""

import pytest

from store.base import Creation, JobState, Rearm, Store
from store.errors import Conflict
from tests.support.jobs import (
    LEASE_MS,
    OWNER,
    T0,
    TENANT,
    archive,
    claim,
    claim_one,
    ids,
    job_id,
    new_job,
    outcome,
    retry,
)


async def test_a_unique_job_is_updated_and_not_added_again(store: Store) -> None:
    first = new_job(1, unique="nightly", repeat="daily", priority=0)
    assert (await store.create_job(first, now_ms=T0)).created
    second = new_job(2, unique="nightly", repeat="hourly", priority=1000, data=b"newer")
    report = await store.create_job(second, now_ms=T0)
    assert (report.id, report.created, report.state) == (job_id(1), False, JobState.WAITING)
    assert (await store.create_job(new_job(3, unique="other"), now_ms=T0)).created
    assert (await store.create_job(new_job(4, unique="nightly", jobtype="acme-b"), now_ms=T0)).created
    job = await claim_one(store)
    assert (job.id, job.data, job.repeat, job.priority, job.unique) == (
        job_id(1),
        b"newer",
        "hourly",
        1000,
        "nightly",
    )
    await store.release_jobs(OWNER, [archive(job)], now_ms=T0)
    assert (await store.create_job(new_job(6, unique="nightly"), now_ms=T0)).created
    counters = {c.jobtype: c for c in await store.get_counters(TENANT, now_ms=T0)}
    assert (counters["acme-thumb"].waiting, counters["acme-thumb"].running) == (2, 0)


async def test_what_the_caller_does_not_say_stays(store: Store) -> None:
    first = new_job(1, unique="nightly", repeat="daily", priority=1000)
    second = new_job(2, unique="nightly", data=b"newer")
    keeps = frozenset({"repeat", "priority"})
    await store.create_jobs([Creation(first), Creation(second, keeps)], now_ms=T0)
    job = await claim_one(store)
    assert (job.id, job.data, job.repeat, job.priority) == (job_id(1), b"newer", "daily", 1000)


@pytest.mark.parametrize(
    ("repeat", "keeps", "later_s"),
    [
        ("0 7 * * *", frozenset(), 60),
        ("0 7 * * *", frozenset({"due"}), 3600),
        ("0 9 * * *", frozenset(), 3600),
        ("0 7 * * *", frozenset({"repeat"}), 3600),
        ("", frozenset(), 3600),
    ],
)
async def test_a_unique_job_that_gets_another_repeat_gets_its_time_too(
    store: Store, repeat: str, keeps: frozenset[str], later_s: int
) -> None:
    first = new_job(1, unique="nightly", repeat="0 9 * * *", dt_ms=T0 + 3_600_000)
    second = new_job(2, unique="nightly", repeat=repeat, dt_ms=T0 + 60_000, priority=1000)
    await store.create_jobs([Creation(first)], now_ms=T0)
    (report,) = await store.create_jobs([Creation(second, keeps)], now_ms=T0)
    assert (report.created, report.state) == (False, JobState.DEFERRED)
    due_ms = T0 + 1000 * later_s
    assert await claim(store, now_ms=due_ms - 1) == []
    job = await claim_one(store, now_ms=due_ms)
    assert (job.id, job.due_ms, job.priority) == (job_id(1), due_ms, 1000)


async def test_a_unique_job_with_another_repeat_is_in_a_new_round(store: Store) -> None:
    first = new_job(1, unique="nightly", repeat="0 9 * * *", key="k")
    await store.create_jobs([Creation(first), Creation(new_job(2, key="k"))], now_ms=T0)
    job = await claim_one(store, max_per_key=1)
    await store.release_jobs(OWNER, [retry(job, T0 + 60_000, message="boom")], now_ms=T0)
    assert await claim(store, max_per_key=1) == [], "the one that is tried again comes first"
    later_ms = T0 + 200 * 86_400_000
    again = new_job(3, unique="nightly", repeat="0 7 * * *", key="k", dt_ms=later_ms)
    report = await store.create_job(again, now_ms=T0)
    assert (report.id, report.state) == (first.id, JobState.DEFERRED)
    assert ids(await claim(store, max_per_key=1)) == [job_id(2)]
    record = await store.get_job(TENANT, first.id, now_ms=T0)
    assert record is not None
    assert (record.job.attempts, record.job.scheduled_ms, record.job.window_ms) == (0, later_ms, later_ms)
    assert record.history == ()


async def test_a_unique_job_that_gets_a_later_time_is_said_to_be_deferred(store: Store) -> None:
    await store.create_job(new_job(1, unique="nightly", repeat="0 9 * * *"), now_ms=T0)
    report = await store.create_job(new_job(2, unique="nightly", repeat="0 7 * * *", dt_ms=T0 + 60_000), now_ms=T0)
    assert report.state is JobState.DEFERRED


async def test_also_the_data_stays_if_the_caller_says_none(store: Store) -> None:
    first, second = new_job(1, unique="nightly", data=b"x" * 9000), new_job(2, unique="nightly", priority=1000)
    await store.create_jobs([Creation(first), Creation(second, frozenset({"data"}))], now_ms=T0)
    job = await claim_one(store)
    assert (job.id, job.data, job.priority) == (job_id(1), b"x" * 9000, 1000)
    assert (await store.get_usage(TENANT)).size_bytes == 9000


@pytest.mark.parametrize("data", [b"x", b"x" * 300_000], ids=["small", "large"])
async def test_a_schedule_that_runs_may_be_said_again(store: Store, data: bytes) -> None:
    """A program that says at its start what it wants to have run may start while that runs."""
    said = new_job(1, unique="nightly", repeat="FINISHED, +1 DAY", data=data)
    await store.create_job(said, now_ms=T0)
    job = await claim_one(store)
    again = said._replace(id=job_id(2))
    keeps = frozenset({"due"})
    for now_ms in (T0, T0 + LEASE_MS):
        (report,) = await store.create_jobs([Creation(again, keeps)], now_ms=now_ms)
        assert (report.id, report.created) == (job.id, False)
    (_, report) = await store.create_jobs([Creation(new_job(3)), Creation(again, keeps)], now_ms=T0)
    assert report == (job.id, False, JobState.RUNNING)
    for other in ({"data": b"other"}, {"repeat": "FINISHED, +2 DAY"}, {"priority": 1000}, {"repeat": ""}):
        with pytest.raises(Conflict, match="running with its payload"):
            await store.create_jobs([Creation(again._replace(**other), keeps)], now_ms=T0)
    (report,) = await store.create_jobs([Creation(again._replace(priority=0), keeps | {"priority"})], now_ms=T0)
    assert report.id == job.id
    report_of_end = await store.release_jobs(OWNER, [Rearm(job.id, job.token, T0 + 5, outcome())], now_ms=T0)
    assert report_of_end.stale == (), "it was not touched"


async def test_a_unique_job_that_runs_is_not_replaced(store: Store) -> None:
    """Its payload is in use: the new one would never run."""
    await store.create_job(new_job(1, unique="nightly"), now_ms=T0)
    job = await claim_one(store)
    for now_ms in (T0, T0 + LEASE_MS):
        with pytest.raises(Conflict, match="running with its payload"):
            await store.create_job(new_job(2, unique="nightly", data=b"newer"), now_ms=now_ms)
    await store.release_jobs(OWNER, [archive(job)], now_ms=T0)
    assert (await store.create_job(new_job(2, unique="nightly", data=b"newer"), now_ms=T0)).created
