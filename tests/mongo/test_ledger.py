"""The ledger's own promises: writers come and go, and each change is counted once, whoever counts it."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from pymongo.errors import BulkWriteError

from store.errors import StoreUnavailable
from store.mongo import MongoStore
from store.mongo.server.ledger import LAPSE_MS, MAX_WRITERS
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, new_job, new_jobs

pytestmark = pytest.mark.slow


async def waiting(store: MongoStore) -> int:
    return sum(row.waiting for row in await store.get_counters(TENANT, now_ms=T0))


async def test_an_object_that_was_idle_for_long_works_on(store: MongoStore, mongo_url: str) -> None:
    await store.add_jobs(new_jobs(3), now_ms=T0)
    async with MongoStore(mongo_url) as other:
        await other.expire_locks(now_ms=T0 + 2 * LAPSE_MS)
        await other.add_jobs(new_jobs(3, start=10), now_ms=T0)  # with the writer that was made free
        await store.add_jobs(new_jobs(3, start=20), now_ms=T0)
        assert await waiting(store) == await waiting(other) == 9


async def test_writers_are_used_again(store: MongoStore, mongo_url: str) -> None:
    for start in range(5):
        async with MongoStore(mongo_url) as other:
            await other.add_jobs(new_jobs(2, start=start * 10), now_ms=T0)
    assert await store.collections.writers.count_documents({}) == 1


async def test_many_changes_at_once_share_a_bounded_number_of_writers(store: MongoStore) -> None:
    await asyncio.gather(*(store.add_jobs([new_job(n)], now_ms=T0) for n in range(100)))
    assert await waiting(store) == 100
    assert await store.collections.writers.count_documents({}) <= MAX_WRITERS


async def test_a_call_that_failed_between_jobs_and_counters_is_counted_by_the_next(
    store: MongoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.add_jobs(new_jobs(5), now_ms=T0)
    jobs = await claim(store)

    async def broken(*_: object) -> None:
        raise StoreUnavailable("cut")

    with monkeypatch.context() as patch:
        patch.setattr(store.ledger, "_count", broken)
        with pytest.raises(StoreUnavailable):
            await store.release_jobs(OWNER, [archive(job) for job in jobs[:2]], now_ms=T0)
    (row,) = await store.get_counters(TENANT, now_ms=T0)
    assert (row.running, row.waiting, row.ok) == (3, 0, 2)
    report = await store.release_jobs(OWNER, [archive(job) for job in jobs], now_ms=T0)
    assert (report.applied, len(report.stale)) == (3, 2)
    (row,) = await store.get_counters(TENANT, now_ms=T0)
    assert (row.running, row.ok) == (0, 5)


async def test_counting_the_same_change_twice_changes_nothing(store: MongoStore, mongo_url: str) -> None:
    await store.add_jobs(new_jobs(5), now_ms=T0)
    before = await store.get_counters(TENANT, now_ms=T0)
    async with MongoStore(mongo_url) as other:
        for _ in range(3):  # each finds the writer lapsed, with a change that was counted already
            await store.collections.writers.update_many({}, {"$set": {"owner": "dead", "at": 0}})
            await other.expire_locks(now_ms=T0)
    assert await store.get_counters(TENANT, now_ms=T0) == before


async def test_a_count_that_no_majority_confirmed_in_time_is_made_again(
    store: MongoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for a connection that is closed."""
    real, tries = store.collections.counters.bulk_write, 0

    async def unconfirmed(requests: Sequence[Any], **options: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries <= 2:
            if tries == 2:  # the first is lost with the primary, the second is there, as far as anybody knows
                await real(requests, **options)
            problem = {"code": 91, "errmsg": "the primary steps down"}
            raise BulkWriteError({"writeErrors": [], "writeConcernErrors": [problem]})
        return await real(requests, **options)

    monkeypatch.setattr(store.collections.counters, "bulk_write", unconfirmed)
    await store.add_jobs(new_jobs(3), now_ms=T0)
    assert tries >= 3
    assert await waiting(store) == 3
    assert (await store.get_usage(TENANT)).jobs == 3
