"""Clients post while daemons are killed, stopped and stood still; what they were told is held against the store."""

import asyncio
import random
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from functory.client import Client, ClientError, ServerUnreachable
from tests.support.daemon_process import DaemonProcess, daemon, make_key
from tests.support.history import Ended, History
from tests.support.polling import until

pytestmark = pytest.mark.slow

BLOWS = 6
SAMPLE = 50
SEED = 20261115
HANDLER = """
if hash(payload) % 7 == 0 and ctx.attempt == 1: return ctx.retry(after_s=0.01)
return payload
"""


class Ring:
    """Two daemons of one store, of which one at a time is struck and replaced on the same data directory."""

    def __init__(self, tmp_path: Path) -> None:
        self._tmp_path = tmp_path
        self._settings = {"store": f"sqlite:///{tmp_path}/shared.db", "lease": "1s", "journal_segment": "64KiB"}
        self._stacks: dict[str, AsyncExitStack] = {}
        self.daemons: dict[str, DaemonProcess] = {}

    async def start(self, name: str) -> None:
        stack = AsyncExitStack()
        self.daemons[name] = await stack.enter_async_context(daemon(self._tmp_path / name, self._settings))
        self._stacks[name] = stack

    async def strike(self, name: str, blow: str) -> None:
        struck = self.daemons.pop(name)
        if blow == "freeze":
            struck.send(signal.SIGSTOP)
            await asyncio.sleep(1.5)  # longer than a lease: the time is what is tested
            struck.send(signal.SIGCONT)
            self.daemons[name] = struck
            return
        if blow == "kill":
            await struck.kill()
        else:
            assert await struck.stop() == 0
        await self._stacks.pop(name).aclose()
        await self.start(name)

    async def close(self) -> None:
        for stack in self._stacks.values():
            await stack.aclose()


async def test_lost_0_unexpected_0(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    ring, history = Ring(tmp_path), History()
    try:
        await ring.start("a")
        await ring.start("b")
        key = await make_key(ring.daemons["a"], "acme")
        async with Client(ring.daemons["a"].url, key, "acme") as acme:
            await acme.put_handler("x", "python", HANDLER)
        is_over = asyncio.Event()
        posters = [asyncio.create_task(post(ring, key, history, n, is_over)) for n in range(4)]
        for blow in ["kill", "freeze", "stop"] * (BLOWS // 3):
            await progress(history, 200)
            await ring.strike(dice.choice(["a", "b"]), blow)
        await progress(history, 200)
        is_over.set()
        await asyncio.gather(*posters)
        assert [one.status for one in ring.daemons.values()] == [None, None]
        async with Client(ring.daemons["b"].url, key, "acme") as acme:
            await until(lambda: all_ended(acme))
            verdict = history.verdict(await ended(acme, history))
            row = next(row for row in (await acme.scoreboard()).types if row.type == "x")
        assert (len(verdict.lost), len(verdict.unexpected), len(verdict.doubled)) == (0, 0, 0), verdict
        assert row.ok == len(history.acknowledged) + verdict.recovered, "an outcome was recorded twice, or not counted"
        assert row.failed + row.abandoned + row.cancelled == 0
    finally:
        await ring.close()


async def post(ring: Ring, key: str, history: History, number: int, is_over: asyncio.Event) -> None:
    """One client: it posts to whoever is there, and never sends the same job twice."""
    count = 0
    while not is_over.is_set():
        alive = list(ring.daemons.values())
        target = alive[count % len(alive)]
        payloads = [f"{number}.{count}.{n}" for n in range(10)]
        count += 1
        history.submit(payloads)
        try:
            async with Client(target.url, key, "acme", timeout_s=10) as acme:
                added = await acme.add_jobs("x", payloads)
        except (ClientError, ServerUnreachable):
            continue
        history.acknowledge(added.ids or [], payloads)
        await asyncio.sleep(0.02)  # a client that thinks: the storm is about blows, not about load


async def progress(history: History, count: int) -> None:
    """Until so many more were acknowledged: the storm is paced by work done, not by a clock."""
    goal = len(history.acknowledged) + count

    async def is_reached() -> bool:
        return len(history.acknowledged) >= goal

    await until(is_reached)


async def all_ended(client: Client) -> bool:
    return not any(row.waiting + row.deferred + row.running for row in (await client.scoreboard()).types)


async def ended(client: Client, history: History) -> list[Ended]:
    """Everything that the store has as ended.

    A listing is without payloads. They are asked for where nobody was told the id, and of every so manieth other.
    """
    ids: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await client.results(type="x", limit=1000, cursor=cursor or None)
        ids += [job.id for job in page.jobs]
        cursor = page.cursor
    rows = []
    for n, id_ in enumerate(ids):
        payload = history.acknowledged.get(id_) if n % SAMPLE else None
        rows.append(Ended(id_, payload or (await client.get_job(id_)).payload or ""))
    return rows
