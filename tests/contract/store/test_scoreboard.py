"""Counters, buckets, failure groups and usage: always what a count of the jobs would say."""

import pytest

from store.base import Archive, Code, NewHandler, Store
from store.errors import InvalidValue
from store.values.scoreboard import DAY_MS, HOUR_MS, MINUTE_MS, RESOLUTIONS
from tests.support.jobs import (
    JOBTYPE,
    OWNER,
    T0,
    TENANT,
    archive,
    claim,
    claim_one,
    new_job,
    new_jobs,
    outcome,
    retry,
)


async def test_deferred_jobs_become_waiting_by_the_clock_and_by_upkeep(store: Store) -> None:
    await store.add_jobs([new_job(n, dt_ms=T0 + n) for n in range(10)], now_ms=T0)

    async def counts(now_ms: int) -> tuple[int, int]:
        (counters,) = await store.get_counters(TENANT, now_ms=now_ms)
        return counters.waiting, counters.deferred

    assert [await counts(T0), await counts(T0 + 4), await counts(T0 + 9)] == [(1, 9), (5, 5), (10, 0)]
    await store.expire_locks(now_ms=T0 + 4)
    assert [await counts(T0 + 4), await counts(T0 + 9)] == [(5, 5), (10, 0)]
    await claim(store, 7, now_ms=T0 + 9)
    assert await counts(T0 + 9) == (3, 0)


async def test_counters_are_by_tenant(store: Store) -> None:
    await store.add_jobs([new_job(1), new_job(2, jobtype="other-b"), new_job(3, jobtype="acme-b")], now_ms=T0)
    assert [c.jobtype for c in await store.get_counters(TENANT, now_ms=T0)] == ["acme-b", JOBTYPE]
    assert [c.jobtype for c in await store.get_counters(None, now_ms=T0)] == ["acme-b", JOBTYPE, "other-b"]
    assert await store.get_counters("nobody", now_ms=T0) == []


async def test_a_paused_type_shows_before_it_has_jobs(store: Store) -> None:
    await store.set_type_paused(TENANT, JOBTYPE, paused=True)
    (counters,) = await store.get_counters(TENANT, now_ms=T0)
    assert (counters.jobtype, counters.paused, counters.waiting) == (JOBTYPE, True, 0)


async def test_a_pause_tells_whether_it_changed_anything_and_a_resume_makes_no_type(store: Store) -> None:
    assert not await store.set_type_paused(TENANT, JOBTYPE, paused=False)
    assert await store.get_counters(TENANT, now_ms=T0) == []
    steps = [True, True, False, False, True]
    assert [await store.set_type_paused(TENANT, JOBTYPE, paused=it) for it in steps] == [True, False, True, False, True]
    (counters,) = await store.get_counters(TENANT, now_ms=T0)
    assert counters.paused


async def test_buckets_count_runs_by_minute_hour_and_day(store: Store) -> None:
    start = T0 - T0 % DAY_MS
    await store.add_jobs(new_jobs(6, dt_ms=start - 50, create_ms=start - 50), now_ms=start)
    jobs = await claim(store, now_ms=start)
    at = [start, start + MINUTE_MS - 1, start + MINUTE_MS, start + HOUR_MS]
    plan = [(0, Code.OK, 100), (0, Code.FAILED, 200), (1, Code.OK, 300), (2, Code.OK, 4000), (3, Code.ABANDONED, 50)]
    for job, (when, code, duration_us) in zip(jobs, plan, strict=False):
        await store.release_jobs(
            OWNER, [archive(job, code, started_ms=start, duration_us=duration_us)], now_ms=at[when]
        )
    await store.release_jobs(OWNER, [retry(jobs[5], at[3] + 9, started_ms=start, duration_us=7)], now_ms=at[3])

    async def buckets(width_ms: int, until_ms: int = start + DAY_MS) -> list[tuple[int, int, int, int, int]]:
        found = await store.get_buckets(TENANT, width_ms=width_ms, since_ms=start, until_ms=until_ms)
        assert {b.width_ms for b in found} == {width_ms}
        return [(b.start_ms - start, b.ok, b.failed, b.retry + b.abandoned, b.runner_us) for b in found]

    assert await buckets(MINUTE_MS) == [
        (0, 2, 1, 0, 600),
        (MINUTE_MS, 1, 0, 0, 4000),
        (HOUR_MS, 0, 0, 2, 57),
    ]
    assert await buckets(HOUR_MS) == [(0, 3, 1, 0, 4600), (HOUR_MS, 0, 0, 2, 57)]
    assert await buckets(DAY_MS) == [(0, 3, 1, 2, 4657)]
    assert await buckets(MINUTE_MS, until_ms=start + 1) == [(0, 2, 1, 0, 600)]
    (day,) = await store.get_buckets(TENANT, width_ms=DAY_MS, since_ms=start, until_ms=start + 1)
    assert (day.duration.count, day.wait.count) == (6, 6)
    assert day.duration.quantile(1.0) == pytest.approx(4000, rel=0.13)
    assert day.wait.quantile(0.5) == pytest.approx(50_000, rel=0.13)


