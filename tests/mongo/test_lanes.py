"""Lanes of rate domains on MongoDB: a database of an older version, and what is left of idle domains."""

import pytest

from store.base import Job, NewJob, RateDomain, Store
from store.mongo import MongoStore
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, ids, job_id, new_job
from tests.support.turns import interleave, open_pair

pytestmark = pytest.mark.slow


async def test_jobs_and_limits_of_an_older_database_go_on(store: MongoStore, mongo_url: str) -> None:
    await store.set_rate_domain(RateDomain(TENANT, "d*", 0.001, 1), now_ms=T0)
    await store.add_jobs([new_job(1, domain="dx"), new_job(2, domain="dx"), new_job(3)], now_ms=T0)
    await store.collections.lanes.delete_many({})
    await store.collections.rates.update_many({}, {"$unset": {"pattern": ""}})
    await store.collections.meta.delete_one({"_id": "lanes"})
    async with MongoStore(mongo_url) as newer:
        assert ids(await claim(newer)) == [job_id(1), job_id(3)]
        await newer.delete_rate_domain(TENANT, "d*", now_ms=T0)
        assert ids(await claim(newer)) == [job_id(2)]


async def test_idle_domains_leave_nothing(store: MongoStore) -> None:
    await store.set_rate_domain(RateDomain(TENANT, "d*", 1.0, 1), now_ms=T0)
    await store.add_jobs([new_job(n, domain=f"d{n}") for n in range(20)], now_ms=T0)
    jobs = await claim(store, 100)
    assert len(jobs) == 20
    await store.release_jobs(OWNER, [archive(job) for job in jobs], now_ms=T0)
    await store.expire_locks(now_ms=T0 + 1000)
    assert await claim(store, now_ms=T0 + 1000) == []
    assert await store.collections.rate_buckets.count_documents({}) == 0
    assert await store.collections.lanes.count_documents({}) == 0


async def test_a_job_that_comes_while_a_claim_looks_at_its_lane_is_found(mongo_url: str) -> None:
    """A claim that finds a lane empty, stopped before each of its steps while another job enters that lane."""
    async with open_pair(mongo_url) as pair:
        stop_at, was_stopped = 1, True
        while was_stopped:
            stop_at += 1
            first, second = new_job(2 * stop_at, domain="d"), new_job(2 * stop_at + 1, domain="d")
            await pair.other.add_jobs([first], now_ms=T0)

            async def add(store: Store, job: NewJob = second) -> list[Job]:
                await store.add_jobs([job], now_ms=T0)
                return []

            found, _, was_stopped = await interleave(pair, claim, add, stop_at)
            rest = await claim(pair.other)
            assert sorted(ids(found) + ids(rest)) == [first.id, second.id], f"before step {stop_at}"
