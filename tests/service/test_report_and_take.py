"""A worker reports what it has done and takes the next jobs with the same request."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from functory.errors import InvalidInput
from functory.operations import workers as operations
from functory.operations.tenants import update_tenant
from functory.tenant_limits import TenantLimits
from functory.workers.values import Answer, Order, Report, Taken, Verdict
from store.base import JobState
from store.errors import StoreUnavailable
from tests.support.clocks import FakeClock
from tests.support.service import until
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.workers import ACME, Shop, held, open_shop, payloads, waiting

NEXT = Order("acme", ("resize",))


@pytest.fixture(params=back_end_params())
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    async with BACK_ENDS[request.param](tmp_path) as url, open_shop(tmp_path, store=url) as opened:
        await opened.serve("resize")
        yield opened


async def report_and_take(shop: Shop, job: Taken, order: Order = NEXT) -> tuple[Answer, list[Taken]]:
    (verdict,), taken = await operations.report_and_take(shop.service, ACME, [Report(held(job), 200)], order)
    return verdict.answer, taken


def noted_claims(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when jobs have been claimed."""
    claim, claimed = shop.daemon.store.claim_jobs, asyncio.Event()

    async def noted(*given: Any, **named: Any) -> Any:
        try:
            return await claim(*given, **named)
        finally:
            claimed.set()

    monkeypatch.setattr(shop.daemon.store, "claim_jobs", noted)
    return claimed


async def test_the_next_job_comes_with_the_verdict(shop: Shop) -> None:
    await shop.post("1", "2")
    (job,) = await shop.take()
    answer, taken = await report_and_take(shop, job)
    assert (answer, payloads(taken)) == (Answer.OK, ["2"])
    assert (await shop.record(job.job.id)).state is JobState.ARCHIVED


async def test_a_report_and_its_take_come_to_the_embedded_store_in_one_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report first, because it may make room. So they are one commit, however fast the store is."""
    came: list[tuple[str, int]] = []
    turns = 0
    loop: Any = asyncio.get_running_loop()
    run_once = loop._run_once

    def count_turn() -> None:
        nonlocal turns
        turns += 1
        run_once()

    async def noted(name: str, call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        came.append((name, turns))
        return await call(*given, **named)

    async with open_shop(tmp_path, poll="10s") as shop:
        await shop.serve("resize")
        await shop.post("1", "2", "3")
        (job,) = await shop.take()
        _, (job,) = await report_and_take(shop, job)
        for name in ("release_jobs", "claim_jobs"):
            monkeypatch.setattr(shop.daemon.store, name, partial(noted, name, getattr(shop.daemon.store, name)))
        monkeypatch.setattr(loop, "_run_once", count_turn, raising=False)
        await report_and_take(shop, job)
    (first, first_turn), (second, second_turn) = came
    assert (first, second, second_turn - first_turn) == ("release_jobs", "claim_jobs", 0)


async def test_at_its_cap_a_worker_gets_the_room_that_its_report_made(shop: Shop) -> None:
    await update_tenant(shop.service, "test", "acme", limits=TenantLimits(max_running=1))
    await shop.post("1", "2")
    await until(partial(is_left_to_workers, shop))
    (job,) = await shop.take()
    assert await shop.take() == []
    _, taken = await report_and_take(shop, job)
    assert payloads(taken) == ["2"]


async def test_near_its_cap_a_worker_gets_whole_batches(shop: Shop) -> None:
    """As it would with a report and a take one after the other."""
    limits = TenantLimits(max_running=10)
    await update_tenant(shop.service, "test", "acme", limits=limits)
    await shop.post(*map(str, range(24)))
    await until(partial(is_left_to_workers, shop))
    who, order = ACME._replace(limits=limits), NEXT._replace(limit=8)
    taken, sizes = await operations.take(shop.service, who, order), []
    while taken:
        sizes.append(len(taken))
        reports: list[Report | Verdict] = [Report(held(job), 200) for job in taken]
        _, taken = await operations.report_and_take(shop.service, who, reports, order)
    assert sizes == [8, 8, 8]


async def test_a_take_that_fails_leaves_the_verdicts(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    await shop.post("1")
    (job,) = await shop.take()
    monkeypatch.setattr("functory.workers.taker_line.MOST_TAKERS", 0)
    assert await report_and_take(shop, job) == (Answer.OK, [])
    assert (await shop.record(job.job.id)).state is JobState.ARCHIVED


async def test_nothing_is_taken_before_the_report_is_on_its_way(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tenant may have to wait until there is room for outcomes: no lease runs out meanwhile."""
    await shop.post("1", "2")
    (job,) = await shop.take()
    outbox = shop.daemon.workers._outbox
    room, go, waits = outbox.room, asyncio.Event(), asyncio.Event()

    async def full(tenant: str) -> None:
        waits.set()
        await go.wait()
        await room(tenant)

    monkeypatch.setattr(outbox, "room", full)
    asking = asyncio.create_task(report_and_take(shop, job))
    await waits.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert payloads(await shop.take()) == ["2"], "another worker may have it"
    go.set()
    assert await asking == (Answer.OK, [])


