"""When the store is looked at for work: at once for news, a moment later when a slot or an outcome is all there is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from functory.execution.executor import Executor, ExecutorSettings
from functory.execution.tenant_book import TenantBook
from functory.loops.shared import make_shared
from handlers.model import Handler
from scheduler import Pick
from scheduler.retry import RetryPolicy
from tests.support.clocks import FakeClock
from tests.support.virtual_time import run_in_virtual_time

LOOK_S = 0.001
POLL_S = 3600.0
HANDLER = Handler("python", "pass")


class EmptyStore:
    """Takes a moment to say that nothing waits."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.looks: asyncio.Queue[float] = asyncio.Queue()

    async def get_waiting_jobtypes(self, *, now_ms: int, runnable: bool) -> list[Any]:
        assert runnable, "types without a handler are nobody's business here"
        self._clock.advance(LOOK_S)
        self.looks.put_nowait(self._clock.monotonic_s())
        return []


class LoopClock(FakeClock):
    """The time of the loop, and what the looks took."""

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time() + self.elapsed_s


@asynccontextmanager
async def idle(clock: FakeClock, poll_s: float = POLL_S) -> AsyncIterator[tuple[Executor, asyncio.Queue[float]]]:
    """One that has looked once, and found nothing."""
    store: Any = EmptyStore(clock)
    runner: Any = SimpleNamespace(warm_jobtypes=frozenset)
    policy: Any = SimpleNamespace(
        has_room=True, set_waiting=lambda _: None, select_jobtype_to_run=lambda _: None, costs=None
    )
    unused: Any = None
    shared = make_shared(store, unused, clock, "a1")
    settings = ExecutorSettings(lease_s=60, poll_s=poll_s, retry=RetryPolicy(), languages=frozenset({"python"}))
    straight: Any = SimpleNamespace(catch_up=lambda *_: None, waiting=list, leaves_nothing_to_do=lambda _: False)
    execute = Executor(shared, runner, policy, unused, TenantBook(store), settings)
    execute.use(straight)
    task = asyncio.create_task(execute.run())
    async with asyncio.timeout(10):
        await store.looks.get()
        await turns()
        yield execute, store.looks
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def turns() -> None:
    """Let the executor's loop come to rest."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_news_are_looked_at_at_once() -> None:
    async with idle(FakeClock()) as (execute, looks):
        execute.wake()
        await looks.get()
        await turns()
        execute.added(["acme-x"])
        await looks.get()


async def test_an_outcome_is_no_news_but_is_looked_at_a_moment_later() -> None:
    clock = FakeClock()
    async with idle(clock) as (execute, looks):
        for _ in range(3):
            execute.released([])
            await turns()
        assert looks.empty()
        clock.advance(10 * LOOK_S)
        await looks.get()
        await turns()
        assert looks.empty(), "one look for all of them"


async def test_nothing_is_claimed_that_was_picked_before_a_pause() -> None:
    async with idle(FakeClock()) as (execute, _):
        execute.set_paused(paused=True)
        assert await execute._claim(Pick("acme-x", 1), HANDLER, 0, 0) == []  # the store here would know no claim
        execute.set_paused(paused=False)
        await execute.stop(0.0)
        assert await execute._claim(Pick("acme-x", 1), HANDLER, 0, 0) == []


def test_what_wakes_the_loop_all_the_time_does_not_put_off_the_next_look() -> None:
    async def story() -> list[float]:
        async with idle(LoopClock(), poll_s=1.0) as (execute, looks):
            execute.wake()
            while looks.qsize() < 4:
                await asyncio.sleep(0.3)
                execute.note_long_batches()
            return [looks.get_nowait() for _ in range(4)]

    looked_s = run_in_virtual_time(story())
    assert max(after - before for before, after in pairwise(looked_s)) <= 1.0 + LOOK_S
