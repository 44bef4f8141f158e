"""A claim may name a rate domain, for jobs of the type which have none: they take its tokens as if it were theirs."""

from collections import Counter

import pytest

from store.base import RateDomain, Store
from store.errors import InvalidValue
from tests.support.jobs import JOBTYPE, OWNER, T0, TENANT, archive, claim, ids, job_id, new_job, new_jobs

LIMIT = RateDomain(TENANT, "api", rate_per_s=2.0, burst=3)


@pytest.mark.parametrize("name", ["api", "a*"])
async def test_jobs_without_a_domain_take_the_tokens_of_the_claims(store: Store, name: str) -> None:
    await store.set_rate_domain(LIMIT._replace(domain=name), now_ms=T0)
    await store.add_jobs(new_jobs(10), now_ms=T0)
    assert ids(await claim(store, domain="api")) == [job_id(n) for n in range(3)]
    assert await claim(store, now_ms=T0 + 499, domain="api") == []
    assert ids(await claim(store, now_ms=T0 + 500, domain="api")) == [job_id(3)]
    assert len(await claim(store, now_ms=T0 + 1500, domain="api")) == 2
    assert len(await claim(store, now_ms=T0 + 60_000, domain="api")) == 3


async def test_the_bucket_is_shared_with_jobs_that_name_the_domain_and_with_other_types(store: Store) -> None:
    await store.set_rate_domain(LIMIT, now_ms=T0)
    named = [new_job(n, domain="api", dt_ms=T0 - 2) for n in (0, 1)]
    await store.add_jobs([*named, *(new_job(n, dt_ms=T0 - 1) for n in (2, 3)), new_job(4, domain="api")], now_ms=T0)
    await store.add_jobs(new_jobs(5, start=10, jobtype="acme-b"), now_ms=T0)
    taken = await claim(store, domain="api")
    assert ids(taken) == [job_id(n) for n in (0, 1, 2)], "in common order"
    assert [job.domain for job in taken] == ["api", "api", ""], "as they were added"
    assert await claim(store, jobtype="acme-b", domain="api") == []
    assert ids(await claim(store, now_ms=T0 + 500, domain="api")) == [job_id(3)]
    assert ids(await claim(store, now_ms=T0 + 1000, jobtype="acme-b", domain="api")) == [job_id(10)]
    assert ids(await claim(store, now_ms=T0 + 1500, domain="api")) == [job_id(4)]


async def test_jobs_of_other_domains_go_past(store: Store) -> None:
    await store.set_rate_domain(LIMIT._replace(burst=1), now_ms=T0)
    jobs = [new_job(1, priority=1000), new_job(2), new_job(3, domain="free"), new_job(4, domain="other")]
    await store.add_jobs(jobs, now_ms=T0)
    assert ids(await claim(store, domain="api")) == [job_id(n) for n in (1, 3, 4)]
    assert ids(await claim(store, now_ms=T0 + 500, domain="api")) == [job_id(2)]


async def test_a_domain_without_a_limit_limits_nothing(store: Store) -> None:
    await store.set_rate_domain(LIMIT._replace(burst=1), now_ms=T0)
    await store.add_jobs([*new_jobs(5), new_job(9, key="ada")], now_ms=T0)
    assert len(await claim(store, domain="free")) == 6


async def test_says_when_the_next_token_comes(store: Store) -> None:
    await store.set_rate_domain(LIMIT, now_ms=T0)
    await store.add_jobs(new_jobs(4), now_ms=T0)
    first = await claim(store, domain="api")
    assert (len(first), first.next_ms) == (3, T0 + 500)
    early = await claim(store, now_ms=T0 + 100, domain="api")
    assert (ids(early), early.next_ms) == ([], T0 + 500)
    last = await claim(store, now_ms=T0 + 500, domain="api")
    assert (len(last), last.next_ms) == (1, None), "nothing waits any more"


async def test_what_is_not_due_waits_for_no_token(store: Store) -> None:
    await store.set_rate_domain(LIMIT, now_ms=T0)
    await store.add_jobs([*new_jobs(3), new_job(9, dt_ms=T0 + 100)], now_ms=T0)
    found = await claim(store, domain="api")
    assert (len(found), found.next_ms) == (3, None)


async def test_a_token_is_not_taken_for_a_job_that_is_not_claimed(store: Store) -> None:
    await store.set_rate_domain(LIMIT, now_ms=T0)
    await store.add_jobs(new_jobs(3, data=b"x" * 100), now_ms=T0)
    (job,) = await claim(store, max_bytes=150, domain="api")
    await store.release_jobs(OWNER, [archive(job)], now_ms=T0)
    assert len(await claim(store, domain="api")) == 2


