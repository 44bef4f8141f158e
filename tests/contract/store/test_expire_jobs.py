"""Retention: archived jobs by their real end, waiting ones that nobody came for, in bounded steps."""

from typing import Any

from store.base import Code, JobFilter, JobState, Rearm, Store, Unclaim
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, ids, job_id, new_job, new_jobs, outcome


async def test_archived_jobs_are_purged_by_the_time_they_ended(store: Store) -> None:
    await store.add_jobs(new_jobs(10, data=b"x" * 5000), now_ms=T0)
    for n, job in enumerate(await claim(store)):
        code = Code.OK if n % 2 else Code.FAILED
        await store.release_jobs(OWNER, [archive(job, code, result=b"y" * 5000)], now_ms=T0 + n)
    report = await store.expire_jobs(now_ms=T0 + 99, done_before_ms=T0 + 7, waiting_before_ms=0, limit=4)
    assert (report.purged, report.abandoned, report.more) == (4, 0, True)
    report = await store.expire_jobs(now_ms=T0 + 99, done_before_ms=T0 + 7, waiting_before_ms=0, limit=4)
    assert (report.purged, report.more) == (3, False)
    page = await store.list_jobs(TENANT, JobFilter(JobState.ARCHIVED), now_ms=T0)
    assert {record.job.id for record in page.records} == {job_id(n) for n in (7, 8, 9)}
    assert tuple(await store.get_usage(TENANT)) == (3, 30_000, 0)
    (counters,) = await store.get_counters(TENANT, now_ms=T0)
    assert (counters.ok, counters.failed) == (5, 5)


async def test_failed_and_abandoned_jobs_have_a_time_of_their_own(store: Store) -> None:
    await store.add_jobs(new_jobs(4), now_ms=T0)
    codes = [Code.OK, Code.FAILED, Code.ABANDONED, Code.CANCELLED]
    jobs = await claim(store)
    ends = [archive(job, code) for job, code in zip(jobs, codes, strict=True)]
    await store.release_jobs(OWNER, ends, now_ms=T0)

    async def purged(done_before_ms: int, failed_before_ms: int) -> int:
        report = await store.expire_jobs(
            now_ms=T0 + 99, done_before_ms=done_before_ms, failed_before_ms=failed_before_ms, waiting_before_ms=0
        )
        return report.purged

    assert await purged(T0 + 1, T0) == 2
    page = await store.list_jobs(TENANT, JobFilter(JobState.ARCHIVED), now_ms=T0)
    assert {record.outcome.code for record in page.records if record.outcome} == {Code.FAILED, Code.ABANDONED}
    assert await purged(0, T0 + 1) == 2


async def test_jobs_that_wait_too_long_are_abandoned(store: Store) -> None:
    jobs = [new_job(n, dt_ms=T0 - 10 + n, create_ms=T0 - 20, jobtype=f"acme-t{n % 2}") for n in range(10)]
    await store.add_jobs([*jobs, new_job(50, dt_ms=T0 + 500)], now_ms=T0)
    await store.set_type_paused(TENANT, "acme-t0", paused=True)
    reports = [
        await store.expire_jobs(now_ms=T0, done_before_ms=0, waiting_before_ms=T0 - 4, limit=4) for _ in range(3)
    ]
    assert [(r.purged, r.abandoned, r.more) for r in reports] == [(0, 4, True), (0, 2, False), (0, 0, False)]
    page = await store.list_jobs(TENANT, JobFilter(JobState.ARCHIVED), now_ms=T0)
    assert {record.job.id for record in page.records} == {job_id(n) for n in range(6)}
    outcomes = [record.outcome for record in page.records]
    assert {(o.code, o.exitcode) for o in outcomes if o is not None} == {(Code.ABANDONED, 504)}
    counters = await store.get_counters(TENANT, now_ms=T0)
    assert [(c.waiting, c.deferred, c.abandoned) for c in counters] == [(2, 0, 3), (2, 0, 3), (0, 1, 0)]


