"""Caps by key while processes that run the jobs are killed: no two of a key overlap while their leases hold.

Workers say what they hold, and only while they hold it. A job of a killed worker counts until its lease has lapsed.
"""

import asyncio
import contextlib
import random
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.base import NewJob
from store.url import open_store
from tests.support.key_worker import CAPS, now_ms
from tests.support.stores import BACK_ENDS

pytestmark = pytest.mark.slow

WORKERS = 2
KILLS = 3
KEYS = 5
JOBS = 25


@pytest.fixture(params=BACK_ENDS)
async def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with BACK_ENDS[request.param](tmp_path) as url:
        yield url


class Log:
    """What all workers said, and how often a cap was broken."""

    def __init__(self) -> None:
        self.lines: list[list[str]] = []
        self.ended: set[str] = set()
        self.news = asyncio.Event()

    async def listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            if line.endswith(b"\n"):
                words = line.decode().split()
                self.lines.append(words)
                if words[0] == "end":
                    self.ended.add(words[1])
                self.news.set()

    async def until(self, lines: int) -> None:
        """More of them."""
        wanted = len(self.lines) + lines
        while len(self.lines) < wanted:
            self.news.clear()
            await self.news.wait()

    def overlaps(self) -> list[str]:
        ends = {(words[1], words[2]): int(words[3]) for words in self.lines if words[0] == "end"}
        held: defaultdict[tuple[str, str], list[tuple[int, int, str]]] = defaultdict(list)
        for words in self.lines:
            if words[0] == "start":
                _, jobtype, key, job_id, token, at_ms, until_ms = words
                end_ms = min(ends.get((job_id, token), int(until_ms)), int(until_ms))
                held[jobtype, key].append((int(at_ms), end_ms, job_id))
        found = []
        for (jobtype, key), spans in held.items():
            for began_ms, _, mine in spans:
                others = [
                    other for since_ms, till_ms, other in spans if since_ms <= began_ms < till_ms and other != mine
                ]
                if len(others) >= CAPS[jobtype]:
                    found.append(f"{jobtype} {key} {mine}: {others}")
        return found


async def start(url: str, seed: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.key_worker", url, f"w{seed}", str(seed), stdout=asyncio.subprocess.PIPE
    )


async def test_no_two_jobs_of_a_key_overlap_while_their_leases_hold(store_url: str) -> None:
    began_ms = now_ms()
    jobs = [
        NewJob(f"{jobtype[5:]}-{n:05d}", jobtype, b"x", began_ms, began_ms, key=f"key{n % KEYS}")
        for jobtype in CAPS
        for n in range(JOBS)
    ]
    async with open_store(store_url) as store:
        await store.add_jobs(jobs, now_ms=began_ms)
    log, dice = Log(), random.Random(5)
    processes = [await start(store_url, seed) for seed in range(WORKERS)]
    listeners = [asyncio.create_task(log.listen(process)) for process in processes]
    try:
        async with asyncio.timeout(120):
            for kill in range(KILLS):
                await log.until(12)
                victim = dice.randrange(WORKERS)
                processes[victim].kill()
                await processes[victim].wait()
                processes[victim] = await start(store_url, WORKERS + kill)
                listeners.append(asyncio.create_task(log.listen(processes[victim])))
            while len(log.ended) < len(jobs):
                await log.until(1)
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        await asyncio.gather(*listeners)
    assert log.overlaps() == []
    for key in {job.key for job in jobs}:
        begun = [words[3] for words in log.lines if words[0] == "start" and words[1:3] == ["acme-one", key]]
        assert begun == sorted(begun), "with a cap of one they begin in order"