async def test_a_paused_type_stays_so(store: Store) -> None:
    await store.set_rate_domain(LIMIT, now_ms=T0)
    await store.add_jobs(new_jobs(3), now_ms=T0)
    await store.set_type_paused(TENANT, JOBTYPE, paused=True)
    assert await claim(store, domain="api") == []


@pytest.mark.parametrize("cap", [None, 1])
async def test_keys_wait_for_its_tokens_and_none_is_lost(store: Store, cap: int | None) -> None:
    await store.set_rate_domain(RateDomain(TENANT, "api", 10, 1), now_ms=T0)
    await store.add_jobs([new_job(n, key=f"k{n % 4}") for n in range(20)], now_ms=T0)
    await store.add_jobs([new_job(30, key="free", domain="free")], now_ms=T0)
    started: Counter[str] = Counter()
    for step in range(22):
        now_ms = T0 + 100 * step
        jobs = await claim(store, now_ms=now_ms, max_per_key=cap, domain="api")
        started.update(job.key for job in jobs)
        for job in jobs:
            await store.release_jobs(OWNER, [archive(job)], now_ms=now_ms)
        assert await claim(store, now_ms=now_ms + 50, max_per_key=cap, domain="api") == []
    assert started == {"k0": 5, "k1": 5, "k2": 5, "k3": 5, "free": 1}


async def test_keys_that_wait_go_on_when_claims_name_another_domain_or_none(store: Store) -> None:
    await store.set_rate_domain(RateDomain(TENANT, "api", 0.1, 1), now_ms=T0)
    await store.add_jobs([new_job(n, key=f"k{n}") for n in range(3)], now_ms=T0)
    found = await claim(store, domain="api")
    assert (len(found), found.next_ms) == (1, T0 + 10_000)
    assert len(await claim(store, now_ms=T0 + 10_000)) + len(await claim(store, now_ms=T0 + 20_000)) == 2


@pytest.mark.parametrize("domain", ["", "free", "limited"])
async def test_keys_do_not_wait_for_a_domain_that_claims_name_no_more(store: Store, domain: str) -> None:
    """The handler was changed. Jobs that name the domain themselves wait on."""
    await store.set_rate_domain(RateDomain(TENANT, "api", 0.00001, 1), now_ms=T0)
    await store.set_rate_domain(RateDomain(TENANT, "limited", 0.00001, 2), now_ms=T0)
    await store.add_jobs([*(new_job(n, key=f"k{n}") for n in range(5)), new_job(9, key="n", domain="api")], now_ms=T0)
    assert len(await claim(store, domain="api")) == 1
    assert await claim(store, now_ms=T0 + 1, domain="api") == []
    taken = await claim(store, now_ms=T0 + 2, domain=domain)
    assert len(taken) == (2 if domain == "limited" else 4)
    assert all(job.domain == "" for job in taken)
    assert await claim(store, now_ms=T0 + 3, domain=domain) == []


@pytest.mark.parametrize("cap", [None, 1])
async def test_keys_go_on_at_once_when_its_limit_is_raised(store: Store, cap: int | None) -> None:
    await store.set_rate_domain(RateDomain(TENANT, "api", 0.00001, 1), now_ms=T0)
    await store.add_jobs([new_job(n, key=f"k{n}") for n in range(5)], now_ms=T0)
    assert len(await claim(store, max_per_key=cap, domain="api")) == 1
    assert await claim(store, now_ms=T0 + 1, max_per_key=cap, domain="api") == []
    await store.set_rate_domain(RateDomain(TENANT, "api", 1000, 5), now_ms=T0 + 2)
    assert len(await claim(store, now_ms=T0 + 100, max_per_key=cap, domain="api")) == 4


@pytest.mark.parametrize("cap", [None, 1])
async def test_keys_go_on_at_once_when_its_limit_is_deleted(store: Store, cap: int | None) -> None:
    await store.set_rate_domain(RateDomain(TENANT, "api", 0.00001, 1), now_ms=T0)
    await store.add_jobs([new_job(n, key=f"k{n}") for n in range(5)], now_ms=T0)
    assert len(await claim(store, max_per_key=cap, domain="api")) == 1
    assert await claim(store, now_ms=T0 + 1, max_per_key=cap, domain="api") == []
    await store.delete_rate_domain(TENANT, "api", now_ms=T0 + 2)
    assert len(await claim(store, now_ms=T0 + 3, max_per_key=cap, domain="api")) == 4


@pytest.mark.parametrize("domain", ["a\nb", "x" * 256, "\ud800"])
async def test_a_domain_that_no_job_may_have_is_refused(store: Store, domain: str) -> None:
    with pytest.raises(InvalidValue, match="rate domain"):
        await claim(store, domain=domain)
