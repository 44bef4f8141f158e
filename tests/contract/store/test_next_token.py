"""A claim says when to come back for what waits for a token; and a token that is taken late is not lost."""

import pytest

from store.base import RateDomain, Store
from store.rate_rules import kept_part
from tests.support.jobs import T0, TENANT, archive, claim, new_job, new_jobs

LIMIT = RateDomain(TENANT, "api", rate_per_s=2.0, burst=1)


@pytest.mark.parametrize("has_keys", [False, True])
@pytest.mark.parametrize("name", ["api", "a*"])
async def test_a_claim_that_finds_too_few_tokens_says_when_the_next_comes(
    store: Store, name: str, has_keys: bool
) -> None:
    await store.set_rate_domain(LIMIT._replace(domain=name), now_ms=T0)
    await store.add_jobs([new_job(n, domain="api", key=f"k{n}" if has_keys else "") for n in range(4)], now_ms=T0)
    for now_ms, jobs, next_ms in [
        (T0, 1, T0 + 500),
        (T0 + 100, 0, T0 + 500),
        (T0 + 499, 0, T0 + 500),
        (T0 + 500, 1, T0 + 1000),
        (T0 + 1007, 1, T0 + 1500),
    ]:
        taken = await claim(store, now_ms=now_ms)
        assert (len(taken), taken.next_ms) == (jobs, next_ms)
    assert len(await claim(store, now_ms=T0 + 1500)) == 1
    gone = await claim(store, now_ms=T0 + 2000)
    assert (gone, gone.next_ms) == ([], None), "nothing waits any more"


async def test_it_is_the_first_of_all_domains_priorities_and_keys(store: Store) -> None:
    for domain, rate_per_s in (("slow", 0.5), ("middle", 1.0), ("keyed", 2.0), ("fast", 4.0)):
        await store.set_rate_domain(RateDomain(TENANT, domain, rate_per_s, 1), now_ms=T0)
    await store.add_jobs(
        [
            *(new_job(n, domain="slow", priority=1000) for n in (1, 2)),
            *(new_job(n, domain="middle") for n in (3, 4, 5)),
            *(new_job(n, domain="keyed", key=f"k{n}") for n in (6, 7)),
            *(new_job(n, domain="fast", priority=0) for n in (8, 9)),
        ],
        now_ms=T0,
    )
    expected = [(T0, 4, 250), (T0 + 250, 1, 500), (T0 + 500, 1, 1000), (T0 + 1000, 1, 2000), (T0 + 2000, 2, 3000)]
    for now_ms, jobs, after_ms in expected:
        taken = await claim(store, now_ms=now_ms)
        assert len(taken) == jobs
        assert taken.next_ms == T0 + after_ms


@pytest.mark.parametrize("case", ["full", "bytes", "no domain", "no limit", "deferred", "paused", "unknown"])
async def test_it_says_nothing_where_no_token_is_known_to_be_missing(store: Store, case: str) -> None:
    await store.set_rate_domain(LIMIT, now_ms=T0)
    limited = new_jobs(3, domain="api", data=b"x" * 100)
    jobs = {
        "full": limited,
        "bytes": [*limited, *new_jobs(3, start=10, data=b"x" * 100)],
        "no domain": new_jobs(2),
        "no limit": new_jobs(2, domain="free"),
        "deferred": [new_job(1, domain="api", dt_ms=T0 + 9), new_job(2)],
        "paused": limited,
        "unknown": [],
    }[case]
    await store.add_jobs(jobs, now_ms=T0)
    if case == "paused":
        await store.set_type_paused(TENANT, jobs[0].jobtype, paused=True)
    taken = await claim(store, 1 if case == "full" else 10, max_bytes=250 if case == "bytes" else 1000)
    assert taken.next_ms is None
    assert len(taken) == {"full": 1, "bytes": 2, "deferred": 1, "paused": 0, "unknown": 0}.get(case, 2)


