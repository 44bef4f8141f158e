"""Indexed queues: seqs without gaps. What is made of them is in test_consumers.py."""

from store.base import IndexState, Store
from tests.support.jobs import JOBTYPE, T0, TENANT, job_id, new_job, new_jobs


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
