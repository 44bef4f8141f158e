"""Rates far slower than those that can be set: a store may have them from an earlier version or from an import."""

import pytest

from store.base import RateDomain, Store
from store.errors import InvalidValue
from store.values.transfer import ImportPlace, Part, RateBucketRecord, RateRecord
from tests.support.jobs import T0, TENANT, claim, new_job, new_jobs
from vocabulary.time_text import MAX_TIME_MS

SLOWEST = [5e-324, 1e-306, 1e-16, 1e-12]


async def limited(store: Store, name: str, rate_per_s: float, *buckets: RateBucketRecord, burst: int = 1) -> None:
    """As if such a limit had been set."""
    await store.begin_import("an earlier version")
    record = RateRecord(RateDomain(TENANT, name, rate_per_s, burst), float(burst), T0)
    await store.import_records(Part.RATES, [record], after=ImportPlace(Part.RATES, None), now_ms=T0)
    await store.import_records(Part.RATE_BUCKETS, buckets, after=ImportPlace(Part.RATES, None), now_ms=T0)
    await store.end_import()


@pytest.mark.parametrize("rate_per_s", [0.0, 5e-324, 1e-306, 9e-7])
@pytest.mark.parametrize("name", ["slow", "p*"])
async def test_a_rate_under_one_in_a_million_seconds_is_refused(store: Store, name: str, rate_per_s: float) -> None:
    with pytest.raises(InvalidValue, match=r"from 0\.000001 to 1,000,000"):
        await store.set_rate_domain(RateDomain(TENANT, name, rate_per_s, 1), now_ms=T0)
    await store.set_rate_domain(RateDomain(TENANT, name, 1e-6, 1), now_ms=T0)


@pytest.mark.parametrize("rate_per_s", SLOWEST)
@pytest.mark.parametrize("name", ["slow", "s*"])
async def test_one_holds_up_its_domain_and_nothing_else(store: Store, name: str, rate_per_s: float) -> None:
    await limited(store, name, rate_per_s)
    await store.add_jobs([*new_jobs(3, domain="slow"), new_job(9, domain="other")], now_ms=T0)
    assert sorted(job.domain for job in await claim(store, 10)) == ["other", "slow"]
    assert await claim(store, 10, now_ms=T0 + 90_000) == []
    state = await store.find_rate(TENANT, "slow", now_ms=T0)
    assert state is not None
    assert state.next_ms == MAX_TIME_MS
    assert [row.domain.domain for row in await store.list_rate_domains(TENANT, now_ms=T0)] == [name]


@pytest.mark.parametrize("rate_per_s", SLOWEST)
async def test_upkeep_goes_on_when_a_bucket_has_become_so_slow(store: Store, rate_per_s: float) -> None:
    """It was to be full by now at the rate that it had."""
    before = RateBucketRecord(RateDomain(TENANT, "p1", 1.0, 1), 0.0, T0 - 5000, T0 - 4000)
    await limited(store, "p*", rate_per_s, before, burst=2)
    await store.expire_locks(now_ms=T0, limit=100)
    state = await store.find_rate(TENANT, "p1", now_ms=T0)
    assert state is not None
    assert state.tokens == pytest.approx(1.0), "a token by the old rate, and none by the new one"
