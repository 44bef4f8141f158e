"""Two daemons claim from one rate domain, step against step: never more than it gives, and none is lost."""

import pytest

from store.base import RateDomain, Store
from tests.support.jobs import T0, TENANT, claim, new_job
from tests.support.turns import interleave, open_pair

pytestmark = pytest.mark.slow

BURST = 3


async def claim_two(store: Store) -> int:
    return len(await claim(store, 2))


@pytest.mark.parametrize("has_keys", [False, True])
@pytest.mark.parametrize("limit", ["the domain", "*"])
async def test_a_domain_gives_its_tokens_once(mongo_url: str, limit: str, has_keys: bool) -> None:
    async with open_pair(mongo_url) as pair:
        stop_at, was_stopped = 1, True
        while was_stopped:
            stop_at += 1
            domain = f"api{stop_at}"
            name = domain if limit == "the domain" else limit
            await pair.other.set_rate_domain(RateDomain(TENANT, name, 0.001, BURST), now_ms=T0)
            numbers = range(100 * stop_at, 100 * stop_at + 10)
            keys = {number: f"k{number}" if has_keys else "" for number in numbers}
            jobs = [new_job(number, domain=domain, dt_ms=T0 - stop_at, key=key) for number, key in keys.items()]
            await pair.other.add_jobs(jobs, now_ms=T0)
            one, two, was_stopped = await interleave(pair, claim_two, claim_two, stop_at)
            state = await pair.other.find_rate(TENANT, domain, now_ms=T0)
            assert state is not None
            assert one + two <= BURST, f"before step {stop_at}"
            assert state.tokens == pytest.approx(BURST - one - two, abs=0.1), f"before step {stop_at}"
            rest = 0
            while found := len(await claim(pair.other, 10)):
                rest += found  # or they would be first the next time
            assert one + two + rest == BURST, f"a token is not used, before step {stop_at}"


@pytest.mark.parametrize("change", ["raised", "deleted"])
async def test_a_limit_that_changes_during_a_claim_holds_at_once_for_keys(mongo_url: str, change: str) -> None:
    async with open_pair(mongo_url) as pair:
        stop_at, was_stopped = 1, True
        while was_stopped:
            stop_at += 1
            domain = f"api{stop_at}"

            async def claim_all(store: Store) -> int:
                return len(await claim(store, 10))

            async def change_limit(store: Store, domain: str = domain) -> int:
                if change == "raised":
                    return await store.set_rate_domain(RateDomain(TENANT, domain, 1000, 10), now_ms=T0)
                return await store.delete_rate_domain(TENANT, domain, now_ms=T0)

            await pair.other.set_rate_domain(RateDomain(TENANT, domain, 0.00001, 1), now_ms=T0)
            jobs = [new_job(100 * stop_at + n, domain=domain, key=f"k{stop_at}-{n}") for n in range(4)]
            await pair.other.add_jobs(jobs, now_ms=T0)
            started, _, was_stopped = await interleave(pair, claim_all, change_limit, stop_at)
            for _ in range(2):
                started += len(await claim(pair.other, 10, now_ms=T0 + 10))
            assert started == 4, f"before step {stop_at}"
