"""Jobs that a worker takes from one daemon and ends, or renews, at another: each daemon's caps count what is held."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from functory.operations import workers as operations
from functory.operations.tenants import create_tenant
from functory.peers.peers import Peers
from functory.tenant_limits import TenantLimits
from functory.workers.values import Answer, Delivery, Taken
from tests.support.clocks import LeapingClock
from tests.support.service import running_daemon, until
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.workers import ACME, Shop, payloads


@pytest.fixture(params=back_end_params())
async def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with BACK_ENDS[request.param](tmp_path) as url:
        yield url


@asynccontextmanager
async def two_shops(folder: Path, url: str, poll: str, clock: LeapingClock | None = None) -> AsyncIterator[list[Shop]]:
    """One store, and a tenant that may run one job on each daemon."""
    async with AsyncExitStack() as stack:
        shops = [
            Shop(await stack.enter_async_context(running_daemon(folder / name, clock, store=url, poll=poll)))
            for name in ("a", "b")
        ]
        await create_tenant(shops[0].service, "test", "acme", 1, TenantLimits(max_running=1))
        for shop in shops:
            await shop.daemon.executor.refresh_tenants()
        await shops[0].serve("resize", options={"lease_s": 3600})
        for shop, other in (shops, shops[::-1]):
            await until(partial(knows, shop, other))
        yield shops


async def knows(one: Shop, other: Shop) -> bool:
    is_told = other.daemon.sysid in one.daemon._parts.peers.others
    return is_told and "acme-resize" in await one.daemon.workers._handout._types.of("acme")


async def take_one(shop: Shop, **fields: int) -> Taken:
    """A job, as soon as no look of the daemon itself takes the one place of the tenant."""
    taken: list[Taken] = []

    async def has_taken() -> bool:
        taken.extend(await shop.take(**fields))
        return bool(taken)

    await until(has_taken)
    (one,) = taken
    return one


async def holds_nothing(shop: Shop) -> bool:
    return shop.gauge("worker_jobs_held") == 0


@pytest.mark.parametrize("exitcode", [200, 100, None], ids=["ended", "retried", "returned"])
async def test_a_job_that_ended_at_another_daemon_makes_room_at_once(
    tmp_path: Path, store_url: str, exitcode: int | None
) -> None:
    """The poll is an hour: somebody has told."""
    async with two_shops(tmp_path, store_url, "1h") as (a, b):
        await a.post("1", "2")
        first = await take_one(a)
        if exitcode is None:
            given_back = await operations.give_back(b.service, ACME, [Delivery(first.job.id, first.job.token)])
            assert [verdict.answer for verdict in given_back] == [Answer.OK]
        else:
            assert await b.report(first, exitcode) is Answer.OK
        await until(lambda: holds_nothing(a))
        second = await take_one(a)
        assert payloads([first, second]) == ["1", "1" if exitcode is None else "2"]


async def test_a_lost_word_costs_a_poll(tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with two_shops(tmp_path, store_url, "50ms") as (a, b):
        monkeypatch.setattr(Peers, "send", lambda *_: None)
        await a.post("1", "2", "3")
        taken = []
        for _ in range(3):
            taken += await a.take(wait_s=60)
            assert await b.report(taken[-1]) is Answer.OK
        assert payloads(taken) == ["1", "2", "3"]


async def test_a_lease_that_was_renewed_at_another_daemon_still_counts(tmp_path: Path, store_url: str) -> None:
    clock = LeapingClock()
    async with two_shops(tmp_path, store_url, "1h", clock) as (a, b):
        await a.post("1", "2")
        first = await take_one(a, lease_ms=60_000)
        clock.ahead_ms += 50_000
        assert await b.renew(first, lease_ms=60_000) == [Answer.OK]
        clock.ahead_ms += 20_000
        assert await a.take() == [], "max_running is 1"
        clock.ahead_ms += 50_000
        assert payloads([await take_one(a)]) == ["2"], "the first was not renewed again"
