"""Listings: filters, order, cursors that stay true while jobs come and go."""

from typing import Any

import pytest

from store.base import Code, JobFilter, JobRecord, JobState, Store
from store.errors import InvalidValue
from tests.support.jobs import LEASE_MS, OWNER, T0, TENANT, archive, claim, job_id, new_job, new_jobs


async def everything(store: Store, where: JobFilter, *, limit: int, now_ms: int = T0) -> list[JobRecord]:
    records: list[JobRecord] = []
    cursor: str | None = None
    while True:
        page = await store.list_jobs(TENANT, where, now_ms=now_ms, cursor=cursor, limit=limit)
        assert len(page.records) <= limit
        records += page.records
        cursor = page.cursor
        if cursor is None:
            return records


async def archive_many(store: Store, count: int) -> None:
    """Jobs 0..count-1 of three types, ended one millisecond after the other in two's, every fourth failed."""
    await store.add_jobs([new_job(n, jobtype=f"acme-t{n % 3}") for n in range(count)], now_ms=T0)
    claimed = {job.id: job for t in range(3) for job in await claim(store, count, jobtype=f"acme-t{t}")}
    for n in range(count):
        code = Code.FAILED if n % 4 == 0 else Code.OK
        job = claimed[job_id(n)]
        await store.release_jobs(OWNER, [archive(job, code, result=b"r", log=b"l")], now_ms=T0 + n // 2)


async def test_archived_jobs_come_newest_first_without_their_blobs(store: Store) -> None:
    await archive_many(store, 30)
    records = await everything(store, JobFilter(JobState.ARCHIVED), limit=7)
    assert sorted(r.job.id for r in records) == [job_id(n) for n in range(30)]
    assert [r.done_ms for r in records] == sorted((r.done_ms for r in records), reverse=True)
    for record in records:
        assert record.outcome is not None
        assert (record.job.data, record.outcome.result, record.outcome.log) == (b"", None, b"")
        assert record.data_bytes > 0
        assert record.result_bytes == 1


BIG = bytes(range(256)) * 2048
"""Beside the row or document on both back ends."""


@pytest.mark.parametrize("size", [0, 100, len(BIG)])
async def test_a_result_is_read_in_parts(store: Store, size: int) -> None:
    await store.add_jobs([new_job(1, data=BIG[:size] or b"x")], now_ms=T0)
    (job,) = await claim(store, 1)
    await store.release_jobs(OWNER, [archive(job, result=BIG[:size])], now_ms=T0 + 5)

    async def part(start: int, length: int, **other: Any) -> bytes | None:
        which: dict[str, Any] = {"tenant": TENANT, "job_id": job.id, "done_ms": T0 + 5} | other
        return await store.read_result(**which, start=start, length=length)

    assert await part(0, size + 10) == BIG[:size]
    assert await part(30, 50) == BIG[:size][30:80]
    assert await part(size - 7 if size else 0, 50) == BIG[:size][-7:]
    assert await part(size + 1, 50) == b""
    assert await part(0, 50, tenant="other") is None
    assert await part(0, 50, job_id=job_id(2)) is None
    assert await part(0, 50, done_ms=T0 + 6) is None, "what it left another time"


async def test_only_the_start_of_what_is_long_is_read(store: Store) -> None:
    await store.add_jobs([new_job(1, data=BIG)], now_ms=T0)
    (job,) = await claim(store, 1)
    await store.release_jobs(OWNER, [archive(job, result=BIG, log=b"log")], now_ms=T0)
    for max_bytes in (0, 10, 5000, len(BIG) + 1, None):
        record = await store.get_job(TENANT, job.id, now_ms=T0, max_bytes=max_bytes)
        assert record is not None
        assert record.outcome is not None
        assert record.job.data == record.outcome.result == BIG[:max_bytes]
        assert (record.data_bytes, record.result_bytes, record.outcome.log) == (len(BIG), len(BIG), b"log")


async def test_filters_by_type_code_and_time(store: Store) -> None:
    await archive_many(store, 30)

    async def found(**where: Any) -> set[str]:
        filters = JobFilter(JobState.ARCHIVED)._replace(**where)
        return {record.job.id for record in await everything(store, filters, limit=4)}

    assert await found(codes=frozenset({Code.FAILED})) == {job_id(n) for n in range(0, 30, 4)}
    assert await found(jobtype="acme-t1") == {job_id(n) for n in range(1, 30, 3)}
    assert await found(since_ms=T0 + 3, until_ms=T0 + 5) == {job_id(n) for n in range(6, 10)}
    both = await found(jobtype="acme-t0", codes=frozenset({Code.FAILED, Code.ABANDONED}))
    assert both == {job_id(n) for n in range(0, 30, 12)}
    assert await found(codes=frozenset()) == set()
    assert await found(jobtype="acme-nothing") == set()


async def test_pages_shorter_than_there_are_types(store: Store) -> None:
    """Twelve types, whose jobs lie among each other in one order and in bunches: more than a page looks into."""
    dues = {n: T0 - 500 + (n * 37) % 100 + 100 * (n % 3) for n in range(60)}
    jobs = [new_job(n, jobtype=f"acme-t{n * n % 12}", dt_ms=dues[n]) for n in range(60)]
    await store.add_jobs(jobs, now_ms=T0)
    for limit in (1, 2, 5):
        waiting = await everything(store, JobFilter(JobState.WAITING), limit=limit)
        assert [record.job.due_ms for record in waiting] == sorted(dues.values())
        assert {record.job.id for record in waiting} == {job.id for job in jobs}
    claimed = [job for t in range(12) for job in await claim(store, 60, jobtype=f"acme-t{t}")]
    for job in claimed:
        code = Code.FAILED if job.due_ms % 2 else Code.OK
        await store.release_jobs(OWNER, [archive(job, code)], now_ms=job.due_ms + 1000)
    for limit in (1, 2, 5):
        ended = await everything(store, JobFilter(JobState.ARCHIVED), limit=limit)
        assert [record.done_ms - 1000 for record in ended] == sorted(dues.values(), reverse=True)
        assert {record.job.id for record in ended} == {job.id for job in jobs}


async def test_a_cursor_stays_true_when_jobs_come_and_go(store: Store) -> None:
    await archive_many(store, 12)
    where = JobFilter(JobState.ARCHIVED)
    first = await store.list_jobs(TENANT, where, now_ms=T0, limit=5)
    await store.add_jobs([new_job(99, jobtype="acme-t0")], now_ms=T0)
    (late,) = await claim(store, jobtype="acme-t0")
    await store.release_jobs(OWNER, [archive(late)], now_ms=T0 + 1000)
    await store.delete_jobs(TENANT, [first.records[0].job.id, job_id(0)], now_ms=T0)
    rest = await store.list_jobs(TENANT, where, now_ms=T0, cursor=first.cursor, limit=100)
    seen = [record.job.id for record in (*first.records, *rest.records)]
    assert sorted(seen) == [job_id(n) for n in range(1, 12)]


async def test_live_jobs_by_state(store: Store) -> None:
    jobs = [*new_jobs(6), *(new_job(n, dt_ms=T0 + 200 - n, priority=1000) for n in range(6, 12))]
    await store.add_jobs(jobs, now_ms=T0)
    await store.add_jobs([new_job(50, jobtype="other-x")], now_ms=T0)
    await claim(store, 2)
    await store.claim_jobs("acme-thumb", 1, owner="b2", lease_ms=5, now_ms=T0)

    async def listed(state: JobState, now_ms: int = T0) -> list[str]:
        return [r.job.id for r in await everything(store, JobFilter(state), limit=2, now_ms=now_ms)]

    assert await listed(JobState.WAITING) == [job_id(n) for n in (3, 4, 5)]
    assert await listed(JobState.DEFERRED) == [job_id(n) for n in range(11, 5, -1)]
    assert await listed(JobState.WAITING, T0 + 190) == [job_id(n) for n in (3, 4, 5, 11, 10)]
    assert await listed(JobState.RUNNING) == [job_id(n) for n in (2, 0, 1)]
    assert await listed(JobState.LAPSED, T0 + 5) == [job_id(2)]
    assert await listed(JobState.RUNNING, T0 + LEASE_MS) == []
    assert await listed(JobState.PAUSED) == []
    only = JobFilter(JobState.RUNNING, jobtype="acme-other")
    assert await everything(store, only, limit=10) == []


async def test_paused_jobs_are_listed(store: Store) -> None:
    await store.add_jobs([new_job(0)], now_ms=T0)
    (parent,) = await claim(store)
    for n in (1, 2):
        await store.create_job(new_job(n, parent=parent.id, dt_ms=T0 - n), now_ms=T0)
    records = await everything(store, JobFilter(JobState.PAUSED), limit=1)
    assert [record.job.id for record in records] == [job_id(2), job_id(1)]
    assert {record.state for record in records} == {JobState.PAUSED}


async def test_cursors_and_limits_are_checked(store: Store) -> None:
    where = JobFilter(JobState.ARCHIVED)
    for cursor in ("", "x", "waiting.1.2", "archived.x.1", "archived.1.", "archived.1.'; DROP TABLE jobs"):
        with pytest.raises(InvalidValue):
            await store.list_jobs(TENANT, where, now_ms=T0, cursor=cursor)
    for limit in (0, 1001):
        with pytest.raises(InvalidValue):
            await store.list_jobs(TENANT, where, now_ms=T0, limit=limit)
    with pytest.raises(InvalidValue):
        await store.list_jobs(TENANT, JobFilter(JobState.ARCHIVED, jobtype="other-a"), now_ms=T0)


async def test_a_listing_of_several_types_has_a_cursor_of_all_of_them(store: Store) -> None:
    types = ("acme-a", "acme-b", "acme-c")
    for number, jobtype in enumerate(types * 4):
        await store.add_jobs([new_job(number, jobtype=jobtype, dt_ms=T0 + number)], now_ms=T0 + 100)
    where = JobFilter(JobState.WAITING, jobtypes=("acme-a", "acme-c"))
    expected = [job_id(number) for number in range(12) if number % 3 != 1]
    found: list[str] = []
    cursor = None
    while True:
        page = await store.list_jobs(TENANT, where, now_ms=T0 + 100, cursor=cursor, limit=3)
        found += [record.job.id for record in page.records]
        cursor = page.cursor
        if cursor is None:
            break
    assert found == expected
    for jobtype in types:
        await claim(store, 2, jobtype=jobtype, now_ms=T0 + 100)
    running = await store.list_jobs(TENANT, where._replace(state=JobState.RUNNING), now_ms=T0 + 101)
    assert {record.job.jobtype for record in running.records} == {"acme-a", "acme-c"}
    assert len(running.records) == 4
    none = await store.list_jobs(TENANT, JobFilter(JobState.WAITING, jobtypes=()), now_ms=T0 + 100)
    assert none.records == ()
    with pytest.raises(InvalidValue, match="does not belong"):
        await store.list_jobs(TENANT, JobFilter(JobState.WAITING, jobtypes=("zeta-a",)), now_ms=T0)
    with pytest.raises(InvalidValue, match="not both"):
        await store.list_jobs(TENANT, JobFilter(JobState.WAITING, "acme-a", jobtypes=("acme-a",)), now_ms=T0)


async def test_how_jobs_ended_is_told_of_those_that_have(store: Store) -> None:
    endings = [Code.OK, Code.FAILED, Code.ABANDONED, Code.CANCELLED]
    await store.add_jobs(new_jobs(6), now_ms=T0)
    jobs = await claim(store, 5)
    releases = [archive(job, code) for job, code in zip(jobs, endings, strict=False)]
    await store.release_jobs(OWNER, releases, now_ms=T0)
    asked = [job_id(n) for n in range(8)]
    expected = {job.id: code for job, code in zip(jobs, endings, strict=False)}
    assert await store.get_codes(TENANT, asked) == expected, "not of the running one, the waiting one and those unknown"
    assert await store.get_codes("other", asked) == {}
    await store.replay_jobs(TENANT, [jobs[1].id], dt_ms=T0, now_ms=T0)
    assert (await store.get_codes(TENANT, asked)).keys() == expected.keys() - {jobs[1].id}, "it is not over any more"
