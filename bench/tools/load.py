"""Loads that several benches share: as much as a daemon can do, an even rate below that, and a flood."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Final

from bench.tools.connection import connect
from bench.tools.daemon import Service, posts

LINES: Final = 100
"""Of a POST of an even load: small and often."""
_DEBT_S: Final = 1.0
_TOP_UP_S: Final = 0.1


async def find_full_rate(service: Service, tenant: str, job_type: str, key: str, jobs: int) -> float:
    """Jobs a second from post to recorded outcome when all are posted at once; a first round warms up."""
    ended = int((await service.metrics()).get("job_endings_total ok", 0))
    rate = 0.0
    for count in (max(jobs // 10, 1), jobs):
        began_s = time.perf_counter()
        await service.post(posts(tenant, job_type, key, count))
        ended += count
        await service.until_ended(ended)
        rate = count / (time.perf_counter() - began_s)
    return rate


@asynccontextmanager
async def steady(service: Service, tenant: str, job_type: str, key: str, jobs_per_s: float) -> AsyncIterator[None]:
    """Jobs at an even rate for as long as the block runs. After a delay it catches up with at most one second of
    jobs: more at once would be another load."""

    async def load() -> None:
        post = posts(tenant, job_type, key, LINES, LINES)[0]
        async with connect(service.port) as connection:
            next_s = time.perf_counter()
            while True:
                await connection.exchange(post)
                next_s = max(next_s + LINES / jobs_per_s, time.perf_counter() - _DEBT_S)
                await asyncio.sleep(max(next_s - time.perf_counter(), 0))

    async with _meanwhile(load()):
        yield


@asynccontextmanager
async def flood(service: Service, tenant: str, job_type: str, key: str, backlog: int) -> AsyncIterator[None]:
    """Keeps about this number of jobs waiting, in journal and store together, for as long as the block runs."""

    async def load() -> None:
        while True:
            await service.post(posts(tenant, job_type, key, backlog - await waiting(service)))
            await asyncio.sleep(_TOP_UP_S)

    first = posts(tenant, job_type, key, backlog)
    lines = int((await service.metrics())["journal_lines_written_total"])
    await service.post(first)
    await service.until_stored(lines + backlog)
    async with _meanwhile(load()):
        yield


async def waiting(service: Service) -> int:
    """Jobs that have been accepted and not started."""
    found = await service.metrics()
    lag = found["journal_lines_written_total"] - found["journal_lines_read_total"]
    return int(found["jobs waiting"] + lag)


@asynccontextmanager
async def _meanwhile(load: Awaitable[None]) -> AsyncIterator[None]:
    """A load that fails also fails the block: figures without the load mean nothing."""
    task = asyncio.ensure_future(load)
    try:
        yield
        if task.done():
            await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
