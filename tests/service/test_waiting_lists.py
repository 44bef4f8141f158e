"""What different workers of a tenant wait for at once, and what stands before the job that one of them gets."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from functory.errors import QuotaExceeded
from functory.workers import taker_line
from store.base import Code
from tests.support.clocks import FakeClock
from tests.support.service import until
from tests.support.workers import Shop, open_shop, payloads, waiting


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def shop(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path, clock) as opened:
        yield opened


async def test_more_types_than_lists_of_patterns_are_waited_for(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taker_line, "MOST_GROUPS", 2)
    monkeypatch.setattr(taker_line, "MOST_PLAIN", 4)
    names = [f"type{number}" for number in range(4)]
    await shop.serve(*names, "other")
    takers = [asyncio.create_task(shop.take(name, wait_s=60.0)) for name in (*names, "p*", "q*")]
    await until(waiting(shop, 6))
    with pytest.raises(QuotaExceeded, match="4 different lists of types"):
        await shop.take("other", wait_s=60.0)
    with pytest.raises(QuotaExceeded, match="2 different lists of patterns"):
        await shop.take("o*", wait_s=60.0)
    await shop.post("1", type_name="other")
    assert payloads(await shop.take("o*")) == ["1"], "who does not wait stands in nobody's way"
    await shop.post("2", type_name="type3")
    assert payloads(await takers[3]) == ["2"]
    for taker in takers:
        taker.cancel()


async def test_jobs_whose_attempts_are_used_up_do_not_hide_the_next(shop: Shop, clock: FakeClock) -> None:
    await shop.serve("resize", options={"max_attempts": 1})
    lost = await shop.post(*"12345678")
    assert len(await shop.take(limit=8, lease_ms=1000)) == 8
    clock.advance(2)
    await shop.daemon.store.expire_locks(now_ms=clock.now_ms())
    await shop.post("good")
    assert payloads(await shop.take()) == ["good"]
    assert [(await shop.end(job_id)).code for job_id in lost] == [Code.ABANDONED] * 8