async def test_jobs_of_whose_lease_much_is_over_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    async with open_shop(tmp_path, clock) as shop:
        await shop.serve("resize")
        await shop.post("1", "2")
        (job,) = await shop.take()
        report, claimed = shop.daemon.workers.report, noted_claims(shop, monkeypatch)

        async def slow(tenant: str, reports: Sequence[Report], begun: Callable[[], None]) -> list[Verdict]:
            verdicts = await report(tenant, reports, begun)
            await claimed.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            clock.advance(4.0)
            return verdicts

        monkeypatch.setattr(shop.daemon.workers, "report", slow)
        answer, taken = await report_and_take(shop, job, NEXT._replace(lease_ms=10_000))
        assert answer is Answer.OK
        (second,) = taken
        assert (second.job.data, second.job.attempts) == (b"2", 1), "it was given back, and taken again"
        assert second.job.dt_ms - clock.now_ms() == 10_000, "with a whole lease"


async def test_reports_are_not_kept_while_the_next_jobs_are_waited_for(shop: Shop) -> None:
    await shop.post("1")
    (job,) = await shop.take()
    reports: list[Report | Verdict] = [Report(held(job), 200, b"x" * 100_000)]
    order = NEXT._replace(wait_s=30.0)
    asking = asyncio.create_task(operations.report_and_take(shop.service, ACME, reports, order))
    await until(waiting(shop, 1))

    async def are_gone() -> bool | None:
        return not reports or None

    await until(are_gone)
    assert not asking.done()
    await shop.post("2")
    await asking


async def test_who_waits_gets_what_comes_later(shop: Shop) -> None:
    await shop.post("1")
    (job,) = await shop.take()
    asking = asyncio.create_task(report_and_take(shop, job, NEXT._replace(wait_s=30.0)))
    await until(waiting(shop, 1))
    await shop.post("2")
    answer, taken = await asking
    assert (answer, payloads(taken)) == (Answer.OK, ["2"])


async def test_an_order_that_is_refused_leaves_the_report_to_be_sent_again(shop: Shop) -> None:
    await shop.post("1")
    (job,) = await shop.take()
    with pytest.raises(InvalidInput, match="wait_s"):
        await report_and_take(shop, job, NEXT._replace(wait_s=61.0))
    assert (await shop.record(job.job.id)).state is JobState.RUNNING
    assert await shop.report(job) is Answer.OK


async def test_a_report_that_fails_gives_back_what_was_taken_with_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.post("1", "2")
    (job,) = await shop.take()
    claimed = noted_claims(shop, monkeypatch)

    async def failing(_tenant: str, _reports: Sequence[Report], begun: Callable[[], None]) -> None:
        begun()
        await claimed.wait()
        await asyncio.sleep(0)
        raise StoreUnavailable("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(shop.daemon.workers, "report", failing)
        with pytest.raises(StoreUnavailable):
            await report_and_take(shop, job)
    assert shop.gauge("worker_jobs_held") == 1, "only the one that was not reported"
    (second,) = await shop.take()
    assert (second.job.data, second.job.attempts) == (b"2", 1), "as if it had never been taken"


async def test_one_who_leaves_while_more_is_taken_for_it_holds_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = TenantLimits(max_running=10)
    await update_tenant(shop.service, "test", "acme", limits=limits)
    await shop.post(*map(str, range(24)))
    await until(partial(is_left_to_workers, shop))
    who, order = ACME._replace(limits=limits), NEXT._replace(limit=8)
    taken = await operations.take(shop.service, who, order)
    take, again = shop.daemon.workers.take, asyncio.Event()

    async def some(order: Order) -> list[Taken]:
        if order.limit < 8:
            again.set()
            await asyncio.Event().wait()
        return await take(order._replace(limit=2))

    monkeypatch.setattr(shop.daemon.workers, "take", some)
    reports: list[Report | Verdict] = [Report(held(job), 200) for job in taken]
    asking = asyncio.create_task(operations.report_and_take(shop.service, who, reports, order))
    await again.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await shop.daemon.workers.empty()
    assert shop.gauge("worker_jobs_held") == 0


async def is_left_to_workers(shop: Shop) -> bool:
    """Whether the executor has seen that the type is not its own: until then, what it tries counts as running."""
    return "acme-resize" in shop.daemon.executor._outlook.unable and not shop.daemon.executor._slots
