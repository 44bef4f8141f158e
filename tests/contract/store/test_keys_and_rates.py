"""Keys whose rate domain has no token: they wait for one, and nobody waits for them."""

from collections import Counter

import pytest

from store.base import Job, RateDomain, Store
from tests.support.jobs import T0, TENANT, archive, claim, ids, job_id, new_job

SLOW = RateDomain(TENANT, "slow", 0.00001, 1)


async def end(store: Store, jobs: list[Job], now_ms: int) -> None:
    if jobs:
        report = await store.release_jobs(jobs[0].lock, [archive(job) for job in jobs], now_ms=now_ms)
        assert report.applied == len(jobs)


@pytest.mark.parametrize("max_per_key", [None, 1])
async def test_keys_whose_domain_has_no_token_do_not_keep_claims_from_others(
    store: Store, max_per_key: int | None
) -> None:
    """However much time passes, and whether the others are new or were served before."""
    await store.set_rate_domain(SLOW, now_ms=T0)
    await store.add_jobs([new_job(n, key=f"k{n}", domain="slow") for n in range(1, 601)], now_ms=T0)
    assert len(await claim(store, 1, max_per_key=max_per_key)) == 1
    now_ms = T0
    for number in (601, 602):
        await store.add_jobs([new_job(number, key="ada")], now_ms=now_ms)
        found: list[Job] = []
        for _ in range(5):
            now_ms += 2000
            found += await claim(store, 1, now_ms=now_ms, max_per_key=max_per_key)
        assert ids(found) == [job_id(number)]
        await end(store, found, now_ms)
    for number in range(603, 606):  # all that waited were looked at by now
        now_ms += 120_000
        await store.add_jobs([new_job(number, key=f"new{number}")], now_ms=now_ms)
        assert ids(await claim(store, 1, now_ms=now_ms, max_per_key=max_per_key)) == [job_id(number)]


async def test_each_token_is_for_one_of_the_keys_that_wait_and_none_is_left(store: Store) -> None:
    await store.set_rate_domain(RateDomain(TENANT, "api", 10, 1), now_ms=T0)
    await store.add_jobs([new_job(n, key=f"k{n}", domain="api") for n in range(20)], now_ms=T0)
    started: list[str] = []
    for step in range(20):
        now_ms = T0 + 100 * step
        for _ in range(3):
            jobs = await claim(store, now_ms=now_ms, max_per_key=1)
            started += ids(jobs)
            await end(store, jobs, now_ms)
        assert len(started) == step + 1
        assert await claim(store, now_ms=now_ms + 99, max_per_key=1) == []
    assert len(set(started)) == 20


async def test_the_token_of_a_key_that_left_goes_to_the_next(store: Store) -> None:
    await store.set_rate_domain(RateDomain(TENANT, "api", 0.1, 1), now_ms=T0)
    await store.add_jobs([new_job(n, key=f"k{n}", domain="api") for n in range(5)], now_ms=T0)
    gone = {job_id(n) for n in range(4)} - set(ids(await claim(store, max_per_key=1)))
    assert await claim(store, now_ms=T0 + 1, max_per_key=1) == []
    for each in gone:
        await store.cancel_job(TENANT, each, now_ms=T0 + 2)
    left = await claim(store, now_ms=T0 + 10_000, max_per_key=1)
    assert ids(left) == [job_id(4)]


@pytest.mark.parametrize("change", ["raised", "deleted"])
async def test_a_changed_limit_holds_at_once_for_keys_that_wait(store: Store, change: str) -> None:
    await store.set_rate_domain(SLOW, now_ms=T0)
    await store.add_jobs([new_job(n, key=f"k{n}", domain="slow") for n in range(30)], now_ms=T0)
    assert len(await claim(store, max_per_key=1)) == 1
    assert await claim(store, now_ms=T0 + 1, max_per_key=1) == []
    if change == "raised":
        await store.set_rate_domain(RateDomain(TENANT, "slow", 1000, 30), now_ms=T0 + 2)
    else:
        await store.delete_rate_domain(TENANT, "slow", now_ms=T0 + 2)
    assert len(await claim(store, now_ms=T0 + 40, max_per_key=1)) == 29


async def test_keys_that_wait_for_one_domain_share_its_tokens(store: Store) -> None:
    await store.set_rate_domain(RateDomain(TENANT, "api", 10, 1), now_ms=T0)
    jobs = [new_job(10 * key + n, key=f"k{key}", domain="api") for key in range(4) for n in range(10)]
    await store.add_jobs(jobs, now_ms=T0)
    started: Counter[str] = Counter()
    for step in range(20):
        taken = await claim(store, now_ms=T0 + 100 * step)
        started.update(job.key for job in taken)
        await end(store, taken, T0 + 100 * step)
    assert started == {f"k{key}": 5 for key in range(4)}
