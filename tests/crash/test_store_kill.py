"""SIGKILL of processes that add, claim and release, at random times: nothing acknowledged is lost.

The workers say on their standard output what the store acknowledged; after the kill the store is opened
again and must have all of it, every job in one state, and counters that agree with the jobs.
"""

import asyncio
import contextlib
import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.base import JobState, Store
from store.errors import StoreUnavailable
from store.url import open_store
from store.values.scoreboard import HOUR_MS
from tests.support.polling import until
from tests.support.store_audit import check_counters
from tests.support.store_worker import NOW_MS
from tests.support.stores import BACK_ENDS

ROUNDS = 4
WORKERS = 2


class Worker:
    """A worker process and what it was told by the store."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.added: set[str] = set()
        self.archived: set[str] = set()
        self.claimed: dict[str, int] = {}
        self.lines = 0
        self.enough = asyncio.Event()

    @classmethod
    async def start(cls, url: str, name: str, seed: int, what: str) -> "Worker":
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.support.store_worker", url, name, str(seed), what,
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        return cls(process)

    async def listen(self, enough_lines: int) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            if not line.endswith(b"\n"):
                break  # cut by the kill: it may or may not have been acknowledged
            word, *items = line.decode().split()
            if word == "added":
                self.added.update(items)
            elif word == "archived":
                self.archived.update(items)
            elif word == "claimed":
                for item in items:
                    token, _, job_id = item.partition(":")
                    assert self.claimed.get(job_id, 0) < int(token), "a token must grow with every delivery"
                    self.claimed[job_id] = int(token)
            self.lines += 1
            if self.lines >= enough_lines:
                self.enough.set()
        self.enough.set()


@pytest.fixture(params=BACK_ENDS)
async def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with BACK_ENDS[request.param](tmp_path) as url:
        yield url


async def expired(store: Store) -> int:
    """As a daemon does it: tried again when the server could not do it now. A killed client's transaction may still be
    in its way."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(StoreUnavailable):
                return await store.expire_locks(now_ms=NOW_MS + HOUR_MS)


async def audit(store: Store) -> dict[str, JobState]:
    """The states of all jobs, after another daemon has done, an hour later, what the dead left undone.

    Asked again while it does not come out: a server may still be at the last command of a client that was killed.
    """
    wrong: AssertionError | None = None

    async def found() -> dict[str, JobState] | None:
        nonlocal wrong
        try:
            return await _audit(store)
        except AssertionError as error:
            wrong = error
            return None

    try:
        return await until(found, timeout_s=60) or {}
    except TimeoutError:
        raise wrong or AssertionError("no audit came to an end") from None


async def _audit(store: Store) -> dict[str, JobState]:
    while await expired(store):
        pass
    states: dict[str, JobState] = {}
    for tenant in ("acme", "zeta"):
        jobs = await check_counters(store, tenant, NOW_MS)
        states |= {job_id: record.state for job_id, record in jobs.items()}
        for job_id, record in list(jobs.items())[:50]:
            whole = await store.get_job(tenant, job_id, now_ms=NOW_MS)
            assert whole is not None
            assert len(whole.job.data) == record.data_bytes
            if whole.state == JobState.ARCHIVED:
                assert whole.outcome is not None
                assert whole.outcome.result is not None
                assert set(whole.outcome.result.split(job_id.encode())) == {b""}
    return states


@pytest.mark.slow
async def test_killed_processes_lose_nothing_that_was_acknowledged(store_url: str) -> None:
    dice = random.Random(20261114)
    added: set[str] = set()
    archived: set[str] = set()
    for number in range(ROUNDS):
        workers = [await Worker.start(store_url, f"w{n}", number * WORKERS + n, "work") for n in range(WORKERS)]
        enough = dice.randrange(5, 60)
        listening = [asyncio.create_task(worker.listen(enough)) for worker in workers]
        for worker in workers:
            await worker.enough.wait()
        for worker in workers:
            assert worker.process.returncode is None, "the worker ended by itself"
            worker.process.kill()
        await asyncio.gather(*listening)
        for worker in workers:
            await worker.process.wait()
            added |= worker.added
            archived |= worker.archived
        async with open_store(store_url) as store:
            states = await audit(store)
        assert added <= states.keys()
        assert {states[job_id] for job_id in archived} <= {JobState.ARCHIVED}
    assert len(archived) > 100


@pytest.mark.slow
async def test_two_processes_get_no_job_twice(store_url: str) -> None:
    worker = await Worker.start(store_url, "fill", 1, "work")
    listening = asyncio.create_task(worker.listen(60))
    await worker.enough.wait()
    worker.process.kill()
    await listening
    await worker.process.wait()
    async with open_store(store_url) as store:
        before = await audit(store)
    drains = [await Worker.start(store_url, f"d{n}", n, "drain") for n in range(2)]
    await asyncio.gather(*(drain.listen(1_000_000) for drain in drains))
    for drain in drains:
        assert await drain.process.wait() == 0
    one, two = (drain.claimed.keys() for drain in drains)
    assert not one & two
    waiting = {job_id for job_id, state in before.items() if state == JobState.WAITING}
    assert one | two == waiting
    assert drains[0].archived | drains[1].archived == waiting
    async with open_store(store_url) as store:
        after = await store.get_counters(None, now_ms=NOW_MS)
    assert sum(row.waiting for row in after) == 0
