"""A loud tenant and one with long jobs do not make a quiet one wait; equal tenants get equal shares.

Waits are compared with the quiet tenant's own on an idle daemon, and with the time that the loud tenant's queue takes:
a queue of first come, first served would make the quiet tenant wait for nearly all of it. No time stands for itself.
"""

import asyncio
import statistics
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from functory.client import Client
from tests.support.daemon_process import daemon, make_tenant
from tests.support.polling import until

pytestmark = pytest.mark.slow

FLOOD = 100_000
POSTERS = 4
NOOP = "return None"


async def test_a_quiet_tenant_beside_a_flood_and_long_jobs(tmp_path: Path) -> None:
    async with (
        daemon(tmp_path / "data", slots="4", grace="100ms") as server,
        await make_tenant(server, "quiet") as quiet,
        await make_tenant(server, "loud") as loud,
        await make_tenant(server, "slow") as slow,
    ):
        await quiet.put_handler("x", "python", NOOP)
        await loud.put_handler("x", "python", NOOP)
        await slow.put_handler("x", "python", "import time; time.sleep(600)", timeout_s=3000)
        idle_s = [await wait_of_one(quiet) for _ in range(30)]

        await slow.add_jobs("x", ["-"] * 10)
        began_s = time.monotonic()
        posters = [asyncio.create_task(post(loud, FLOOD // POSTERS)) for _ in range(POSTERS)]
        loaded_s = []
        while not all(poster.done() for poster in posters) or await waiting(loud):
            loaded_s.append(await wait_of_one(quiet))
        drained_s = time.monotonic() - began_s
        await asyncio.gather(*posters)

    assert len(loaded_s) >= 10, "the flood was over before it could disturb anybody: FLOOD is too small to tell"
    assert statistics.median(loaded_s) < 60 * statistics.median(idle_s)
    assert max(loaded_s) < drained_s / 2


async def test_equal_tenants_get_equal_shares(tmp_path: Path) -> None:
    """While all have work, what each got done is held against the others by Jain's index (1: equal)."""
    tenants, jobs = 12, 1500
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(daemon(tmp_path / "data", slots="4", grace="100ms"))
        clients = [await stack.enter_async_context(await make_tenant(server, f"t{n}")) for n in range(tenants)]
        await server.order("stop")
        for client in clients:
            await client.put_handler("x", "python", "import time; time.sleep(0.001)")
            await client.add_jobs("x", [str(n) for n in range(jobs)], ids="no", ack="store")
        await server.order("start")

        async def halfway() -> list[int]:
            done = [row.ok for client in clients for row in (await client.scoreboard()).types]
            return done if sum(done) > tenants * jobs / 2 else []

        done = await until(halfway)
    assert max(done) < jobs, "somebody was through before the others had half"
    assert sum(done) ** 2 / (tenants * sum(n * n for n in done)) > 0.8, done


async def wait_of_one(client: Client) -> float:
    """From the POST of a job to its outcome, as the tenant sees it."""
    began_s = time.perf_counter()
    (id_,) = (await client.add_jobs("x", ["-"])).ids or []
    job = await client.get_job(id_, wait_s=60)
    assert job.code == "ok", job
    return time.perf_counter() - began_s


async def post(client: Client, jobs: int) -> None:
    for _ in range(jobs // 1000):
        await client.add_jobs("x", [str(n) for n in range(1000)], ids="no")


async def waiting(client: Client) -> int:
    return sum(row.waiting for row in (await client.scoreboard()).types)
