"""Jobs that started before the store had them: their end is that of add, claim and release, and an id is taken once."""

from typing import Any

import pytest

from store.base import (
    Archive,
    Code,
    JobState,
    JournalPosition,
    NewHandler,
    NewJob,
    Release,
    Retry,
    Store,
    Tenant,
    TypeGate,
    Unclaim,
)
from store.errors import InvalidValue
from store.sqlite.file.schema import INLINE_BYTES
from store.values.scoreboard import MINUTE_MS
from tests.support.jobs import LEASE_MS, OWNER, T0, TENANT, claim, ids, job_id, new_job, new_jobs, outcome
from tests.support.store_audit import check_counters, check_states

LONG, STRAIGHT = "acme-long", "acme-straight"
NOW = T0 + 50
BIG = b"x" * (INLINE_BYTES + 1)
HUGE = b"x" * (300 * 1024)


def released(job: NewJob, number: int) -> Release:
    """Every kind of end, by turns."""
    wrong = {"fingerprint": "KeyError", "message": "KeyError: 'x'", "log": b"printed"}
    ends: list[Release] = [
        Archive(job.id, 1, outcome(result=b"r", handler_version=3, isolation="L3")),
        Archive(job.id, 1, outcome()),
        Archive(job.id, 1, outcome(Code.FAILED, result=b"", **wrong)),
        Archive(job.id, 1, outcome(Code.ABANDONED, result=BIG)),
        Archive(job.id, 1, outcome(result=HUGE)),
        Retry(job.id, 1, NOW + 1000, outcome(Code.RETRY)),
        Retry(job.id, 1, NOW, outcome(Code.ERROR, **wrong), b"other data"),
        Unclaim(job.id, 1),
    ]
    return ends[number % len(ends)]


def jobs_of(jobtype: str, start: int) -> list[NewJob]:
    data = [b"small", b"", BIG, HUGE]
    return [new_job(start + n, jobtype=jobtype, data=data[n % 3], dt_ms=T0 - n) for n in range(16)]


async def seen(store: Store, jobtype: str, jobs: list[NewJob]) -> Any:
    """All that a reader can tell of the jobs of a type, without what names the type, the ids or when it was claimed."""
    records = []
    for job in jobs:
        record = await store.get_job(TENANT, job.id, now_ms=NOW)
        assert record is not None
        records.append(record._replace(job=record.job._replace(id="", jobtype=""), claimed_ms=0))
    counters = [
        row._replace(jobtype="") for row in await store.get_counters(TENANT, now_ms=NOW) if row.jobtype == jobtype
    ]
    buckets = [
        bucket._replace(jobtype="", duration=bucket.duration.encode(), wait=bucket.wait.encode())  # type: ignore[arg-type]
        for bucket in await store.get_buckets(TENANT, jobtype=jobtype, width_ms=MINUTE_MS, since_ms=0, until_ms=NOW + 1)
    ]
    failures = [
        (group.fingerprint, group.message, group.runs)
        for group in await store.list_failure_groups(TENANT, jobtypes=[jobtype], since_ms=0, limit=100)
    ]
    return records, counters, buckets, failures


async def test_the_end_is_the_same_as_on_the_long_way(store: Store) -> None:
    long, straight = jobs_of(LONG, 0), jobs_of(STRAIGHT, 100)
    await store.add_jobs(long, now_ms=T0)
    await claim(store, jobtype=LONG)
    first = await store.release_jobs(OWNER, [released(job, n) for n, job in enumerate(long)], now_ms=NOW)
    usage = await store.get_usage(TENANT)
    second = await store.add_ended_jobs(
        OWNER, straight, [released(job, n) for n, job in enumerate(straight)], now_ms=NOW
    )
    assert second == first
    assert await seen(store, STRAIGHT, straight) == await seen(store, LONG, long)
    both = await store.get_usage(TENANT)
    assert (both.jobs, both.size_bytes) == (2 * usage.jobs, 2 * usage.size_bytes)
    await check_states(store, TENANT, NOW)


async def test_a_repeated_end_changes_nothing(store: Store) -> None:
    jobs = jobs_of(STRAIGHT, 0)
    releases = [released(job, n) for n, job in enumerate(jobs)]
    await store.add_ended_jobs(OWNER, jobs, releases, now_ms=NOW)
    before = await seen(store, STRAIGHT, jobs)
    report = await store.add_ended_jobs(OWNER, jobs, releases, now_ms=NOW)
    assert (report.applied, list(report.stale)) == (0, ids(jobs))
    assert (await store.add_jobs(jobs, now_ms=NOW)).duplicates == len(jobs), "as a journal read again adds them"
    assert await seen(store, STRAIGHT, jobs) == before
    await check_states(store, TENANT, NOW)


