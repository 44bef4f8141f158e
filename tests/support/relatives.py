"""Parents and children in a store."""

from store.base import Code, JobRecord, JobState, Rearm, Store
from tests.support.jobs import (
    OWNER,
    T0,
    TENANT,
    archive,
    claim_one,
    job_id,
    new_job,
    outcome,
)
from tests.support.store_audit import check_counters

CHILD = "acme-child"


async def parent_with_children(store: Store, count: int) -> str:
    """A running parent with held children 1..count."""
    await store.add_jobs([new_job(0)], now_ms=T0)
    parent = await claim_one(store)
    for number in range(1, count + 1):
        child = new_job(number, jobtype=CHILD, parent=parent.id)
        report = await store.create_job(child, now_ms=T0)
        assert (report.created, report.state) == (True, JobState.PAUSED)
    return parent.id


async def found(store: Store, number: int) -> JobRecord:
    record = await store.get_job(TENANT, job_id(number), now_ms=T0)
    assert record is not None
    return record


async def end(store: Store, jobtype: str, code: Code = Code.OK, now_ms: int = T0) -> str:
    job = await claim_one(store, jobtype=jobtype, now_ms=now_ms)
    await store.release_jobs(OWNER, [archive(job, code)], now_ms=now_ms)
    return job.id


async def parent_with_replayed_child(store: Store, next_ms: int) -> str:
    """A job whose child failed, which woke it, and was replayed. Then its round failed too, and its next is planned."""
    parent_id = await parent_with_children(store, 1)
    await store.release_jobs(OWNER, [archive((await found(store, 0)).job)], now_ms=T0)
    await end(store, CHILD, Code.FAILED)
    parent = await claim_one(store)
    await store.replay_jobs(TENANT, [job_id(1)], dt_ms=T0, now_ms=T0)
    await store.release_jobs(OWNER, [Rearm(parent_id, parent.token, next_ms, outcome(Code.FAILED))], now_ms=T0)
    assert ((await found(store, 0)).state, (await found(store, 0)).pending_children) == (JobState.PAUSED, 1)
    await check_counters(store, TENANT, T0)
    return parent_id
