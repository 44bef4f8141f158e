"""Endings of which nothing is kept: counted like any other, and gone."""

from store.base import Archive, Code, Discard, Job, JobState, NewJob, Release, Store
from tests.support.jobs import (
    JOBTYPE,
    OWNER,
    T0,
    TENANT,
    archive,
    claim,
    claim_one,
    job_id,
    new_job,
    new_jobs,
    outcome,
)


def discard(job: Job | NewJob, code: Code = Code.OK, token: int = 1, **changes: object) -> Discard:
    return Discard(job.id, token, outcome(code, **changes))


async def states(store: Store, *numbers: int) -> list[JobState | None]:
    found = await store.get_states(TENANT, [job_id(n) for n in numbers], now_ms=T0)
    return [found.get(job_id(n)) for n in numbers]


async def test_nothing_of_them_is_kept_but_the_counts(store: Store) -> None:
    await store.add_jobs([*new_jobs(3), new_job(3, data=b"x" * 300_000)], now_ms=T0)
    ok, failed, kept, large = await claim(store)
    report = await store.release_jobs(
        OWNER,
        [
            discard(ok),
            discard(failed, Code.FAILED, fingerprint="f", message="m"),
            archive(kept),
            discard(large, result=b"y" * 300_000, log=b"line"),
        ],
        now_ms=T0,
    )
    assert (report.applied, report.stale) == (4, ())
    assert await states(store, 0, 1, 2, 3) == [None, None, JobState.ARCHIVED, None]
    (row,) = await store.get_counters(TENANT, now_ms=T0)
    assert (row.ok, row.failed, row.running, row.waiting) == (3, 1, 0, 0)
    usage = await store.get_usage(TENANT)
    assert (usage.jobs, usage.size_bytes) == (1, len(b"payload 2"))
    (group,) = await store.list_failure_groups(TENANT)
    assert group.runs == 1


async def test_a_delivery_that_is_not_the_owners_removes_nothing(store: Store) -> None:
    await store.add_jobs([new_job(0)], now_ms=T0)
    job = await claim_one(store)
    assert (await store.release_jobs("b2", [discard(job)], now_ms=T0)).stale == (job.id,)
    assert (await store.release_jobs(OWNER, [discard(job, token=7)], now_ms=T0)).stale == (job.id,)
    assert await states(store, 0) == [JobState.RUNNING]
    assert (await store.release_jobs(OWNER, [discard(job)], now_ms=T0)).stale == ()
    assert (await store.release_jobs(OWNER, [discard(job)], now_ms=T0)).stale == (job.id,)
    (row,) = await store.get_counters(TENANT, now_ms=T0)
    assert row.ok == 1, "written again, it is not counted again"


async def test_relatives_and_numbered_jobs_are_kept(store: Store) -> None:
    await store.add_jobs([new_job(0), new_job(1, indexed=True)], now_ms=T0)
    parent, numbered = await claim(store)
    await store.create_job(new_job(2, jobtype="acme-child", parent=parent.id), now_ms=T0)
    await store.release_jobs(OWNER, [discard(parent), discard(numbered)], now_ms=T0)
    assert await states(store, 0, 1, 2) == [JobState.PAUSED, JobState.ARCHIVED, JobState.WAITING]
    child = await claim_one(store, jobtype="acme-child")
    await store.release_jobs(OWNER, [discard(child)], now_ms=T0)
    again = await claim_one(store)
    await store.release_jobs(OWNER, [discard(again, token=2)], now_ms=T0)
    assert await states(store, 0, 2) == [JobState.ARCHIVED, JobState.ARCHIVED]


async def test_relatives_are_kept_without_their_results_and_logs(store: Store) -> None:
    await store.add_jobs(new_jobs(2), now_ms=T0)
    well, badly = await claim(store)
    await store.create_job(new_job(2, jobtype="acme-child", parent=well.id, data=b"child"), now_ms=T0)
    await store.create_job(new_job(3, jobtype="acme-child", parent=badly.id, data=b"child"), now_ms=T0)
    before = await store.get_usage(TENANT)
    releases: list[Release] = [
        discard(well, result=b"y" * 300_000, log=b"line"),
        discard(badly, Code.FAILED, result=b"no", log=b"line", message="m"),
    ]
    await store.release_jobs(OWNER, releases, now_ms=T0)
    assert await states(store, 0, 1) == [JobState.PAUSED, JobState.ARCHIVED]
    for job, message in ((well, ""), (badly, "m")):
        record = await store.get_job(TENANT, job.id, now_ms=T0)
        assert record
        assert record.outcome
        assert (record.outcome.result, record.outcome.log, record.outcome.message) == (None, b"", message)
    assert await store.get_usage(TENANT) == before


async def test_a_unique_name_is_free_again(store: Store) -> None:
    await store.create_job(new_job(0, unique="u"), now_ms=T0)
    await store.release_jobs(OWNER, [discard(await claim_one(store))], now_ms=T0)
    assert (await store.create_job(new_job(1, unique="u"), now_ms=T0)).created


async def test_jobs_that_the_store_never_had_leave_only_their_counts(store: Store) -> None:
    jobs = new_jobs(3)
    releases: list[Release] = [
        discard(jobs[0]),
        Archive(jobs[1].id, 1, outcome()),
        discard(jobs[2], Code.FAILED),
    ]
    report = await store.add_ended_jobs(OWNER, jobs, releases, now_ms=T0)
    assert (report.applied, report.stale) == (3, ())
    assert await states(store, 0, 1, 2) == [None, JobState.ARCHIVED, None]
    (row,) = await store.get_counters(TENANT, now_ms=T0)
    assert (row.jobtype, row.ok, row.failed, row.running) == (JOBTYPE, 2, 1, 0)
    assert (await store.get_usage(TENANT)).jobs == 1
