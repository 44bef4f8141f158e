"""Deferred jobs start when they are due. The poll of these daemons is an hour: nothing else would find them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from functory.daemon.daemon import Daemon
from functory.intake.job_options import PLAIN
from tests.support.service import ended, register, running_daemon, until
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.two_daemons import two_daemons
from tests.support.workers import open_shop, waiting

HOUR: Final = "1h"
TWICE: Final = "if ctx.attempt == 1:\n    ctx.retry(after_s=0.1)"


@pytest.fixture(params=back_end_params())
async def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with BACK_ENDS[request.param](tmp_path) as url:
        yield url


async def delayed(daemon: Daemon, delay_ms: int, type_name: str = "x") -> str:
    options = PLAIN._replace(dt_ms=daemon.clock.now_ms() + delay_ms)
    (job_id,) = await daemon.intake.write(f"acme-{type_name}", [b"1"], options)
    return job_id


async def test_each_of_several_jobs_starts_when_it_is_due(tmp_path: Path, store_url: str) -> None:
    """Some are closer together than the store is asked."""
    async with running_daemon(tmp_path, store=store_url, poll=HOUR, lease="10m") as daemon:
        await register(daemon, "acme-x", "return payload")
        job_ids = [await delayed(daemon, delay_ms) for delay_ms in (700, 200, 210, 220, 260)]
        for job_id in job_ids:
            await ended(daemon, job_id)


@pytest.mark.parametrize("straight", ["on", "off"])
async def test_a_job_is_tried_again_when_its_time_has_come(tmp_path: Path, store_url: str, straight: str) -> None:
    async with running_daemon(tmp_path, store=store_url, poll=HOUR, lease="10m", straight=straight) as daemon:
        await register(daemon, "acme-x", TWICE)
        (job_id,) = await daemon.intake.write("acme-x", [b"1"])
        assert (await ended(daemon, job_id)).job.attempts == 2


@pytest.mark.parametrize("how", ["", ", unique='u'", ", child=True"])
async def test_a_job_that_another_made_for_later_starts_then(tmp_path: Path, store_url: str, how: str) -> None:
    async with running_daemon(tmp_path, store=store_url, poll=HOUR, lease="10m") as daemon:
        made = tmp_path / "made"
        await register(daemon, "acme-y", f"import pathlib\npathlib.Path({str(made)!r}).touch()")
        await register(daemon, "acme-x", f"if not ctx.children: ctx.enqueue('y', 'p', delay_s=0.2{how})")
        await daemon.intake.write("acme-x", [b"1"])
        await until(lambda: asyncio.to_thread(made.exists))


async def test_a_worker_that_waits_gets_it_when_it_is_due(tmp_path: Path, store_url: str) -> None:
    async with open_shop(tmp_path, store=store_url, poll=HOUR, lease="10m") as shop:
        await shop.serve("resize")
        take = asyncio.create_task(shop.take(wait_s=30.0))
        await until(waiting(shop, 1))
        job_id = await delayed(shop.daemon, 200, "resize")
        assert [taken.job.id for taken in await take] == [job_id]


async def test_it_starts_on_another_daemon(tmp_path: Path, store_url: str) -> None:
    async with two_daemons(tmp_path, store_url, poll=HOUR) as (a, b):
        await register(a, "acme-x", "return payload")
        await ended(a, await delayed(a, 200))
        assert b.executor.claimed == 1
