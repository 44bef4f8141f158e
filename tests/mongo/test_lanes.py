"""Lanes of rate domains on MongoDB: a database of an older version, and what is left of idle domains."""

import pytest

from store.base import RateDomain
from store.mongo import MongoStore
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, ids, job_id, new_job

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
