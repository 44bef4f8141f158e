"""Rate domains that are not known in advance: patterns, buckets that come and go, and claims past what may not run."""

import random
from collections import Counter

import pytest

from store import rate_rules
from store.base import JobChange, RateDomain, Store
from store.errors import Conflict, InvalidValue
from store.rate_rules import MAX_PATTERNS
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, ids, job_id, new_job, new_jobs, retry

MAIL = RateDomain(TENANT, "mail:*", rate_per_s=2.0, burst=3)


async def limit(store: Store, name: str, rate_per_s: float, burst: int = 1, now_ms: int = T0) -> None:
    await store.set_rate_domain(RateDomain(TENANT, name, rate_per_s, burst), now_ms=now_ms)


async def holds(store: Store, domain: str) -> str | None:
    state = await store.find_rate(TENANT, domain, now_ms=T0)
    return None if state is None else state.domain.domain


async def test_each_domain_of_a_pattern_has_a_bucket_of_its_own(store: Store) -> None:
    await store.set_rate_domain(MAIL, now_ms=T0)
    jobs = [new_job(n, domain=f"mail:{n % 3}") for n in range(18)] + new_jobs(4, start=50, domain="other")
    await store.add_jobs(jobs, now_ms=T0)
    taken = Counter(job.domain for job in await claim(store, 100))
    assert taken == {"mail:0": 3, "mail:1": 3, "mail:2": 3, "other": 4}
    assert await claim(store, now_ms=T0 + 499) == []
    assert sorted(job.domain for job in await claim(store, now_ms=T0 + 500)) == ["mail:0", "mail:1", "mail:2"]
    await store.add_jobs([new_job(90, domain="mail:new", dt_ms=T0)], now_ms=T0 + 510)
    assert ids(await claim(store, now_ms=T0 + 510)) == [job_id(90)]


async def test_the_own_name_wins_then_the_most_specific_pattern_and_the_star_is_the_default(store: Store) -> None:
    names = ["*", "mail:*", "mail:eu-*", "mail:eu-?", "mail:eu-1", "[ab]x"]
    for name in names:
        await limit(store, name, 1.0)
    expected = {
        "mail:eu-1": "mail:eu-1",
        "mail:eu-2": "mail:eu-?",
        "mail:eu-22": "mail:eu-*",
        "mail:us": "mail:*",
        "mail:*": "mail:*",
        "ax": "[ab]x",
        "cx": "*",
    }
    assert {domain: await holds(store, domain) for domain in expected} == expected
    assert [state.domain.domain for state in await store.list_rate_domains(TENANT, now_ms=T0)] == sorted(names)
    await store.delete_rate_domain(TENANT, "mail:eu-1", now_ms=T0)
    assert await holds(store, "mail:eu-1") == "mail:eu-?"
    await store.delete_rate_domain(TENANT, "*", now_ms=T0)
    assert await holds(store, "cx") is None
    assert await store.find_rate("other", "mail:us", now_ms=T0) is None


async def test_a_change_of_a_pattern_holds_at_once_for_buckets_that_are_in_use(store: Store) -> None:
    await limit(store, "d*", 0.001, 2)
    await store.add_jobs([new_job(n, domain=f"d{n % 2}") for n in range(40)], now_ms=T0)
    assert len(await claim(store)) == 4
    assert await claim(store, now_ms=T0 + 1000) == []
    await limit(store, "d*", 10.0, 2, now_ms=T0 + 1000)
    assert await claim(store, now_ms=T0 + 1090) == [], "the time before the change counts by the old rate"
    assert len(await claim(store, now_ms=T0 + 1100)) == 2
    await limit(store, "d*", 10.0, 1, now_ms=T0 + 9000)
    assert len(await claim(store, now_ms=T0 + 9000)) == 2, "no more than the new burst"
    await limit(store, "d1", 0.001, 3, now_ms=T0 + 9000)
    assert Counter(job.domain for job in await claim(store, now_ms=T0 + 9000)) == {"d1": 3}
    await store.delete_rate_domain(TENANT, "d1", now_ms=T0 + 9000)
    await store.delete_rate_domain(TENANT, "d*", now_ms=T0 + 9000)
    assert len(await claim(store, 100, now_ms=T0 + 9000)) == 40 - 4 - 2 - 2 - 3


async def test_a_bucket_that_was_collected_is_as_full_as_it_would_be(store: Store) -> None:
    await limit(store, "d*", 1.0, 3)
    await store.add_jobs(new_jobs(30, domain="d1"), now_ms=T0)
    assert len(await claim(store)) == 3
    await store.expire_locks(now_ms=T0 + 2000, owner="nobody")
    assert len(await claim(store, now_ms=T0 + 2000)) == 2, "it was not full, and is not collected"
    await limit(store, "d*", 0.1, 3, now_ms=T0 + 2000)
    await store.expire_locks(now_ms=T0 + 6000, owner="nobody")
    assert await claim(store, now_ms=T0 + 6000) == [], "it would be full by the old rate"
    await store.expire_locks(now_ms=T0 + 40_000, owner="nobody")
    assert len(await claim(store, now_ms=T0 + 40_000)) == 3