async def test_buckets_are_filtered_by_tenant_and_type(store: Store) -> None:
    for number, jobtype in enumerate((JOBTYPE, "acme-b", "other-b")):
        await store.add_jobs([new_job(number, jobtype=jobtype)], now_ms=T0)
        job = await claim_one(store, jobtype=jobtype)
        await store.release_jobs(OWNER, [archive(job)], now_ms=T0)

    async def types(tenant: str | None, jobtype: str | None = None) -> list[str]:
        found = await store.get_buckets(tenant, width_ms=MINUTE_MS, since_ms=0, until_ms=T0 + 1, jobtype=jobtype)
        return [b.jobtype for b in found]

    assert await types(TENANT) == ["acme-b", JOBTYPE]
    assert await types(TENANT, JOBTYPE) == [JOBTYPE]
    assert await types(None) == ["acme-b", JOBTYPE, "other-b"]
    with pytest.raises(InvalidValue):
        await types("other", JOBTYPE)
    with pytest.raises(InvalidValue):
        await store.get_buckets(TENANT, width_ms=1234, since_ms=0, until_ms=1)


async def test_jobs_that_never_ran_count_without_a_duration(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    await store.cancel_job(TENANT, new_job(1).id, now_ms=T0)
    (bucket,) = await store.get_buckets(TENANT, width_ms=MINUTE_MS, since_ms=0, until_ms=T0 + 1)
    assert (bucket.cancelled, bucket.duration.count, bucket.wait.count) == (1, 0, 0)


async def test_failures_are_grouped_by_fingerprint(store: Store) -> None:
    await store.add_jobs(new_jobs(6), now_ms=T0)
    jobs = await claim(store)
    for n, (job, name) in enumerate(zip(jobs, "aabcab", strict=True)):
        release = (
            retry(job, T0 + 9, Code.ERROR, fingerprint=name, message=f"m{n}")
            if n % 2
            else archive(job, Code.FAILED, fingerprint=name, message=f"m{n}")
        )
        await store.release_jobs(OWNER, [release], now_ms=T0 + n)
    groups = await store.list_failure_groups(TENANT)
    assert [(g.fingerprint, g.runs, g.first_ms - T0, g.last_ms - T0, g.message) for g in groups] == [
        ("b", 2, 2, 5, "m5"),
        ("a", 3, 0, 4, "m4"),
        ("c", 1, 3, 3, "m3"),
    ]
    assert groups[0].example_id == jobs[5].id
    assert [g.fingerprint for g in await store.list_failure_groups(TENANT, since_ms=T0 + 4)] == ["b", "a"]
    assert [g.fingerprint for g in await store.list_failure_groups(TENANT, limit=1)] == ["b"]
    assert await store.list_failure_groups(TENANT, jobtypes=["acme-b"]) == []
    assert await store.list_failure_groups("other") == []


@pytest.mark.slow
async def test_a_flood_of_fingerprints_is_bounded(store: Store) -> None:
    await store.add_jobs(new_jobs(1200), now_ms=T0)
    jobs = await claim(store, 1200)
    await store.release_jobs(
        OWNER,
        [archive(job, Code.FAILED, fingerprint=f"f{n}", message="m") for n, job in enumerate(jobs)],
        now_ms=T0,
    )
    groups = await store.list_failure_groups(TENANT, limit=1000)
    assert len(groups) == 1000
    assert sum(group.runs for group in groups) == 1200
    assert {group.fingerprint: group.runs for group in groups}["other"] == 201


async def test_usage_counts_jobs_and_bytes(store: Store) -> None:
    await store.add_jobs(new_jobs(3, data=b"x" * 10), now_ms=T0)
    assert tuple(await store.get_usage(TENANT)) == (3, 30, 0)
    one, two, three = await claim(store)
    await store.release_jobs(
        OWNER,
        [archive(one, result=b"y" * 5, log=b"z" * 2), retry(two, T0, log=b"zz"), archive(three)],
        now_ms=T0,
    )
    assert tuple(await store.get_usage(TENANT)) == (3, 30 + 7 + 2, 0)
    await store.delete_jobs(TENANT, [one.id, three.id], now_ms=T0)
    assert tuple(await store.get_usage(TENANT)) == (1, 12, 0)
    assert tuple(await store.get_usage("nobody")) == (0, 0, 0)
    for data in (b"one", b"three"):
        await store.set_handler(TENANT, NewHandler(JOBTYPE, "sh", data, T0))
    assert tuple(await store.get_usage(TENANT)) == (1, 12 + 3 + 5, 1)
    await store.delete_handler(TENANT, JOBTYPE)
    assert tuple(await store.get_usage(TENANT)) == (1, 12 + 3 + 5, 0), "its versions are kept, and count"


async def test_old_buckets_go_in_steps(store: Store) -> None:
    for day in range(5):
        now_ms = T0 + day * DAY_MS
        await store.add_jobs([new_job(day)], now_ms=now_ms)
        job = await claim_one(store, now_ms=now_ms)
        await store.release_jobs(OWNER, [archive(job)], now_ms=now_ms)
    late = T0 + 4 * DAY_MS
    removed = [await store.expire_records(now_ms=late, audit_before_ms=0, limit=1) for _ in range(3)]
    assert removed == [1, 1, 0]
    minutes = await store.get_buckets(TENANT, width_ms=MINUTE_MS, since_ms=0, until_ms=late + 1)
    assert all(bucket.start_ms >= late - RESOLUTIONS[MINUTE_MS] for bucket in minutes)
    assert len(await store.get_buckets(TENANT, width_ms=DAY_MS, since_ms=0, until_ms=late + 1)) == 5
    first_day = {"since_ms": T0 - MINUTE_MS, "until_ms": T0 + 1000 * MINUTE_MS}
    assert await store.sum_by_start(TENANT, width_ms=MINUTE_MS, **first_day) == {}
    assert len(await store.sum_by_start(TENANT, width_ms=DAY_MS, since_ms=T0 - DAY_MS, until_ms=late + 1)) == 5


async def test_a_job_whose_time_lay_back_waits_since_it_came(store: Store) -> None:
    """However it ends, and after a run since that was over."""
    start, long_ago = T0 + 100, 86_400_000
    await store.add_jobs(new_jobs(4, dt_ms=long_ago), now_ms=T0)
    assert [each.oldest_due_ms for each in await store.get_waiting_jobtypes(now_ms=T0)] == [T0]
    first, second, third, fourth = await claim(store)
    big = b"x" * 5000
    ends = [archive(first, started_ms=start), archive(second, started_ms=start, result=big)]
    again = [retry(third, long_ago, started_ms=start), retry(fourth, T0 + 900, started_ms=start)]
    await store.release_jobs(OWNER, [*ends, *again], now_ms=T0 + 500)
    straight = new_job(10, dt_ms=long_ago)
    done = Archive(straight.id, 1, outcome(started_ms=start))
    await store.add_ended_jobs(OWNER, [straight], [done], now_ms=T0 + 500)
    assert [each.oldest_due_ms for each in await store.get_waiting_jobtypes(now_ms=T0 + 600)] == [T0 + 500]
    jobs = await claim(store, now_ms=T0 + 1000)
    await store.release_jobs(
        OWNER,
        [archive(job, started_ms=T0 + 600 if job.id == third.id else T0 + 1000) for job in jobs],
        now_ms=T0 + 1000,
    )
    (day,) = await store.get_buckets(TENANT, width_ms=DAY_MS, since_ms=T0 - DAY_MS, until_ms=T0 + DAY_MS)
    assert day.wait.count == 7
    assert [day.wait.quantile(q) for q in (0.0, 1.0)] == [pytest.approx(100_000, rel=0.13)] * 2
