"""Indexed queues: seqs without gaps, a window ahead of what is processed, blocking on a failure."""

from store.base import Code, IndexState, Store
from tests.support.jobs import JOBTYPE, OWNER, T0, TENANT, archive, claim, job_id, new_job, new_jobs, retry


async def test_jobs_get_seqs_in_order_and_duplicates_get_none(store: Store) -> None:
    await store.add_jobs(new_jobs(3, indexed=True), now_ms=T0)
    await store.add_jobs([*new_jobs(5, indexed=True), new_job(9)], now_ms=T0)
    await store.create_job(new_job(5, indexed=True, unique="u"), now_ms=T0)
    assert await store.get_index_state(TENANT, JOBTYPE) == IndexState(6, 0, None)
    for seq in range(1, 7):
        record = await store.get_job_at(TENANT, JOBTYPE, seq, now_ms=T0)
        assert record is not None
        assert (record.job.id, record.job.seq) == (job_id(seq - 1), seq)
    assert await store.get_job_at(TENANT, JOBTYPE, 7, now_ms=T0) is None
    assert await store.get_index_state(TENANT, "acme-other") == IndexState(0, 0, None)


async def test_a_claim_looks_no_further_than_it_may(store: Store) -> None:
    await store.add_jobs([new_job(0), *new_jobs(10, start=1, indexed=True)], now_ms=T0)
    first = await claim(store, ahead=4)
    assert [job.seq for job in first] == [1, 2, 3, 4]
    assert await claim(store, ahead=4) == []
    later = T0 + 100
    await store.release_jobs(
        OWNER, [archive(first[0]), retry(first[1], later), archive(first[2]), archive(first[3])], now_ms=T0
    )
    assert await store.advance_index(TENANT, JOBTYPE, skip_failed=False) == IndexState(10, 1, None)
    assert [job.seq for job in await claim(store, ahead=4)] == [5]
    (again,) = await claim(store, ahead=4, now_ms=later)
    assert again.seq == 2
    await store.release_jobs(OWNER, [archive(again)], now_ms=later)
    assert await store.advance_index(TENANT, JOBTYPE, skip_failed=False) == IndexState(10, 4, None)


async def test_a_failed_index_blocks_unless_skipped(store: Store) -> None:
    await store.add_jobs(new_jobs(5, indexed=True), now_ms=T0)
    jobs = await claim(store)
    codes = [Code.OK, Code.FAILED, Code.OK, Code.ABANDONED, Code.OK]
    await store.release_jobs(OWNER, [archive(job, code) for job, code in zip(jobs, codes, strict=True)], now_ms=T0)
    blocked = IndexState(5, 1, 2)
    assert await store.advance_index(TENANT, JOBTYPE, skip_failed=False) == blocked
    assert await store.get_index_state(TENANT, JOBTYPE) == blocked
    assert await store.advance_index(TENANT, JOBTYPE, skip_failed=True, limit=2) == IndexState(5, 3, None)
    assert (await store.advance_index(TENANT, JOBTYPE, skip_failed=True)).processed == 5


async def test_a_purged_job_does_not_block(store: Store) -> None:
    await store.add_jobs(new_jobs(3, indexed=True), now_ms=T0)
    jobs = await claim(store)
    await store.release_jobs(OWNER, [archive(job, Code.FAILED) for job in jobs], now_ms=T0)
    await store.delete_jobs(TENANT, [job.id for job in jobs[:2]])
    assert await store.advance_index(TENANT, JOBTYPE, skip_failed=False) == IndexState(3, 2, 3)