async def test_jobs_that_come_back_to_a_domain_are_found(store: Store) -> None:
    """Each way into the queue, for a domain of which nothing was queued any more."""
    await limit(store, "*", 1000.0, 1000)
    await store.add_jobs(new_jobs(4, domain="d"), now_ms=T0)
    first, second, third, _ = await claim(store)
    assert await claim(store) == []
    await store.release_jobs(OWNER, [retry(first, T0 + 500)], now_ms=T0)
    assert await claim(store, now_ms=T0 + 499) == []
    assert ids(await claim(store, now_ms=T0 + 500)) == [first.id]
    await store.release_jobs(OWNER, [archive(second)], now_ms=T0 + 500)
    await store.replay_jobs(TENANT, [second.id], dt_ms=T0, now_ms=T0 + 500)
    assert ids(await claim(store, now_ms=T0 + 500)) == [second.id]
    await store.expire_locks(now_ms=T0 + 500, owner=OWNER)
    assert len(await claim(store, now_ms=T0 + 600)) == 4
    await store.create_job(new_job(9, domain="e", dt_ms=T0 + 90_000, unique="u"), now_ms=T0 + 600)
    assert await claim(store, now_ms=T0 + 600) == []
    await store.create_job(new_job(10, domain="e", unique="u", priority=1000), now_ms=T0 + 600)
    await store.update_job(TENANT, job_id(9), JobChange(dt_ms=T0 + 700), now_ms=T0 + 600)
    assert await claim(store, now_ms=T0 + 699) == []
    assert ids(await claim(store, now_ms=T0 + 700)) == [job_id(9)]
    await store.release_jobs(OWNER, [archive(third)], now_ms=T0 + 700)


async def test_a_domain_whose_due_jobs_were_taken_is_found_again_when_the_next_is_due(store: Store) -> None:
    await store.add_jobs([new_job(1, domain="d"), new_job(2, domain="d", dt_ms=T0 + 5000)], now_ms=T0)
    assert ids(await claim(store, 100)) == [job_id(1)]
    assert await claim(store, 100, now_ms=T0 + 4999) == []
    assert ids(await claim(store, 100, now_ms=T0 + 5000)) == [job_id(2)]


async def test_more_domains_than_a_claim_looks_at_hide_none_that_may_run(store: Store) -> None:
    await limit(store, "slow*", 0.001)
    await store.add_jobs([new_job(n, domain=f"slow{n % 400}") for n in range(800)], now_ms=T0)
    while await claim(store, 1000):
        pass
    await store.add_jobs([new_job(900, domain="free"), new_job(901, priority=0)], now_ms=T0)
    assert ids(await claim(store)) == [job_id(900), job_id(901)]
    await store.delete_rate_domain(TENANT, "slow*", now_ms=T0)
    found = 0
    while jobs := await claim(store, 1000):
        found += len(jobs)
    assert found == 400


@pytest.mark.parametrize("name", ["a*b*", "**", "a[bc", "["])
async def test_a_pattern_that_costs_too_much_or_matches_nothing_is_refused(store: Store, name: str) -> None:
    with pytest.raises(InvalidValue, match="pattern"):
        await limit(store, name, 1.0)


async def test_a_tenant_has_so_many_limits_and_no_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_rules, "MAX_LIMITS", 3)
    for name in ("a", "b", "c*"):
        await limit(store, name, 1.0)
    for name in ("d", "d*"):
        with pytest.raises(Conflict, match="3 rate domains"):
            await limit(store, name, 1.0)
    await limit(store, "a", 2.0)
    await store.set_rate_domain(MAIL._replace(tenant="other"), now_ms=T0)
    await store.delete_rate_domain(TENANT, "a", now_ms=T0)
    await limit(store, "d", 1.0)


async def test_a_limit_that_is_set_again_tells_whether_it_is_another(store: Store) -> None:
    same = RateDomain(TENANT, "api", 1, 2)
    changes = [same, same, same._replace(burst=3), same._replace(burst=3), same._replace(rate_per_s=2.0)]
    assert [await store.set_rate_domain(it, now_ms=T0) for it in changes] == [True, False, True, False, True]


async def test_a_tenant_has_so_many_patterns_and_no_more(store: Store) -> None:
    for n in range(MAX_PATTERNS):
        await limit(store, f"p{n}*", 1.0)
    with pytest.raises(Conflict, match="patterns"):
        await limit(store, "one more*", 1.0)
    await limit(store, "p0*", 2.0)
    await limit(store, "a name", 1.0)
    await store.set_rate_domain(MAIL._replace(tenant="other"), now_ms=T0)
    await store.delete_rate_domain(TENANT, "p0*", now_ms=T0)
    await limit(store, "one more*", 1.0)


