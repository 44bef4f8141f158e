"""A worker reports what it has done and takes the next jobs with the same request."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from functory.errors import InvalidInput
from functory.operations import workers as operations
from functory.operations.tenants import update_tenant
from functory.wire.admin import TenantLimits
from functory.workers.values import Answer, Order, Report, Taken
from store.base import JobState
from store.errors import StoreUnavailable
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


async def test_the_next_job_comes_with_the_verdict(shop: Shop) -> None:
    await shop.post("1", "2")
    (job,) = await shop.take()
    answer, taken = await report_and_take(shop, job)
    assert (answer, payloads(taken)) == (Answer.OK, ["2"])
    assert (await shop.record(job.job.id)).state is JobState.ARCHIVED


async def test_at_its_cap_a_worker_gets_the_room_that_its_report_made(shop: Shop) -> None:
    await update_tenant(shop.service, "test", "acme", limits=TenantLimits(max_running=1))
    await shop.post("1", "2")
    (job,) = await shop.take()
    assert await shop.take() == []
    _, taken = await report_and_take(shop, job)
    assert payloads(taken) == ["2"]


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
    claim, claimed = shop.daemon.store.claim_jobs, asyncio.Event()

    async def noted(*given: Any, **named: Any) -> Any:
        try:
            return await claim(*given, **named)
        finally:
            claimed.set()

    async def failing(*_: Any) -> None:
        await claimed.wait()
        await asyncio.sleep(0)
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(shop.daemon.store, "claim_jobs", noted)
    with monkeypatch.context() as patch:
        patch.setattr(shop.daemon.workers, "report", failing)
        with pytest.raises(StoreUnavailable):
            await report_and_take(shop, job)
    assert shop.gauge("worker_jobs_held") == 1, "only the one that was not reported"
    (second,) = await shop.take()
    assert (second.job.data, second.job.attempts) == (b"2", 1), "as if it had never been taken"
