"""A pipeline of two consumers on two daemons, while daemons are killed and stood still, most often the one that leads.

At the end both stages have done every index, progress is at the head, and stage two has exactly one job for each index
of stage one. 1,000 indexes and 3 faults on SQLite; `make storm` makes them 100,000 and 30, on both stores.
FUNCTORY_STORM_SEED chooses which.
"""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from functory.client import Client, ClientError, ServerUnreachable
from store.url import open_store
from tests.support.daemon_process import DaemonProcess, daemon, make_key
from tests.support.polling import until
from tests.support.stores import BACK_ENDS

SEED = int(os.environ.get("FUNCTORY_STORM_SEED", "20261116"))
FAULTS = int(os.environ.get("FUNCTORY_CONSUMER_FAULTS", "3"))
INDEXES = int(os.environ.get("FUNCTORY_CONSUMER_INDEXES", "1000"))
STORES = ("sqlite", "mongodb") if "FUNCTORY_CONSUMER_FAULTS" in os.environ else ("sqlite",)
LEASE_S: Final = 2.0
_BATCH: Final = 500
_PATIENCE_S: Final = 480
"""On MongoDB what a process had begun when it was killed is finished by others after five minutes."""
_STAGES: Final = ("first", "second")
_TROUBLE: Final = (ClientError, ServerUnreachable, TimeoutError)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 60 * FAULTS)]


class Deployment:
    """Two daemons on one store. A daemon that was killed is started again in its folder."""

    def __init__(self, folder: Path, store_url: str) -> None:
        self.folder = folder
        self.store_url = store_url
        self.key = ""
        self._running: dict[str, tuple[AsyncExitStack, DaemonProcess]] = {}

    async def start(self, name: str) -> DaemonProcess:
        stack = AsyncExitStack()
        settings = {"store": self.store_url, "lease": f"{LEASE_S}s", "poll": "100ms"}
        process = await stack.enter_async_context(daemon(self.folder / name, settings))
        self._running[name] = (stack, process)
        return process

    async def kill(self, name: str) -> None:
        stack, process = self._running.pop(name)
        await process.kill()
        await stack.aclose()
        await self.start(name)

    async def stand_still(self, name: str) -> None:
        """For longer than a lease: others take over, and what it says when it goes on comes too late."""
        process = self._running[name][1]
        process.send(signal.SIGSTOP)
        await asyncio.sleep(1.5 * LEASE_S)
        process.send(signal.SIGCONT)

    async def close(self) -> None:
        for stack, _ in self._running.values():
            await stack.aclose()

    @asynccontextmanager
    async def client(self, name: str) -> AsyncIterator[Client]:
        async with Client(self._running[name][1].url, self.key, "acme") as found:
            yield found

    @property
    def names(self) -> Sequence[str]:
        return list(self._running)

    async def leader(self) -> str:
        """The name of a daemon that leads a consumer."""
        for name, (_, process) in self._running.items():
            if await process.metric("consumers_led"):
                return name
        return self.names[0]


async def post_all(deployment: Deployment) -> None:
    """Every payload once, through any daemon, whatever happens to it."""
    dice = random.Random(SEED)
    for start in range(0, INDEXES, _BATCH):
        payloads = [f"{number}" for number in range(start, min(start + _BATCH, INDEXES))]
        while True:
            try:
                async with deployment.client(dice.choice(deployment.names)) as client:
                    await client.add_jobs("first", payloads, idempotency_key=f"from {start}")
                break
            except (*_TROUBLE, KeyError, IndexError):
                await asyncio.sleep(0.1)


async def cause_trouble(deployment: Deployment) -> None:
    dice = random.Random(SEED)
    for fault in range(FAULTS):
        await asyncio.sleep(dice.uniform(0.2, 1.5))
        try:
            name = await deployment.leader() if dice.random() < 0.6 else dice.choice(deployment.names)
        except (OSError, AssertionError):
            name = dice.choice(deployment.names)
        await (deployment.stand_still(name) if fault % 3 == 2 else deployment.kill(name))


async def progress(deployment: Deployment) -> dict[str, tuple[int, int]]:
    async with open_store(deployment.store_url) as store:
        states = {stage: await store.get_index_state("acme", f"acme-{stage}") for stage in _STAGES}
    return {stage: (state.head, state.processed) for stage, state in states.items()}


@pytest.fixture(params=STORES)
async def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with BACK_ENDS[request.param](tmp_path) as url:
        yield url


async def test_no_index_is_lost_and_none_is_emitted_twice(tmp_path: Path, store_url: str) -> None:
    deployment = Deployment(tmp_path, store_url)
    try:
        first = await deployment.start("a")
        deployment.key = await make_key(first, "acme")
        await deployment.start("b")
        async with deployment.client("a") as client:
            await client.put_handler("first", lang="python", body="ctx.enqueue('second', payload)\nreturn payload")
            await client.put_handler("second", lang="python", body="return payload")
            limits = {"max_processing": 200, "max_search_ahead": 1000}
            await client.put_consumer("first", "first", next="second", max_lag=5000, **limits)
            await client.put_consumer("second", "second", **limits)
        async with asyncio.TaskGroup() as storm:
            storm.create_task(post_all(deployment))
            storm.create_task(cause_trouble(deployment))

        async def is_over() -> bool:
            return set((await progress(deployment)).values()) == {(INDEXES, INDEXES)}

        try:
            await until(is_over, timeout_s=_PATIENCE_S + INDEXES / 50)
        except TimeoutError as error:
            error.add_note(f"{await progress(deployment)}; FUNCTORY_STORM_SEED={SEED} chooses the same faults")
            raise
    finally:
        await deployment.close()
    await check_content(deployment)


async def check_content(deployment: Deployment) -> None:
    expected = Counter(f"{number}".encode() for number in range(INDEXES))
    async with open_store(deployment.store_url) as store:
        for stage in _STAGES:
            found: Counter[bytes] = Counter()
            for seq in range(1, INDEXES + 1):
                record = await store.get_job_at("acme", f"acme-{stage}", seq, now_ms=0)
                assert record is not None, f"{stage}: number {seq} is a hole"
                assert record.outcome is not None
                assert record.outcome.code == "ok", f"{stage}: progress passed number {seq}"
                found[record.job.data] += 1
            assert found == expected, stage
