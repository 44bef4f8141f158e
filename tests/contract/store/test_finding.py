"""Jobs by unique name, key and the error of their last run, in each state, page by page; beginnings of payloads."""

from typing import Any

import pytest

from store.base import Code, JobFilter, JobState, Rearm, Store
from store.errors import InvalidValue
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, claim_one, job_id, new_job, outcome, retry

LATER = T0 + 50_000
"""A retried job waits from here on."""
CLOCK = "clock"
"""A fingerprint, and others beside it."""


async def found(
    store: Store, state: JobState, *, limit: int = 2, now_ms: int = LATER, tenant: str = TENANT, **where: Any
) -> list[str]:
    """All of them, in pages."""
    ids: list[str] = []
    cursor: str | None = None
    while True:
        page = await store.list_jobs(
            tenant, JobFilter(state)._replace(**where), now_ms=now_ms, cursor=cursor, limit=limit
        )
        ids += [record.job.id for record in page.records]
        cursor = page.cursor
        if cursor is None:
            return ids
        assert len(page.records) == limit


async def end_all(store: Store, jobtype: str, code: Code = Code.OK, *, now_ms: int = T0, **changes: Any) -> None:
    for job in await claim(store, 100, jobtype=jobtype, now_ms=now_ms):
        await store.release_jobs(OWNER, [archive(job, code, **changes)], now_ms=now_ms)


async def test_a_unique_name_is_found_live_and_ended_in_each_type(store: Store) -> None:
    for n in range(5):  # one after the other, as a name has one live job
        await store.create_job(new_job(n, jobtype="acme-a", unique="order-17"), now_ms=T0 + n)
        await end_all(store, "acme-a", Code.FAILED if n == 3 else Code.OK, now_ms=T0 + n)
    await store.create_job(new_job(7, jobtype="acme-a", unique="order-17"), now_ms=T0)
    await store.create_job(new_job(8, jobtype="acme-b", unique="order-17", dt_ms=LATER + 1), now_ms=T0)
    await store.create_job(new_job(9, jobtype="acme-a", unique="order-18"), now_ms=T0)
    await store.create_job(new_job(10, jobtype="other-a", unique="order-17"), now_ms=T0)
    await store.add_jobs([new_job(11, jobtype="acme-a")], now_ms=T0)
    assert await found(store, JobState.ARCHIVED, unique="order-17") == [job_id(n) for n in (4, 3, 2, 1, 0)]
    assert await found(store, JobState.WAITING, unique="order-17") == [job_id(7)]
    assert await found(store, JobState.DEFERRED, unique="order-17") == [job_id(8)]
    assert await found(store, JobState.DEFERRED, unique="order-17", jobtype="acme-a") == []
    assert await found(store, JobState.ARCHIVED, unique="order-17", codes=frozenset({Code.FAILED})) == [job_id(3)]
    since: dict[str, Any] = {"since_ms": T0 + 1, "until_ms": T0 + 3}
    assert await found(store, JobState.ARCHIVED, unique="order-17", **since) == [job_id(2), job_id(1)]
    assert await found(store, JobState.WAITING, unique="order-17", tenant="other") == [job_id(10)]
    assert await found(store, JobState.ARCHIVED, unique="order") == []


async def test_a_running_one_and_a_lapsed_one_are_found(store: Store) -> None:
    for n, (unique, key) in enumerate([("a", ""), ("b", ""), ("", "k"), ("", "l")]):
        await store.create_job(new_job(n, unique=unique, key=key), now_ms=T0)
    jobs = [*await claim(store, 4), *await claim(store, 4)]
    assert len(jobs) == 4
    for state, now_ms in ((JobState.RUNNING, T0 + 1), (JobState.LAPSED, LATER)):
        assert await found(store, state, unique="b", now_ms=now_ms) == [job_id(1)]
        assert await found(store, state, key="k", now_ms=now_ms) == [job_id(2)]
        assert await found(store, state, key="k", jobtype="acme-b", now_ms=now_ms) == []
        assert await found(store, state, failure="x", now_ms=now_ms) == []


