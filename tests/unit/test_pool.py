"""The pool's own rules, with contexts that are only counted."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from runner.pool import ContextKey, Pool, PoolSettings


class Fake:
    """A context that remembers whether it was closed; `gate` holds its closing up."""

    def __init__(self, clock: Callable[[], float], memory: int = 10) -> None:
        self.usable = True
        self.jobs_run = 0
        self.slots = 1
        self.started_at = clock()
        self.memory = memory
        self.closed = False
        self.gate: asyncio.Event | None = None

    def memory_bytes(self) -> int:
        return self.memory

    async def close(self) -> None:
        if self.gate is not None:
            await self.gate.wait()
        self.closed = True
        self.usable = False


class Bench:
    """A pool, a clock that is moved by hand, and every context that was made."""

    def __init__(self, **settings: float) -> None:
        self.now = 100.0
        self.made: list[Fake] = []
        self.pool: Pool[Fake] = Pool(PoolSettings(**settings), clock=lambda: self.now)  # type: ignore[arg-type]

    def start(self) -> Callable[[], Awaitable[Fake]]:
        async def make() -> Fake:
            self.made.append(Fake(lambda: self.now))
            return self.made[-1]

        return make

    async def use(self, name: str) -> Fake:
        async with self.pool.borrow(ContextKey("acme", name), self.start()) as context:
            assert isinstance(context, Fake)
            return context

    @property
    def alive(self) -> int:
        return sum(not context.closed for context in self.made)


async def test_idle_contexts_are_reused_and_the_oldest_goes_first() -> None:
    bench = Bench(max_contexts=2)
    a, b = await bench.use("a"), await bench.use("b")
    assert await bench.use("a") is a
    c = await bench.use("c")
    assert (a.closed, b.closed, c.closed) == (False, True, False)
    assert bench.pool.warm() == {ContextKey("acme", "a"), ContextKey("acme", "c")}
    await bench.pool.close()
    assert bench.alive == 0


async def test_a_place_is_free_only_when_the_context_is_really_gone() -> None:
    bench = Bench(max_contexts=1)
    first = await bench.use("a")
    first.gate = asyncio.Event()
    second = asyncio.create_task(bench.use("b"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not second.done()
    assert bench.pool.gauges()["contexts"] == 1
    first.gate.set()
    await second
    assert bench.alive == 1
    await bench.pool.close()


async def test_waiting_for_a_place_is_in_turn_and_can_be_given_up() -> None:
    bench = Bench(max_contexts=1)
    release = asyncio.Event()
    order: list[str] = []

    async def hold(name: str) -> None:
        async with bench.pool.borrow(ContextKey("acme", name), bench.start()):
            order.append(name)
            await release.wait()

    tasks = [asyncio.create_task(hold(name)) for name in "abcd"]
    for _ in range(3):
        await asyncio.sleep(0)
    tasks[1].cancel()
    release.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[1], asyncio.CancelledError)
    assert order == ["a", "c", "d"]
    await bench.pool.close()
    assert bench.alive == 0


async def test_a_start_that_fails_gives_its_place_back() -> None:
    bench = Bench(max_contexts=1)

    async def fail() -> Fake:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        async with bench.pool.borrow(ContextKey("acme", "a"), fail):
            pytest.fail("there is no context to use")
    assert bench.pool.gauges()["contexts"] == 0
    await bench.use("a")
    await bench.pool.close()


async def test_recycling_by_jobs_age_slots_and_health() -> None:
    bench = Bench(max_jobs=5, max_age_s=60.0, max_slots=3)
    for spoil in ("jobs_run", "slots", "usable"):
        async with bench.pool.borrow(ContextKey("acme", "a"), bench.start()) as context:
            setattr(context, spoil, 5 if spoil != "usable" else False)
        assert bench.pool.gauges()["idle"] == 0, spoil
    await bench.use("a")
    bench.now += 61
    await bench.use("a")
    assert bench.pool.gauges()["idle"] == 0
    await bench.pool.close()


async def test_the_sweep_ends_what_nobody_uses() -> None:
    bench = Bench(idle_s=30.0, max_age_s=1000.0)
    await bench.use("a")
    bench.now += 20
    await bench.use("b")
    bench.now += 20
    await bench.pool.sweep()
    assert bench.pool.warm() == {ContextKey("acme", "b")}
    await bench.pool.close()


async def test_memory_bounds_the_idle_ones() -> None:
    bench = Bench(max_memory_bytes=25)
    for name in "abc":
        await bench.use(name)
    await bench.pool.sweep()
    assert bench.pool.warm() == {ContextKey("acme", "b"), ContextKey("acme", "c")}
    assert bench.pool.gauges()["memory_bytes"] == 20
    await bench.pool.close()


async def test_prewarming_does_not_push_out_what_is_in_use() -> None:
    bench = Bench(max_contexts=1)
    async with bench.pool.borrow(ContextKey("acme", "a"), bench.start()):
        assert not await bench.pool.prewarm(ContextKey("acme", "b"), bench.start())
    assert await bench.pool.prewarm(ContextKey("acme", "b"), bench.start())
    assert await bench.pool.prewarm(ContextKey("acme", "b"), bench.start())
    assert len(bench.made) == 2
    await bench.pool.close()
    assert not await bench.pool.prewarm(ContextKey("acme", "b"), bench.start())