async def test_some_of_a_batch_may_be_there_already(store: Store) -> None:
    jobs = new_jobs(5)
    releases = [Archive(job.id, 1, outcome(result=b"r")) for job in jobs]
    await store.add_ended_jobs(OWNER, jobs[1:3], releases[1:3], now_ms=NOW)
    report = await store.add_ended_jobs(OWNER, jobs, releases, now_ms=NOW)
    assert (report.applied, list(report.stale)) == (3, ids(jobs[1:3]))
    assert [row.ok for row in await store.get_counters(TENANT, now_ms=NOW)] == [5]
    await check_counters(store, TENANT, NOW)


async def test_a_job_that_is_shown_as_running_is_released(store: Store) -> None:
    jobs = new_jobs(3)
    assert (await store.add_running_jobs(OWNER, jobs[:2], lease_ms=LEASE_MS, now_ms=T0)).added == 2
    record = await store.get_job(TENANT, job_id(0), now_ms=T0)
    assert record is not None
    assert (record.state, record.job.lock, record.job.token, record.job.attempts) == (JobState.RUNNING, OWNER, 1, 1)
    assert record.job.dt_ms == T0 + LEASE_MS
    assert await claim(store) == []
    releases = [Archive(job.id, 1, outcome(result=b"r")) for job in jobs]
    assert (await store.add_ended_jobs(OWNER, jobs, releases, now_ms=NOW)).applied == 3
    assert (await store.add_running_jobs(OWNER, jobs, lease_ms=LEASE_MS, now_ms=NOW)).duplicates == 3, (
        "it came too late"
    )
    assert [(row.ok, row.running) for row in await store.get_counters(TENANT, now_ms=NOW)] == [(3, 0)]
    await check_counters(store, TENANT, NOW)


async def test_a_job_that_was_shown_and_lost_is_not_ended(store: Store) -> None:
    jobs = new_jobs(1)
    await store.add_running_jobs(OWNER, jobs, lease_ms=LEASE_MS, now_ms=T0)
    later = T0 + LEASE_MS + 1
    assert await store.expire_locks(now_ms=later) == 1
    (again,) = await claim(store, now_ms=later, owner="b2")
    assert (again.token, again.attempts) == (2, 2)
    report = await store.add_ended_jobs(OWNER, jobs, [Archive(jobs[0].id, 1, outcome())], now_ms=later)
    assert report.stale == (jobs[0].id,)
    record = await store.get_job(TENANT, jobs[0].id, now_ms=later)
    assert record is not None
    assert record.state == JobState.RUNNING
    await check_counters(store, TENANT, later)


async def test_the_position_moves_with_the_ends(store: Store) -> None:
    position = JournalPosition("j", "3", 400, 0)
    jobs = new_jobs(1)
    await store.add_ended_jobs(OWNER, jobs, [Archive(jobs[0].id, 1, outcome())], now_ms=NOW, position=position)
    assert await store.get_journal_position("j") == position


async def test_gates_tell_handler_pause_and_suspension(store: Store) -> None:
    await store.create_tenant(Tenant(TENANT, T0))
    await store.create_tenant(Tenant("beta", T0))
    handler = await store.set_handler(TENANT, NewHandler(LONG, "sh", b"", T0))
    await store.set_type_paused(TENANT, STRAIGHT, paused=True)
    await store.set_handler("beta", NewHandler("beta-x", "sh", b"", T0))
    await store.update_tenant("beta", suspended=True)
    asked = ["beta-x", STRAIGHT, "acme-never", LONG]
    assert [tuple(gate) for gate in await store.get_type_gates(asked)] == [
        ("beta-x", 1, False),
        (STRAIGHT, 0, False),
        ("acme-never", 0, True),
        (LONG, handler.version, True),
    ]
    assert await store.get_type_gates([]) == []
    assert isinstance((await store.get_type_gates([LONG]))[0], TypeGate)


@pytest.mark.parametrize(
    "change", [{"domain": "api"}, {"indexed": True}, {"retry_after_ms": 5}, {"repeat": "DAILY"}, {"parent": "p"}]
)
async def test_only_plain_jobs_take_this_way(store: Store, change: dict[str, Any]) -> None:
    job = new_job(1, **change)
    with pytest.raises(InvalidValue):
        await store.add_running_jobs(OWNER, [job], lease_ms=1, now_ms=T0)
    with pytest.raises(InvalidValue):
        await store.add_ended_jobs(OWNER, [job], [Archive(job.id, 1, outcome())], now_ms=T0)


async def test_jobs_and_releases_name_the_same_ids(store: Store) -> None:
    with pytest.raises(InvalidValue, match="same ids"):
        await store.add_ended_jobs(OWNER, new_jobs(1), [Archive(job_id(2), 1, outcome())], now_ms=T0)


async def test_a_job_that_is_given_back_before_it_is_due_counts_as_deferred(store: Store) -> None:
    job = new_job(1, dt_ms=T0 + 24)
    await store.add_ended_jobs(OWNER, [job], [Unclaim(job.id, 1)], now_ms=T0)
    await check_counters(store, TENANT, T0)
