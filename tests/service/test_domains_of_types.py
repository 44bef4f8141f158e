"""A handler with a rate domain: its jobs that name none take its tokens, on a running daemon and with workers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.intake.job_options import PLAIN
from functory.operations.service import Service
from functory.operations.type_controls import delete_rate, set_rate
from functory.operations.why import why
from store.base import JobFilter, JobState
from tests.support.service import ended, register, running_daemon, until
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.workers import open_shop, payloads, waiting

NEVER_PER_S = 0.000001


@pytest.fixture(params=back_end_params())
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with BACK_ENDS[request.param](tmp_path) as store_url:
        yield store_url


@asynccontextmanager
async def limited(tmp_path: Path, url: str, burst: int) -> AsyncIterator[tuple[Daemon, Service]]:
    """A daemon on which so many jobs of the domain `api` may start."""
    async with running_daemon(tmp_path, store=url) as daemon:
        service = service_of(daemon)
        await set_rate(service, "test", "acme", "api", rate_per_s=NEVER_PER_S, burst=burst)
        yield daemon, service


async def post(daemon: Daemon, *lines: bytes, jobtype: str = "acme-mail") -> list[str]:
    return await daemon.intake.write(jobtype, list(lines), PLAIN)


async def has_stopped_at(daemon: Daemon, service: Service, done: int, left: int) -> None:
    """So many mails were sent, and the others wait for a token."""

    async def look() -> bool:
        await daemon.intake.flush()
        now_ms = daemon.clock.now_ms()
        over = await daemon.store.list_jobs("acme", JobFilter(JobState.ARCHIVED, "acme-mail"), now_ms=now_ms)
        there = await daemon.store.list_jobs("acme", JobFilter(JobState.WAITING, "acme-mail"), now_ms=now_ms)
        assert len(over.records) <= done
        if (len(over.records), len(there.records)) != (done, left):
            return False
        told = await why(service, "acme", there.records[0].job.id)
        return (told.reason, told.detail.get("domain")) == ("rate_domain", "api")

    await until(look)


async def test_jobs_wait_for_its_tokens_until_the_limit_is_lifted(tmp_path: Path, url: str) -> None:
    async with limited(tmp_path, url, burst=2) as (daemon, service):
        await register(daemon, "acme-mail", "return 'sent'", domain="api")
        for line in b"abcde":  # one by one: alone, each could start at once
            await post(daemon, bytes([line]))
            await daemon.intake.flush()
        await has_stopped_at(daemon, service, done=2, left=3)
        more = await post(daemon, b"f")
        await has_stopped_at(daemon, service, done=2, left=4)
        await delete_rate(service, "test", "acme", "api")
        await ended(daemon, more[0])


async def test_a_job_that_could_start_at_once_waits_for_a_token_like_the_others(tmp_path: Path, url: str) -> None:
    """Such a job would start before the store, which has the tokens, knows of it."""
    async with limited(tmp_path, url, burst=2) as (daemon, service):
        await register(daemon, "acme-mail", "return 'sent'", domain="api")
        for line in (b"1", b"2", b"3"):
            await until(partial(is_clear, daemon))
            (job_id,) = await post(daemon, line)
            if line != b"3":
                await ended(daemon, job_id)
        await has_stopped_at(daemon, service, done=2, left=1)


async def is_clear(daemon: Daemon) -> bool:
    """Whether a job of the type could start at once: of other types, it would."""
    return daemon.executor.is_clear("acme-mail")


async def test_jobs_that_handlers_make_have_it_too(tmp_path: Path, url: str) -> None:
    async with limited(tmp_path, url, burst=1) as (daemon, service):
        await register(daemon, "acme-order", "return payload", then="mail")
        await register(daemon, "acme-mail", "return 'sent'", domain="api")
        for job_id in await post(daemon, b"1", b"2", b"3", jobtype="acme-order"):
            await ended(daemon, job_id)
        await has_stopped_at(daemon, service, done=1, left=2)


async def test_a_version_without_it_sets_those_free_that_wait(tmp_path: Path, url: str) -> None:
    async with limited(tmp_path, url, burst=1) as (daemon, service):
        await register(daemon, "acme-mail", "return 'sent'", domain="api")
        job_ids = await post(daemon, b"1", b"2")
        await has_stopped_at(daemon, service, done=1, left=1)
        await register(daemon, "acme-mail", "return 'sent'")
        for job_id in job_ids:
            await ended(daemon, job_id)


async def test_workers_get_jobs_as_tokens_allow(tmp_path: Path, url: str) -> None:
    async with open_shop(tmp_path, store=url) as shop:
        await set_rate(shop.service, "test", "acme", "api", rate_per_s=NEVER_PER_S, burst=2)
        await shop.serve("resize", domain="api")
        await shop.post("1", "2", "3")
        assert payloads(await shop.take(limit=10)) == ["1", "2"]
        waiter = asyncio.create_task(shop.take(wait_s=30.0))
        await until(waiting(shop, 1))
        await delete_rate(shop.service, "test", "acme", "api")
        assert payloads(await waiter) == ["3"]
