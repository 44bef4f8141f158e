"""Unique names on MongoDB do not stay for ever, and no name that somebody has goes."""

import pytest

from store.base import CreateReport, NewJob, Store
from store.mongo import MongoStore
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, claim_one, job_id, new_job
from tests.support.turns import interleave, open_pair

pytestmark = pytest.mark.slow


async def names(store: MongoStore) -> list[str]:
    rows = await store.collections.names.find({}, {"_id": 1}).sort("_id", 1).to_list(None)
    return [row["_id"].rpartition("|")[2] for row in rows]


async def expire_all(store: Store) -> None:
    for _ in range(4):
        await store.expire_records(now_ms=T0 + 1, audit_before_ms=0, limit=2)


async def test_names_go_with_the_last_trace_of_their_jobs(store: MongoStore) -> None:
    for number in range(5):
        await store.create_job(new_job(number, unique=f"u{number}"), now_ms=T0)
    jobs = await claim(store, 4)
    await store.release_jobs(OWNER, [archive(job) for job in jobs], now_ms=T0)
    await expire_all(store)
    assert await names(store) == [f"u{number}" for number in range(5)], "they may be replayed"
    assert (await store.expire_jobs(now_ms=T0 + 1, done_before_ms=T0 + 1, waiting_before_ms=0)).purged == 4
    assert await names(store) == ["u4"]
    assert (await store.create_job(new_job(10, unique="u4"), now_ms=T0)).id == job_id(4)
    assert (await store.create_job(new_job(11, unique="u0"), now_ms=T0)).created


async def test_names_that_a_crash_or_an_older_version_left_go_later(store: MongoStore) -> None:
    for number in range(5):
        await store.create_job(new_job(number, unique=f"u{number}"), now_ms=T0)
    await store.collections.jobs.delete_many({"_id": {"$ne": job_id(4)}})
    await expire_all(store)
    assert await names(store) == ["u4"]


async def test_who_takes_a_name_while_it_goes_has_it_alone(mongo_url: str) -> None:
    """Two take the name of a job that has ended, and both go between any two steps of one of them."""
    async with open_pair(mongo_url) as pair:
        stop_at, was_stopped = 0, True
        while was_stopped:
            stop_at += 1
            name = f"u{stop_at}"
            gone, first, second = (new_job(10 * stop_at + n, unique=name) for n in range(3))
            await pair.other.create_job(gone, now_ms=T0)
            await pair.other.release_jobs(OWNER, [archive(await claim_one(pair.other))], now_ms=T0)

            async def create(store: Store, job: NewJob = first) -> CreateReport:
                return await store.create_job(job, now_ms=T0)

            async def sweep_and_create(store: Store, job: NewJob = second, name: str = gone.id) -> CreateReport:
                assert await store.delete_jobs(TENANT, [name], now_ms=T0) == 1
                await expire_all(store)
                return await store.create_job(job, now_ms=T0)

            one, other, was_stopped = await interleave(pair, create, sweep_and_create, stop_at)
            assert one.id == other.id, f"before step {stop_at}"
            assert one.created != other.created
            await pair.other.release_jobs(OWNER, [archive(job) for job in await claim(pair.other)], now_ms=T0)