async def test_a_job_waits_since_it_is_in_the_queue_however_far_back_its_time_lies(store: Store) -> None:
    await store.add_jobs([new_job(n, dt_ms=T0 - 1000 + n) for n in range(8)] + [new_job(9)], now_ms=T0)
    await store.add_jobs([new_job(8, dt_ms=T0 - 10, create_ms=T0 - 10)], now_ms=T0)
    ended, lapsed, given_back = await claim(store, 3, now_ms=T0 + 50)
    await store.release_jobs(OWNER, [Rearm(ended.id, ended.token, T0 - 500, outcome())], now_ms=T0 + 70)
    await store.release_jobs(OWNER, [Unclaim(given_back.id, given_back.token)], now_ms=T0 + 60)
    await store.expire_locks(now_ms=T0 + 80, owner=OWNER)

    async def abandoned(before_ms: int) -> set[str]:
        for _ in range(3):
            await store.expire_jobs(now_ms=T0 + 99, done_before_ms=0, waiting_before_ms=before_ms, limit=4)
        page = await store.list_jobs(TENANT, JobFilter(JobState.ARCHIVED), now_ms=T0 + 99)
        return {record.job.id for record in page.records}

    assert await abandoned(T0) == {job_id(8)}, "one that is older, behind others that are due before it"
    assert await abandoned(T0 + 1) == {job_id(n) for n in range(3, 10)}
    assert await abandoned(T0 + 51) == {job_id(n) for n in range(1, 10)}
    assert await abandoned(T0 + 71) == {job_id(n) for n in range(10)}
    assert {lapsed.id, given_back.id} == {job_id(1), job_id(2)}


async def test_retention_of_one_tenant_leaves_the_others(store: Store) -> None:
    await store.add_jobs([new_job(1), new_job(2, jobtype="other-a")], now_ms=T0)
    report = await store.expire_jobs(now_ms=T0 + 9, done_before_ms=T0 + 9, waiting_before_ms=T0 + 9, tenant="other")
    assert report.abandoned == 1
    report = await store.expire_jobs(now_ms=T0 + 9, done_before_ms=T0 + 10, waiting_before_ms=0, tenant=TENANT)
    assert report.purged == 0
    assert (await store.get_usage("other")).jobs == 1


async def test_what_waits_of_one_type_is_ended_in_steps_and_others_wait_on(store: Store) -> None:
    mine = [*new_jobs(5, jobtype="acme-a"), *new_jobs(2, start=5, jobtype="acme-a", domain="d", priority=1000)]
    mine += [new_job(7, jobtype="acme-a", key="ada"), new_job(8, jobtype="acme-a", dt_ms=T0 + 5)]
    await store.add_jobs([*mine, new_job(20, jobtype="acme-b"), new_job(21, jobtype="other-a")], now_ms=T0)
    how: dict[str, Any] = {"done_before_ms": 0, "waiting_before_ms": T0 + 1, "jobtype": "acme-a", "limit": 3}
    reports = [await store.expire_jobs(now_ms=T0 + 9, **how) for _ in range(4)]
    assert [tuple(report) for report in reports] == [(0, 3, True), (0, 3, True), (0, 2, False), (0, 0, False)]
    waiting = await store.get_waiting_jobtypes(now_ms=T0 + 9)
    assert {each.jobtype: each.waiting for each in waiting} == {"acme-a": 1, "acme-b": 1, "other-a": 1}
    assert ids(await claim(store, now_ms=T0 + 9, jobtype="acme-a")) == [job_id(8)]
    assert (await store.expire_jobs(now_ms=T0 + 9, **how | {"jobtype": "acme-none"})) == (0, 0, False)


async def test_running_jobs_are_never_expired(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    (job,) = await claim(store)
    far = T0 + 10**9
    report = await store.expire_jobs(now_ms=far, done_before_ms=far, waiting_before_ms=far)
    assert (report.purged, report.abandoned) == (0, 0)
    assert (await store.release_jobs(OWNER, [archive(job)], now_ms=far)).applied == 1


async def test_an_abandoned_child_wakes_its_parent(store: Store) -> None:
    await store.add_jobs([new_job(0)], now_ms=T0)
    (parent,) = await claim(store)
    await store.create_job(new_job(1, jobtype="acme-child", parent=parent.id), now_ms=T0)
    await store.release_jobs(OWNER, [archive(parent)], now_ms=T0)
    await store.expire_jobs(now_ms=T0 + 9, done_before_ms=0, waiting_before_ms=T0 + 1)
    states = await store.get_states(TENANT, [parent.id], now_ms=T0 + 9)
    assert states == {parent.id: JobState.WAITING}