async def test_a_job_that_is_due_before_the_next_token_is_come_back_for_too(store: Store) -> None:
    await store.set_rate_domain(LIMIT, now_ms=T0)
    await store.add_jobs([*new_jobs(2, domain="api"), new_job(9, domain="free", dt_ms=T0 + 300)], now_ms=T0)
    taken = await claim(store)
    assert (len(taken), taken.next_ms) == (1, T0 + 300)
    taken = await claim(store, now_ms=T0 + 300)
    assert (len(taken), taken.next_ms) == (1, T0 + 500)


@pytest.mark.parametrize("has_keys", [False, True])
async def test_a_claim_that_could_not_look_at_all_domains_says_to_come_back_at_once(
    store: Store, has_keys: bool
) -> None:
    await store.set_rate_domain(RateDomain(TENANT, "*", 0.001, 1), now_ms=T0)
    domains = [f"d{n}" for n in range(450)]
    first = [new_job(n, domain=domain, jobtype="acme-b") for n, domain in enumerate(domains)]
    await store.add_jobs(first, now_ms=T0)
    for _ in range(5):
        jobs = await claim(store, 100, jobtype="acme-b")
        await store.release_jobs(jobs[0].lock, [archive(job) for job in jobs], now_ms=T0)
    late = [new_job(1000 + n, domain=domain, key=domain if has_keys else "") for n, domain in enumerate(domains)]
    await store.add_jobs(late, now_ms=T0)
    told: list[int | None] = []
    while not told or told[-1] == T0 + 1:
        taken = await claim(store, 1, now_ms=T0 + 1)
        assert taken == []
        told.append(taken.next_ms)
    assert len(told) > 1
    assert told[-1] == T0 + 60_000 + 1


@pytest.mark.parametrize("has_keys", [False, True])
async def test_a_daemon_whose_clock_is_behind_is_not_sent_in_vain_again_and_again(store: Store, has_keys: bool) -> None:
    await store.set_rate_domain(LIMIT, now_ms=T0)
    await store.add_jobs([new_job(n, domain="api", key=f"k{n}" if has_keys else "") for n in range(4)], now_ms=T0)
    assert len(await claim(store, now_ms=T0 + 9000)) == 1
    await store.set_rate_domain(RateDomain(TENANT, "x", 1, 1), now_ms=T0)  # which has lanes looked at again
    taken = await claim(store)
    assert taken == []
    assert taken.next_ms is not None
    assert T0 + 9400 < taken.next_ms <= T0 + 9500


@pytest.mark.parametrize("rate_per_s", [20, 50, 100])
@pytest.mark.parametrize("name", ["api", "a*"])
async def test_tokens_that_are_taken_late_are_not_lost(store: Store, name: str, rate_per_s: int) -> None:
    """A burst of one, and claims that come late each time, by as much as a bucket keeps."""
    await store.set_rate_domain(RateDomain(TENANT, name, rate_per_s, 1), now_ms=T0)
    await store.add_jobs(new_jobs(30, domain="api"), now_ms=T0)
    most_late_ms = int(1000 * kept_part(rate_per_s) / rate_per_s)
    now_ms, taken = T0, 0
    for step in range(20):
        jobs = await claim(store, now_ms=now_ms)
        taken += len(jobs)
        assert len(jobs) <= 1, "never more than the burst"
        assert jobs.next_ms == T0 + 1000 * (step + 1) // rate_per_s
        now_ms = jobs.next_ms + step * 7 % (most_late_ms + 1)
    assert taken == 20


async def test_what_a_full_bucket_keeps_is_no_token_and_is_not_shown(store: Store) -> None:
    await store.set_rate_domain(RateDomain(TENANT, "api", 100, 2), now_ms=T0)
    await store.add_jobs(new_jobs(9, domain="api"), now_ms=T0)
    assert len(await claim(store)) == 2
    state = await store.find_rate(TENANT, "api", now_ms=T0 + 60_000)
    assert state is not None
    assert state.tokens == 2.0
    assert [each.tokens for each in await store.list_rate_domains(TENANT, now_ms=T0 + 60_000)] == [2.0]
    assert len(await claim(store, now_ms=T0 + 60_000)) == 2
    assert (await claim(store, now_ms=T0 + 60_000)).next_ms == T0 + 60_001
