"""The MongoDB server is killed and started again, several times, while daemons work on it.

What was acknowledged is there afterwards; every failure was StoreUnavailable; the same store objects work on
without being opened again; and the counters are exact, though calls were interrupted everywhere.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import TypeVar

import pytest

from store.base import Code, JobFilter, JobState, Store
from store.errors import StoreUnavailable
from store.mongo import MongoStore
from tests.support.jobs import JOBTYPE, T0, TENANT, archive, new_job
from tests.support.mongo_server import MongoServer, find_server
from tests.support.needs import missing

pytestmark = pytest.mark.slow

T = TypeVar("T")
KILLS = 3
WORKERS = 3
BATCH = 50
LEASE_MS = 10**9
LATER = T0 + 2 * LEASE_MS


@pytest.fixture
def server() -> Iterator[MongoServer]:
    """A server of this test's own, since it is going to be killed."""
    own = find_server()
    if not own.can_be_killed:
        missing("a MongoDB server that may be killed", "unset FUNCTORY_TEST_MONGODB_URL and run `make mongo`")
    try:
        own.start()
        yield own
    finally:
        own.close()


@pytest.fixture
async def stores(server: MongoServer) -> AsyncIterator[list[Store]]:
    url = f"{server.url.rstrip('/')}/killed?serverSelectionTimeoutMS=500"
    opened: list[Store] = [MongoStore(url), MongoStore(url)]
    for store in opened:
        await store.open()
    yield opened
    for store in opened:
        await store.close()


class Load:
    """Daemons that add, claim and release until they are told to stop, and note what was acknowledged."""

    def __init__(self, stores: list[Store]) -> None:
        self._stores = stores
        self._next = 0
        self._stopped = asyncio.Event()
        self.added: set[str] = set()
        self.ended: set[str] = set()
        self.handed_out: dict[tuple[str, int], str] = {}
        self.failures = 0
        self.progress = asyncio.Condition()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                store = self._stores[number % len(self._stores)]
                group.create_task(self._add(store))
                group.create_task(self._work(store, f"w{number}"))

    def stop(self) -> None:
        self._stopped.set()

    async def wait_for_progress(self, running: "asyncio.Task[None]") -> None:
        """Until a good part more has been added and ended than now, or the load has failed."""
        goal = (len(self.added) + 3 * BATCH, len(self.ended) + 3 * BATCH)
        async with self.progress:
            await self.progress.wait_for(
                lambda: running.done() or (len(self.added) >= goal[0] and len(self.ended) >= goal[1])
            )
        if running.done():
            await running  # raises what ended it

    async def wait_for_failure(self, running: "asyncio.Task[None]") -> None:
        """Until the load has noticed that the server is gone: a quick restart is bridged by the store itself."""
        before = self.failures
        async with self.progress:
            await self.progress.wait_for(lambda: running.done() or self.failures > before)

    async def _add(self, store: Store) -> None:
        while not self._stopped.is_set():
            jobs = [new_job(number) for number in range(self._next, self._next + BATCH)]
            self._next += BATCH
            # As the ingest does: the same jobs again until it is known that they are in.
            while await self._tried(partial(store.add_jobs, jobs, now_ms=T0)) is None:
                if self._stopped.is_set():
                    return
            self.added |= {job.id for job in jobs}
            await self.noted()

    async def _work(self, store: Store, owner: str) -> None:
        while not self._stopped.is_set():
            jobs = await self._tried(
                lambda: store.claim_jobs(JOBTYPE, BATCH, owner=owner, lease_ms=LEASE_MS, now_ms=T0)
            )
            if not jobs:
                await asyncio.sleep(0)
                continue
            for job in jobs:
                assert self.handed_out.setdefault((job.id, job.token), owner) == owner, "handed out twice"
            releases = [archive(job) for job in jobs]
            report = await self._tried(partial(store.release_jobs, owner, releases, now_ms=T0))
            if report is not None:
                assert report.stale == ()
                self.ended |= {job.id for job in jobs}
                await self.noted()

    async def _tried(self, call: Callable[[], Awaitable[T]]) -> T | None:
        try:
            return await call()
        except StoreUnavailable:  # anything else ends the test
            self.failures += 1
            await self.noted()
            return None

    async def noted(self) -> None:
        async with self.progress:
            self.progress.notify_all()


async def test_nothing_acknowledged_is_lost_and_the_stores_work_on(server: MongoServer, stores: list[Store]) -> None:
    load = Load(stores)
    running = asyncio.create_task(load.run())
    running.add_done_callback(lambda _: asyncio.ensure_future(load.noted()))
    for kill in range(KILLS):
        await load.wait_for_progress(running)
        await asyncio.to_thread(server.kill)
        if kill % 2 == 0:
            await load.wait_for_failure(running)
        await asyncio.to_thread(server.start)
    await load.wait_for_progress(running)
    load.stop()
    await running

    for store in stores:
        await store.expire_locks(now_ms=T0)
    first = stores[0]
    states: dict[str, JobState] = {}
    for start in range(0, len(load.added), 5000):
        some = sorted(load.added)[start : start + 5000]
        states |= await first.get_states(TENANT, some, now_ms=T0)
    assert states.keys() == load.added
    assert {states[job_id] for job_id in load.ended & load.added} == {JobState.ARCHIVED}
    await check_counters(first)

    # What was claimed in vain lapses, and can be run by others.
    while await first.expire_locks(now_ms=LATER):
        pass
    while jobs := await first.claim_jobs(JOBTYPE, 1000, owner="w9", lease_ms=1000, now_ms=LATER):
        await first.release_jobs("w9", [archive(job) for job in jobs], now_ms=LATER)
    (row,) = await first.get_counters(TENANT, now_ms=LATER)
    assert (row.waiting, row.deferred, row.running, row.blocked) == (0, 0, 0, 0)
    assert row.ok == (await first.get_usage(TENANT)).jobs


async def check_counters(store: Store) -> None:
    """Ensures: the counters are what a count of the jobs gives."""
    counts = {}
    for state in JobState:
        where = JobFilter(state, codes=frozenset({Code.OK}) if state == JobState.ARCHIVED else None)
        counts[state] = 0
        cursor = None
        while True:
            page = await store.list_jobs(TENANT, where, now_ms=T0, cursor=cursor, limit=1000)
            counts[state] += len(page.records)
            cursor = page.cursor
            if cursor is None:
                break
    (row,) = await store.get_counters(TENANT, now_ms=T0)
    assert (row.waiting, row.running, row.ok) == (
        counts[JobState.WAITING],
        counts[JobState.RUNNING],
        counts[JobState.ARCHIVED],
    )
    assert (await store.get_usage(TENANT)).jobs == sum(counts.values())