async def test_a_key_is_found_over_priorities_and_types(store: Store) -> None:
    jobs = [
        new_job(n, jobtype=f"acme-t{n % 2}", key="customer-7", priority=(0, 500, 1000)[n % 3], dt_ms=T0 + n)
        for n in range(8)
    ]
    jobs += [new_job(20, jobtype="acme-t0"), new_job(21, jobtype="acme-t0", key="customer-8")]
    await store.add_jobs(jobs, now_ms=T0)
    every = [job_id(n) for n in range(8)]
    assert await found(store, JobState.WAITING, key="customer-7") == every, "in order of due time"
    assert await found(store, JobState.WAITING, key="customer-7", jobtype="acme-t1") == every[1::2]
    for jobtype in ("acme-t0", "acme-t1"):
        await end_all(store, jobtype, now_ms=T0 + 10)
        await end_all(store, jobtype, now_ms=T0 + 11)
    assert sorted(await found(store, JobState.ARCHIVED, key="customer-7")) == every
    assert await found(store, JobState.ARCHIVED, key="customer-9") == []
    assert await found(store, JobState.ARCHIVED, key="customer-8") == [job_id(21)]


async def test_children_that_are_held_are_found_by_key(store: Store) -> None:
    await store.add_jobs([new_job(0)], now_ms=T0)
    parent = await claim_one(store)
    for n in (1, 2, 3):
        await store.create_job(new_job(n, parent=parent.id, key="k" if n < 3 else "", dt_ms=T0 - n), now_ms=T0)
    assert await found(store, JobState.PAUSED, key="k", limit=1) == [job_id(2), job_id(1)]


async def test_a_failure_has_the_jobs_whose_last_run_left_it(store: Store) -> None:
    await store.add_jobs([new_job(n, jobtype=f"acme-t{n % 2}") for n in range(10)], now_ms=T0)
    jobs = {job.id: job for t in (0, 1) for job in await claim(store, jobtype=f"acme-t{t}", now_ms=T0)}
    endings = [(Code.FAILED, CLOCK), (Code.FAILED, "disk"), (Code.ABANDONED, CLOCK), (Code.OK, "")]
    for n, (code, fingerprint) in enumerate(endings):
        end = archive(jobs[job_id(n)], code, fingerprint=fingerprint)
        await store.release_jobs(OWNER, [end], now_ms=T0 + n)
    for n in (4, 5, 6):  # tried again: one after the other way round
        again = retry(jobs[job_id(n)], LATER - n, fingerprint=CLOCK if n < 6 else "disk")
        await store.release_jobs(OWNER, [again], now_ms=T0)
    await store.release_jobs(OWNER, [retry(jobs[job_id(7)], LATER + 7, fingerprint=CLOCK)], now_ms=T0)
    round_ended = Rearm(job_id(8), jobs[job_id(8)].token, LATER + 6, outcome(Code.FAILED, fingerprint=CLOCK))
    await store.release_jobs(OWNER, [round_ended], now_ms=T0)
    assert await found(store, JobState.ARCHIVED, failure=CLOCK) == [job_id(2), job_id(0)]
    assert await found(store, JobState.ARCHIVED, failure=CLOCK, codes=frozenset({Code.FAILED})) == [job_id(0)]
    assert await found(store, JobState.ARCHIVED, failure="disk", jobtype="acme-t1") == [job_id(1)]
    assert await found(store, JobState.WAITING, failure=CLOCK, limit=1) == [job_id(5), job_id(4)]
    assert await found(store, JobState.DEFERRED, failure=CLOCK, limit=1) == [job_id(8), job_id(7)]
    assert await found(store, JobState.WAITING, failure="clo") == []


async def test_a_job_leaves_its_failure_when_it_ends_otherwise(store: Store) -> None:
    await store.add_jobs([new_job(1), new_job(2)], now_ms=T0)
    await end_all(store, "acme-thumb", Code.FAILED, fingerprint=CLOCK)
    assert set(await found(store, JobState.ARCHIVED, failure=CLOCK)) == {job_id(1), job_id(2)}
    await store.replay_jobs(TENANT, [job_id(1)], dt_ms=T0, now_ms=T0 + 1)
    assert await found(store, JobState.ARCHIVED, failure=CLOCK) == [job_id(2)]
    assert await found(store, JobState.WAITING, failure=CLOCK) == [job_id(1)], "its last outcome is still that"
    (job,) = await claim(store, 1, now_ms=T0 + 1)
    assert await found(store, JobState.RUNNING, failure=CLOCK, now_ms=T0 + 2) == [job_id(1)]
    await store.release_jobs(OWNER, [archive(job)], now_ms=T0 + 2)
    for state in JobState:
        assert await found(store, state, failure=CLOCK) == ([job_id(2)] if state is JobState.ARCHIVED else [])
    assert await store.delete_jobs(TENANT, [job_id(2)], now_ms=T0) == 1
    assert await found(store, JobState.ARCHIVED, failure=CLOCK) == []


