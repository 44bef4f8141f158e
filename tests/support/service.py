"""A daemon inside the test's own event loop, on real parts, with nothing in front of it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

from functory.config import load_config
from functory.daemon.daemon import Daemon
from store.base import JobFilter, JobRecord, JobState, NewHandler
from store.errors import StoreUnavailable
from vocabulary.clock import Clock

T = TypeVar("T")

UNCONFINED = {"min_isolation": "L0", "all_tenants_trusted": "true"}
"""Without a sandbox: these tests are about the service, and start in no time."""
QUICK = {"poll": "50ms", "retry_base": "10ms", "retry_max": "20ms", "log_jobs": "false", **UNCONFINED}


@asynccontextmanager
async def running_daemon(data_dir: Path, clock: Clock | None = None, **settings: str) -> AsyncIterator[Daemon]:
    config = load_config({"data_dir": str(data_dir), **QUICK, **settings}, {})
    daemon = Daemon(config.settings, clock=clock)
    await daemon.open()
    task = asyncio.create_task(daemon.run())
    try:
        yield daemon
    finally:
        daemon.quit()
        await task


async def register(daemon: Daemon, jobtype: str, body: str, lang: str = "python", **fields: object) -> None:
    document = json.dumps({"lang": lang, "body": body, **fields}).encode()
    tenant = jobtype.partition("-")[0]
    await daemon.store.set_handler(tenant, NewHandler(jobtype, lang, document, daemon.clock.now_ms()))
    daemon.types_changed(tenant)


async def ended(daemon: Daemon, job_id: str, tenant: str = "acme") -> JobRecord:
    """The job's record once it has ended."""
    async with asyncio.timeout(30):
        while True:
            with suppress(StoreUnavailable):
                await daemon.intake.flush()
            record = await daemon.store.get_job(tenant, job_id, now_ms=daemon.clock.now_ms())
            if record is not None and record.state == JobState.ARCHIVED:
                return record
            await daemon.waiters.wait(job_id, 1.0)


async def until(look: Callable[[], Awaitable[T | None]]) -> T:
    """What `look` answers once that is something."""
    async with asyncio.timeout(30):
        while not (seen := await look()):  # noqa: ASYNC110 (several parts may bring it about: no one event)
            await asyncio.sleep(0)
    return seen


async def payloads_waiting(daemon: Daemon, jobtype: str) -> list[bytes]:
    """Of the jobs of a type that nobody runs, those in the journal with them."""
    await daemon.intake.flush()
    now_ms, tenant = daemon.clock.now_ms(), jobtype.partition("-")[0]
    page = await daemon.store.list_jobs(tenant, JobFilter(JobState.WAITING, jobtype), now_ms=now_ms)
    records = [await daemon.store.get_job(tenant, record.job.id, now_ms=now_ms) for record in page.records]
    return [record.job.data for record in records if record is not None]
