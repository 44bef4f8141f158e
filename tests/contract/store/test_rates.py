"""Rate domains: one bucket for all claimers, and jobs of other domains go past an empty one."""

from typing import Any

import pytest

from store.base import RateDomain, Store
from store.errors import InvalidValue
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, ids, job_id, new_job, new_jobs

LIMIT = RateDomain(TENANT, "api", rate_per_s=2.0, burst=3)


async def test_a_bucket_lets_through_its_burst_and_then_its_rate(store: Store) -> None:
    await store.set_rate_domain(LIMIT, now_ms=T0)
    await store.add_jobs(new_jobs(10, domain="api"), now_ms=T0)
    assert len(await claim(store)) == 3
    assert await claim(store, now_ms=T0 + 499) == []
    assert len(await claim(store, now_ms=T0 + 500)) == 1
    assert len(await claim(store, now_ms=T0 + 1500)) == 2
    assert len(await claim(store, now_ms=T0 + 60_000)) == 3


async def test_jobs_of_other_domains_go_past(store: Store) -> None:
    await store.set_rate_domain(LIMIT._replace(burst=1), now_ms=T0)
    jobs = [
        new_job(1, domain="api"),
        new_job(2, domain="api", priority=1000),
        new_job(3),
        new_job(4, domain="free"),
        new_job(5, domain="api", dt_ms=T0 - 10),
        new_job(6, dt_ms=T0 - 5),
    ]
    await store.add_jobs(jobs, now_ms=T0)
    assert ids(await claim(store)) == [job_id(n) for n in (2, 6, 3, 4)]
    assert [w.waiting for w in await store.get_waiting_jobtypes(now_ms=T0)] == [2]
    assert ids(await claim(store, now_ms=T0 + 500)) == [job_id(5)]


async def test_a_bucket_is_shared_by_types_and_owners_but_not_by_tenants(store: Store) -> None:
    await store.set_rate_domain(LIMIT, now_ms=T0)
    await store.add_jobs(new_jobs(5, domain="api"), now_ms=T0)
    await store.add_jobs(new_jobs(5, start=10, domain="api", jobtype="acme-b"), now_ms=T0)
    await store.add_jobs(new_jobs(5, start=20, domain="api", jobtype="other-b"), now_ms=T0)
    assert len(await claim(store, 2)) == 2
    assert len(await claim(store, jobtype="acme-b", owner="b2")) == 1
    assert len(await claim(store, jobtype="other-b")) == 5


async def test_a_claim_with_a_clock_behind_adds_no_tokens(store: Store) -> None:
    await store.set_rate_domain(LIMIT, now_ms=T0)
    await store.add_jobs(new_jobs(10, domain="api", dt_ms=T0 - 100_000), now_ms=T0)
    assert len(await claim(store, 1)) == 1
    assert len(await claim(store, 1, now_ms=T0 - 50_000)) == 1
    assert len(await claim(store, now_ms=T0)) == 1
    assert await claim(store, now_ms=T0 - 50_000) == []
    assert len(await claim(store, now_ms=T0 + 500)) == 1


async def test_limits_can_be_listed_changed_and_lifted(store: Store) -> None:
    await store.set_rate_domain(LIMIT, now_ms=T0)
    await store.set_rate_domain(LIMIT._replace(domain="b", burst=1), now_ms=T0)
    await store.add_jobs(new_jobs(9, domain="api"), now_ms=T0)
    await claim(store)
    api, other = await store.list_rate_domains(TENANT, now_ms=T0 + 100)
    assert (api.domain, other.domain.domain) == (LIMIT, "b")
    assert api.tokens == pytest.approx(0.2)
    assert (api.next_ms, other.next_ms) == (T0 + 500, T0 + 100)
    await store.set_rate_domain(LIMIT._replace(rate_per_s=100.0), now_ms=T0 + 100)
    assert len(await claim(store, now_ms=T0 + 108)) == 1
    assert await store.delete_rate_domain(TENANT, "api", now_ms=T0 + 108)
    assert not await store.delete_rate_domain(TENANT, "api", now_ms=T0 + 108)
    assert len(await claim(store, now_ms=T0 + 108)) == 5
    assert await store.list_rate_domains("other", now_ms=T0) == []


async def test_a_token_is_not_taken_for_a_job_that_is_not_claimed(store: Store) -> None:
    await store.set_rate_domain(LIMIT, now_ms=T0)
    await store.add_jobs(new_jobs(3, domain="api", data=b"x" * 100), now_ms=T0)
    (job,) = await claim(store, max_bytes=150)
    await store.release_jobs(OWNER, [archive(job)], now_ms=T0)
    assert len(await claim(store)) == 2


@pytest.mark.parametrize("changes", [{"rate_per_s": 0.0}, {"rate_per_s": float("nan")}, {"burst": 0}, {"domain": ""}])
async def test_malformed_limits_are_refused(store: Store, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        await store.set_rate_domain(LIMIT._replace(**changes), now_ms=T0)


@pytest.mark.parametrize("name", ["api", "a*"])
async def test_a_domain_that_a_clock_ahead_has_used_waits_as_it_says_until_its_limit_is_set_again(
    store: Store, name: str
) -> None:
    ahead_ms = T0 + 3_600_000
    limit = RateDomain(TENANT, name, rate_per_s=2.0, burst=1)
    await store.set_rate_domain(limit, now_ms=T0)
    await store.add_jobs(new_jobs(5, domain="api"), now_ms=T0)
    assert len(await claim(store, now_ms=ahead_ms)) == 1
    assert await claim(store, now_ms=ahead_ms) == []
    assert await claim(store, now_ms=T0 + 60_000) == []
    state = await store.find_rate(TENANT, "api", now_ms=T0 + 60_000)
    assert state is not None
    assert ahead_ms + 490 <= state.next_ms <= ahead_ms + 500, "a full bucket keeps 10 ms of the next token"
    await store.set_rate_domain(limit, now_ms=T0 + 60_000)
    assert len(await claim(store, now_ms=T0 + 60_500)) == 1
    assert await claim(store, now_ms=T0 + 60_600) == []
    assert len(await claim(store, now_ms=T0 + 61_000)) == 1
