"""`max_contexts_memory`: what all contexts together use stays below it, and a neighbour is not killed for it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from handlers.model import Handler
from runner.pool import PoolSettings
from runner.runner import Runner, RunnerSettings
from runner.sandbox.launcher import SandboxLauncher
from runner.sandbox.layers import Layer
from tests.support.engines import jobs, run
from tests.support.needs import missing

MIB = 1 << 20
WHOLE_BYTES = 256 * MIB
HOARD = "hoard = b'x' * 90_000_000\nimport time; time.sleep(0.3)"


@pytest.fixture
async def launcher(machine: frozenset[Layer]) -> AsyncIterator[SandboxLauncher]:
    if Layer.CGROUP not in machine:
        missing("cgroups", "only they bound the memory of all contexts together")
    made = SandboxLauncher(machine, memory_bytes=WHOLE_BYTES)
    await made.start()
    yield made
    await made.close()


async def most_used(launcher: SandboxLauncher, task: "asyncio.Future[Any]") -> int:
    most = 0
    while not task.done():
        assert launcher._cgroups is not None
        most = max(most, await asyncio.to_thread(launcher._cgroups.memory_bytes))
        await asyncio.sleep(0.01)
    return most


async def test_one_tenant_cannot_use_more_than_there_is(launcher: SandboxLauncher) -> None:
    runner = Runner(launcher, RunnerSettings(pool=PoolSettings(max_memory_bytes=WHOLE_BYTES)))
    try:
        handlers = [Handler("python", f"{HOARD}\nreturn {str(number)!r}") for number in range(8)]
        hostile = asyncio.gather(*(run(runner, each, jobs("a"), "mallory-x") for each in handlers))
        honest = asyncio.ensure_future(run(runner, Handler("python", "return 'fine'", memory_mb=64), jobs("b")))
        most = await most_used(launcher, asyncio.gather(hostile, honest))
        assert (await honest).results == [b'"fine"']
        assert [seen.exitcodes for seen in await hostile] == [[200]] * 8, "they took turns, and none was killed"
        assert most <= WHOLE_BYTES
    finally:
        await runner.close()


async def test_the_kernel_holds_the_bound_where_the_pool_does_not(launcher: SandboxLauncher) -> None:
    runner = Runner(launcher, RunnerSettings(pool=PoolSettings(max_memory_bytes=1 << 40)))
    try:
        handlers = [Handler("python", f"{HOARD}\nreturn {str(number)!r}") for number in range(6)]
        task = asyncio.gather(*(run(runner, each, jobs("a"), "mallory-x") for each in handlers))
        assert await most_used(launcher, task) <= WHOLE_BYTES
        codes = [code for seen in await task for code in seen.exitcodes]
        assert 507 in codes
    finally:
        await runner.close()


async def test_a_check_takes_a_seat_like_any_other(launcher: SandboxLauncher) -> None:
    pool = PoolSettings(max_contexts=2, max_memory_bytes=1 << 40)
    runner = Runner(launcher, RunnerSettings(pool=pool))
    try:
        checks = asyncio.gather(*(runner.check("acme-x", Handler("python", f"return {n}")) for n in range(8)))
        most = 0
        while not checks.done():
            most = max(most, runner.gauges()["contexts"])
            await asyncio.sleep(0.005)
        await checks
        assert 0 < most <= 2
    finally:
        await runner.close()