class Model:
    """What each bucket may hold. Between two of its claims a limit may change more than once, and the store follows the
    first and the last: so there is a least and a most."""

    def __init__(self) -> None:
        self.rules: dict[str, tuple[float, int]] = {}
        self.queued: Counter[str] = Counter()
        self._held: dict[str, tuple[float, float, int]] = {}
        self._seen: dict[str, set[tuple[float, int]]] = {}

    def rule_of(self, domain: str) -> tuple[float, int] | None:
        return (self.rules.get("a*") if domain.startswith("a") else None) or self.rules.get("*")

    def change(self, pattern: str, rate_per_s: float, burst: int) -> None:
        for domain in self._held:
            if (rule := self.rule_of(domain)) is not None:
                self._seen.setdefault(domain, set()).add(rule)
        self.rules[pattern] = (rate_per_s, burst)

    def bounds(self, domain: str, now_ms: int) -> tuple[float, float]:
        rule = self.rule_of(domain)
        if rule is None:
            return 1e9, 1e9
        rules = self._seen.get(domain, set()) | {rule}
        least, most, at_ms = self._held.get(domain, (1e9, 1e9, now_ms))
        grown = [(now_ms - at_ms) * rate_per_s / 1000 for rate_per_s, _ in rules]
        bursts = [burst for _, burst in rules]
        return min(least + min(grown), *bursts, rule[1]), min(most + max(grown), rule[1])

    def check(self, taken: Counter[str], now_ms: int) -> None:
        """That a claim of all that may run took what the buckets hold, no more and no less."""
        for domain, waiting in self.queued.items():
            least, most = self.bounds(domain, now_ms)
            count = taken[domain]
            assert min(waiting, int(least + 1e-6)) <= count <= min(waiting, int(most + 1e-6)), domain
            if count and self.rule_of(domain) is not None:
                most = min(most - count, 1.0 if count < waiting else most)
                self._held[domain] = (max(least - count, 0.0), most, now_ms)
                self._seen.pop(domain, None)
            self.queued[domain] -= count


@pytest.mark.parametrize("seed", range(3))
async def test_no_domain_runs_too_often_and_none_starves(store: Store, seed: int) -> None:
    """A walk of adds, claims, changes of limits and upkeep, beside a model that knows each bucket."""
    chance = random.Random(seed)
    model = Model()
    now_ms, number = T0, 0
    for _ in range(60):
        step = chance.choice(["add", "add", "claim", "claim", "claim", "limit", "upkeep"])
        if step == "add":
            names = [f"{chance.choice('ab')}{chance.randrange(30)}" for _ in range(20)]
            jobs = [new_job(number + n, domain=name, dt_ms=now_ms) for n, name in enumerate(names)]
            number += len(jobs)
            await store.add_jobs(jobs, now_ms=now_ms)
            model.queued.update(names)
        elif step == "limit":
            rule = chance.choice(["a*", "*"]), chance.choice([0.5, 4.0]), chance.choice([1, 2])
            await limit(store, *rule, now_ms)
            model.change(*rule)
        elif step == "upkeep":
            await store.expire_locks(now_ms=now_ms, owner="nobody")
        else:
            now_ms += chance.choice([0, 125, 1000])
            taken: Counter[str] = Counter()
            while some := await claim(store, 50, now_ms=now_ms):
                taken.update(job.domain for job in some)
            model.check(taken, now_ms)
    left = [waiting.waiting for waiting in await store.get_waiting_jobtypes(now_ms=now_ms)]
    assert sum(left) == model.queued.total()


@pytest.mark.parametrize("is_reopened", [False, True], ids=["put back", "put back, then a limit changes"])
async def test_a_due_job_is_seen_among_very_many_domains_with_later_ones(store: Store, *, is_reopened: bool) -> None:
    await store.add_jobs([new_job(n, domain=f"d{n}") for n in range(1001)], now_ms=T0)
    while jobs := await claim(store):
        await store.release_jobs(OWNER, [retry(job, T0 + 3_600_000) for job in jobs], now_ms=T0)
    if is_reopened:
        await limit(store, "x", 1.0)
    else:
        await store.add_jobs([new_job(n, domain=f"d{n}") for n in range(2000, 2060)], now_ms=T0)
        jobs = await claim(store)
        await store.release_jobs(OWNER, [retry(job, T0 + 3_600_000) for job in jobs], now_ms=T0)
    assert await store.get_waiting_jobtypes(now_ms=T0) == []
    await store.add_jobs([new_job(3000, domain="fresh")], now_ms=T0)
    assert [each.waiting for each in await store.get_waiting_jobtypes(now_ms=T0)] == [1]