async def test_a_page_goes_on_where_the_last_one_ended_although_jobs_come_and_go(store: Store) -> None:
    await store.add_jobs([new_job(n) for n in range(6)], now_ms=T0)
    for n, job in enumerate(await claim(store, 6)):
        await store.release_jobs(OWNER, [archive(job, Code.FAILED, fingerprint=CLOCK)], now_ms=T0 + n)
    where = JobFilter(JobState.ARCHIVED, failure=CLOCK)
    first = await store.list_jobs(TENANT, where, now_ms=LATER, limit=2)
    gone = [first.records[1].job.id, first.records[0].job.id]
    assert await store.replay_jobs(TENANT, gone, dt_ms=T0, now_ms=T0 + 10)
    await store.add_jobs([new_job(9)], now_ms=T0)
    rest = await store.list_jobs(TENANT, where, now_ms=LATER, cursor=first.cursor, limit=10)
    ids = [record.job.id for record in (*first.records, *rest.records)]
    assert (len(ids), set(ids), rest.cursor) == (6, {job_id(n) for n in range(6)}, None)


@pytest.mark.parametrize(
    "named", [{"unique": ""}, {"key": "\0"}, {"failure": "x" * 300}, {"unique": "a", "key": "b"}, {"key": "\ud800"}]
)
async def test_names_that_none_has_are_refused(store: Store, named: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue) as caught:
        await store.list_jobs(TENANT, JobFilter(JobState.ARCHIVED)._replace(**named), now_ms=T0)
    assert caught.value.field in named


PAYLOADS = [b"", b"short", bytes(range(256)) * 12, bytes(range(256)) * 40, bytes(range(256)) * 2000]
"""None, one in the row, one over the 2 KiB of a row, one whose beginning is kept apart, one beside the document."""


@pytest.mark.parametrize("max_bytes", [0, 3, 1024])
async def test_a_listing_has_the_beginnings_of_payloads(store: Store, max_bytes: int) -> None:
    await store.add_jobs([new_job(n, data=data, dt_ms=T0 + n) for n, data in enumerate(PAYLOADS)], now_ms=T0)
    for where in (JobFilter(JobState.WAITING), JobFilter(JobState.WAITING, "acme-thumb")):
        page = await store.list_jobs(TENANT, where, now_ms=LATER, max_bytes=max_bytes)
        assert [record.job.data for record in page.records] == [data[:max_bytes] for data in PAYLOADS]
        assert [record.data_bytes for record in page.records] == [len(data) for data in PAYLOADS]


@pytest.mark.parametrize("size", [10, 5000, 300_000])
async def test_the_beginning_is_that_of_the_newest_payload(store: Store, size: int) -> None:
    await store.add_jobs([new_job(1, data=b"a" * 5000), new_job(2, data=b"b" * 5000)], now_ms=T0)
    job = await claim_one(store)
    again = Rearm(job.id, job.token, T0, outcome(), b"c" * size)
    await store.release_jobs(OWNER, [again], now_ms=T0)
    await end_all(store, "acme-thumb")
    await store.replay_jobs(TENANT, [job_id(2)], dt_ms=T0, now_ms=T0, data=b"d" * size)
    for state, letter in ((JobState.ARCHIVED, b"c"), (JobState.WAITING, b"d")):
        page = await store.list_jobs(TENANT, JobFilter(state), now_ms=T0, max_bytes=20)
        assert [record.job.data for record in page.records] == [letter * min(size, 20)]


@pytest.mark.parametrize("max_bytes", [-1, 1025])
async def test_beginnings_have_bounds(store: Store, max_bytes: int) -> None:
    with pytest.raises(InvalidValue):
        await store.list_jobs(TENANT, JobFilter(JobState.ARCHIVED), now_ms=T0, max_bytes=max_bytes)


async def test_a_job_that_ends_without_another_run_stays_with_its_last_error(store: Store) -> None:
    await store.add_jobs([new_job(1), new_job(2)], now_ms=T0)
    for job in await claim(store, 2):
        await store.release_jobs(OWNER, [retry(job, LATER, fingerprint=CLOCK)], now_ms=T0)
    await store.cancel_job(TENANT, job_id(1), now_ms=T0 + 1)
    report = await store.expire_jobs(now_ms=LATER + 5, done_before_ms=0, waiting_before_ms=LATER + 1)
    assert report.abandoned == 1
    for n, code in ((1, Code.CANCELLED), (2, Code.ABANDONED)):
        assert await found(store, JobState.ARCHIVED, failure=CLOCK, codes=frozenset({code})) == [job_id(n)]
