"""Contexts: reused, one tenant and one version for life, shared by eid, recycled, evicted, warmed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from handlers.model import Handler
from runner.launch import Launcher
from runner.limits import ContextLimits
from runner.pool import PoolSettings
from runner.runner import Runner, RunnerSettings
from tests.support.engines import handler, jobs, languages, run

pytestmark = pytest.mark.asyncio(loop_scope="module")

ME = Handler("python", "return me", before="import uuid; me = str(uuid.uuid4())")


@asynccontextmanager
async def pooled(launcher: Launcher, **pool: float) -> AsyncIterator[Runner]:
    """A runner with pool settings of its own on the suite's launcher, which outlives it."""
    limits = replace(ContextLimits(), kill_grace_s=0.2)
    settings = PoolSettings(**pool)  # type: ignore[arg-type]  # names and numbers, checked by the dataclass
    runner = Runner(launcher, RunnerSettings(limits=limits, pool=settings))
    try:
        yield runner
    finally:
        await runner._pool.close()
        await runner._http.close()


async def identity(runner: Runner, made: Handler, jobtype: str = "acme-test") -> bytes:
    seen = await run(runner, made, jobs("x"), jobtype)
    assert seen.exitcodes == [200], seen.results
    return seen.results[0]


async def test_a_context_is_reused(launcher: Launcher) -> None:
    async with pooled(launcher) as runner:
        assert await identity(runner, ME) == await identity(runner, ME)
        assert runner.gauges()["contexts"] == 1


async def test_tenants_and_versions_never_share(launcher: Launcher) -> None:
    async with pooled(launcher) as runner:
        other = replace(ME, timeout_s=59.0)
        seen = [
            await identity(runner, ME),
            await identity(runner, other),
            await identity(runner, ME, "evil-test"),
        ]
        assert len(set(seen)) == 3


async def test_handlers_with_one_eid_share_within_a_tenant(launcher: Launcher) -> None:
    async with pooled(launcher) as runner:
        one, two = replace(ME, eid="shared"), replace(ME, eid="shared", body="return me  # two")
        assert await identity(runner, one) == await identity(runner, two, "acme-other")
        assert await identity(runner, one) != await identity(runner, one, "evil-test")
        assert await identity(runner, one) != await identity(runner, replace(two, env={"A": "1"}), "acme-other")


@pytest.mark.parametrize("lang", languages())
async def test_any_timeout_ends_the_context_and_the_next_batch_gets_a_new_one(launcher: Launcher, lang: str) -> None:
    async with pooled(launcher) as runner:
        made = handler(lang, "spin_at_2", timeout_s=0.4)
        assert (await run(runner, made, jobs("1", "2"))).exitcodes == [200, 504]
        assert (await run(runner, made, jobs("1"))).exitcodes == [200]


async def test_a_context_in_which_a_handler_did_not_load_is_not_used_again(launcher: Launcher) -> None:
    async with pooled(launcher) as runner:
        broken = replace(ME, before="attempts = globals().get('attempts', 0) + 1; raise ValueError(attempts)")
        for _ in range(2):
            seen = await run(runner, broken, jobs("x"))
            assert b"ValueError: 1" in seen.results[0]
        assert runner.gauges()["idle"] == 0


async def test_a_language_that_is_not_on_the_machine_is_an_error_of_the_batch(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    async with pooled(launcher) as runner:
        seen = await run(runner, Handler("node", "() => 1"), jobs("a", "b"))
        assert seen.exitcodes == [503, 503]
        assert b"node is not installed on this machine" in seen.results[0]


async def test_recycled_after_so_many_jobs(launcher: Launcher) -> None:
    async with pooled(launcher, max_jobs=3) as runner:
        first = await identity(runner, ME)
        await run(runner, ME, jobs("a", "b"))
        assert await identity(runner, ME) != first


async def test_recycled_after_so_long(launcher: Launcher) -> None:
    async with pooled(launcher, max_age_s=0.0) as runner:
        assert await identity(runner, ME) != await identity(runner, ME)


async def test_the_least_recently_used_makes_room(launcher: Launcher) -> None:
    async with pooled(launcher, max_contexts=2) as runner:
        types = [(replace(ME, timeout_s=10.0 + number), f"acme-t{number}") for number in range(3)]
        first, second = [await identity(runner, *types[0]), await identity(runner, *types[1])]
        assert await identity(runner, *types[0]) == first
        await identity(runner, *types[2])
        assert runner.warm_jobtypes() == {"acme-t0", "acme-t2"}
        assert await identity(runner, *types[0]) == first
        assert await identity(runner, *types[1]) != second


async def test_never_more_contexts_than_allowed_and_everybody_gets_a_turn(launcher: Launcher) -> None:
    async with pooled(launcher, max_contexts=2) as runner:
        most = 0

        async def one(number: int) -> list[int]:
            nonlocal most
            made = replace(ME, timeout_s=10.0 + number)
            seen = await run(runner, made, jobs("x"), f"acme-t{number}")
            most = max(most, runner.gauges()["contexts"])
            return seen.exitcodes

        assert await asyncio.gather(*map(one, range(6))) == [[200]] * 6
        assert most <= 2


async def test_batches_of_one_type_run_side_by_side(launcher: Launcher) -> None:
    async with pooled(launcher) as runner:
        made = replace(ME, body="import time; time.sleep(0.2); return me")
        seen = await asyncio.gather(identity(runner, made), identity(runner, made))
        assert len(set(seen)) == 2


async def test_a_handler_that_is_gone_takes_its_idle_contexts_with_it(launcher: Launcher) -> None:
    async with pooled(launcher) as runner:
        first = await identity(runner, ME)
        await runner.retire("acme-test", ME)
        assert runner.gauges()["contexts"] == 0
        assert await identity(runner, ME) != first


async def test_memory_is_bounded(launcher: Launcher) -> None:
    """Idle contexts together: three that hoard 40 MB each are too many for 128. One alone may have half of that."""
    async with pooled(launcher, max_memory_bytes=128 << 20) as runner:
        for number in range(3):
            await identity(runner, replace(ME, before=f"me = '{number}'; hoard = b'x' * (40 << 20)"))
        await runner.sweep()
        assert runner.gauges()["idle"] < 3
