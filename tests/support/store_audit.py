"""Checks that hold for any store at rest: counters say what the jobs say, no job is in two states, and none waits in
vain."""

from collections import Counter
from operator import add
from typing import Any

from store.base import EndedSum, JobFilter, JobRecord, JobState, Store
from store.values.scoreboard import DAY_MS
from tests.support.jobs import LEASE_MS, OWNER, archive, claim


async def read_all(store: Store, tenant: str, now_ms: int) -> dict[str, JobRecord]:
    """Every job of a tenant by its id. Fails if one is listed in two states."""
    found: dict[str, JobRecord] = {}
    for state in JobState:
        cursor: str | None = None
        while True:
            where = JobFilter(state)
            page = await store.list_jobs(tenant, where, now_ms=now_ms, cursor=cursor, limit=1000)
            for record in page.records:
                assert record.state == state
                assert record.job.id not in found, f"{record.job.id} is {state} and {found[record.job.id].state}"
                found[record.job.id] = record
            cursor = page.cursor
            if cursor is None:
                break
    return found


async def check_counters(store: Store, tenant: str, now_ms: int) -> dict[str, JobRecord]:
    """Counters, waiting types and usage are what a count of the jobs, which left no logs, gives. Answers the jobs."""
    jobs = await check_states(store, tenant, now_ms)
    usage = await store.get_usage(tenant)
    sizes = sum(record.data_bytes + record.result_bytes for record in jobs.values())
    assert (usage.jobs, usage.size_bytes) == (len(jobs), sizes)
    return jobs


async def check_states(store: Store, tenant: str, now_ms: int) -> dict[str, JobRecord]:
    """Counters and waiting types are what a count of the jobs gives, sums by time what the buckets give. Answers the
    jobs."""
    jobs = await read_all(store, tenant, now_ms)
    states = Counter((record.job.jobtype, record.state) for record in jobs.values())
    for row in await store.get_counters(tenant, now_ms=now_ms):
        running = states[row.jobtype, JobState.RUNNING] + states[row.jobtype, JobState.LAPSED]
        counted = (states[row.jobtype, JobState.WAITING], states[row.jobtype, JobState.DEFERRED], running)
        assert (row.waiting, row.deferred, row.running) == counted, row.jobtype
        assert row.blocked == states[row.jobtype, JobState.PAUSED], row.jobtype
    listed = {w.jobtype: w.waiting for w in await store.get_waiting_jobtypes(now_ms=now_ms)}
    for (jobtype, state), count in states.items():
        if state == JobState.WAITING:
            assert listed[jobtype] == count
    await _check_sums(store, tenant, now_ms)
    return jobs


async def _check_sums(store: Store, tenant: str, now_ms: int) -> None:
    window: dict[str, Any] = {"width_ms": DAY_MS, "since_ms": now_ms - 500 * DAY_MS, "until_ms": now_ms + 500 * DAY_MS}
    by_start: dict[int, list[int]] = {}
    for bucket in await store.get_buckets(tenant, **window):
        before = by_start.get(bucket.start_ms, [0] * len(EndedSum._fields))
        by_start[bucket.start_ms] = list(map(add, before, bucket[3:10]))
    assert {start: list(it) for start, it in (await store.sum_by_start(tenant, **window)).items()} == by_start


async def run_to_the_end(store: Store, tenant: str, now_ms: int) -> dict[str, JobState]:
    """Claim what can be claimed, and end it well, until all have ended. Returns those that wait in vain: parents for
    children that never end, or children for the end of their parent."""
    left: dict[str, JobState] = {}
    for turn in range(1, 11):
        later_ms = now_ms + turn * (LEASE_MS + 1)
        await store.expire_locks(now_ms=later_ms)
        for waiting in await store.get_waiting_jobtypes(now_ms=later_ms):
            jobs = await claim(store, jobtype=waiting.jobtype, now_ms=later_ms)
            await store.release_jobs(OWNER, [archive(job) for job in jobs], now_ms=later_ms)
        found = await check_counters(store, tenant, later_ms)
        left = {job_id: record.state for job_id, record in found.items() if record.state is not JobState.ARCHIVED}
        if not left:
            break
    return left
