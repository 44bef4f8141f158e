"""A daemon that stops: nobody waits any longer, and nothing is left in nobody's hands."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from functory.errors import NotReadyYet
from functory.operations import jobs
from store.base import JobState
from tests.support.workers import open_shop


async def test_what_is_claimed_while_the_daemon_stops_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker has its answer by then: nothing."""
    claiming, may_claim, has_claimed = asyncio.Event(), asyncio.Event(), asyncio.Event()
    async with open_shop(tmp_path, poll="10s") as shop:
        await shop.serve("resize")
        (job_id,) = await shop.post("1")
        claim = shop.daemon.store.claim_jobs

        async def slow_claim(*given: Any, **named: Any) -> Any:
            claiming.set()
            await may_claim.wait()
            found = await claim(*given, **named)
            has_claimed.set()
            return found

        monkeypatch.setattr(shop.daemon.store, "claim_jobs", slow_claim)
        taking = asyncio.create_task(shop.take(wait_s=30))
        await claiming.wait()
        shop.daemon.workers.stop()
        assert await taking == []
        emptying = asyncio.create_task(shop.daemon.workers.empty())
        await asyncio.sleep(0)
        may_claim.set()
        await emptying
        assert has_claimed.is_set()
        record = await shop.record(job_id)
        assert (record.state, record.job.attempts) == (JobState.WAITING, 0)


async def test_who_waits_for_a_job_that_may_be_on_its_way_elsewhere_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = asyncio.Event()

    async def not_yet(*_: Any, **__: Any) -> Any:
        looked.set()
        raise NotReadyYet("it may be on its way")

    async with open_shop(tmp_path) as shop:
        monkeypatch.setattr(jobs, "get_job", not_yet)
        waiting = asyncio.create_task(jobs.wait_for_job(shop.service, "acme", "19700101T000000Z-a9-1", 3600))
        await looked.wait()
        shop.daemon.waiters.close()
        with pytest.raises(NotReadyYet):
            await waiting
