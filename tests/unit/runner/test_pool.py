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
        self.is_closing = asyncio.Event()
        self.gate: asyncio.Event | None = None
        self.is_metered = True
        self.used_s = 0.0

    def cpu_s(self) -> float:
        return self.used_s

    def memory_bytes(self) -> int:
        return self.memory

    async def close(self) -> None:
        self.is_closing.set()
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

    def idle(self, names: str) -> list[str]:
        """Those of which a context is idle."""
        return [name for name in names if ContextKey("acme", name) in self.pool.idle_keys]


async def test_idle_contexts_are_reused_and_the_oldest_goes_first() -> None:
    bench = Bench(max_contexts=2)
    a, b = await bench.use("a"), await bench.use("b")
    assert await bench.use("a") is a
    c = await bench.use("c")
    assert (a.closed, b.closed, c.closed) == (False, True, False)
    assert bench.idle("abc") == ["a", "c"]
    await bench.pool.close()
    assert bench.alive == 0


async def test_a_context_that_broke_while_it_was_idle_is_not_lent() -> None:
    bench = Bench(max_contexts=2)
    first = await bench.use("a")
    first.usable = False
    second = await bench.use("a")
    assert second is not first
    await bench.pool.close()
    assert first.closed, "and its place is free again"


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


async def test_after_a_wait_for_a_place_the_next_finds_one_free() -> None:
    """To end a context takes time, in which a job would wait. Only for a moment: all places can be of use."""
    bench = Bench(max_contexts=64)
    for number in range(65):
        await bench.use(str(number))
    await asyncio.gather(*(context.is_closing.wait() for context in bench.made[:2]))
    for context in bench.made:
        context.gate = asyncio.Event()  # no place becomes free from here on
    async with asyncio.timeout(5):
        await bench.use("next")
    await bench.made[2].is_closing.wait()
    bench.now += 2
    await bench.use("64")
    await asyncio.sleep(0)
    assert sum(context.is_closing.is_set() for context in bench.made) == 3
    for context in bench.made[:65]:
        assert context.gate is not None
        context.gate.set()
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
        async with bench.pool.borrow(ContextKey("acme", "a"), fail, 400):
            pytest.fail("there is no context to use")
    assert bench.pool.gauges()["contexts"] == 0
    assert bench.pool._memory.taken_bytes == 0
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


async def test_who_retires_contexts_waits_for_those_alone() -> None:
    bench = Bench(max_contexts=2)
    mine, other = await bench.use("a"), await bench.use("b")
    mine.gate, other.gate = asyncio.Event(), asyncio.Event()
    others = asyncio.create_task(bench.pool.retire(lambda key: key.share == "b"))
    await other.is_closing.wait()
    await bench.pool.end(lambda key: key.tenant == "nobody")
    retired = asyncio.create_task(bench.pool.retire(lambda key: key.share == "a"))
    again = asyncio.create_task(bench.pool.retire(lambda key: key.share == "a"))
    await mine.is_closing.wait()
    assert not again.done(), "whoever has asked for it"
    mine.gate.set()
    await asyncio.gather(retired, again)
    assert (mine.closed, other.closed, others.done()) == (True, False, False)
    other.gate.set()
    await bench.pool.close()
    assert bench.alive == 0


async def test_the_sweep_does_not_wait_for_what_begins_meanwhile() -> None:
    bench = Bench(idle_s=30.0)
    first = await bench.use("a")
    first.gate = asyncio.Event()
    bench.now += 40
    async with bench.pool.borrow(ContextKey("acme", "b"), bench.start(), once=True) as later:
        later.gate = asyncio.Event()
        sweep = asyncio.create_task(bench.pool.sweep())
        await first.is_closing.wait()
    await later.is_closing.wait()
    first.gate.set()
    await sweep
    assert not later.closed
    later.gate.set()
    await bench.pool.close()
    assert bench.alive == 0


async def test_the_sweep_ends_what_nobody_uses() -> None:
    bench = Bench(idle_s=30.0, max_age_s=1000.0)
    await bench.use("a")
    bench.now += 20
    await bench.use("b")
    bench.now += 20
    await bench.pool.sweep()
    assert bench.idle("ab") == ["b"]
    await bench.pool.close()


@pytest.mark.timeout(30)
async def test_who_comes_in_the_moment_in_which_a_context_is_gone_waits_for_nothing() -> None:
    """On Python 3.12 and later the event loop was held for ever."""
    bench = Bench(max_contexts=2)
    context = await bench.use("a")
    context.gate = asyncio.Event()
    first = asyncio.create_task(bench.pool.retire(lambda _: True))
    await context.is_closing.wait()
    context.gate.set()
    second = asyncio.create_task(bench.pool.retire(lambda _: True))  # in the same turn, after the context
    await asyncio.gather(first, second)
    assert bench.alive == 0


async def test_memory_bounds_the_idle_ones() -> None:
    bench = Bench(max_memory_bytes=25)
    for name in "abc":
        await bench.use(name)
    await bench.pool.sweep()
    assert bench.idle("abc") == ["b", "c"]
    assert bench.pool.gauges()["memory_bytes"] == 20
    await bench.pool.close()


async def test_an_idle_context_that_works_or_grows_is_ended_and_what_it_used_is_told() -> None:
    bench = Bench()
    told: list[tuple[str, float]] = []
    bench.pool.when_burnt(lambda tenant, seconds: told.append((tenant, round(seconds, 3))))
    lazy, busy, fat = [await bench.use(name) for name in "abc"]
    await bench.pool.sweep()
    bench.now += 5
    lazy.used_s, busy.used_s, fat.memory = 0.05, 0.5, 100 << 20
    await bench.pool.sweep()
    assert (lazy.closed, busy.closed, fat.closed) == (False, True, True)
    lazy.used_s += 0.25
    assert await bench.use("a") is lazy
    assert sorted(told) == [("acme", 0.05), ("acme", 0.25), ("acme", 0.5)]
    await bench.pool.close()


async def test_contexts_in_use_never_have_limits_beyond_the_whole() -> None:
    """A tenant gets half; a quarter stays for those who have nothing and ask for little."""
    bench = Bench(max_memory_bytes=800)
    going, held = asyncio.Event(), list[str]()

    async def hold(tenant: str, size_bytes: int) -> None:
        async with bench.pool.borrow(ContextKey(tenant, str(len(held))), bench.start(), size_bytes):
            held.append(tenant)
            await going.wait()
            held.remove(tenant)

    tasks = []
    for tenant, size_bytes in [("a", 200), ("a", 200), ("a", 200), ("b", 300), ("c", 200), ("d", 100)]:
        tasks.append(asyncio.create_task(hold(tenant, size_bytes)))
        await asyncio.sleep(0.01)
    assert sorted(held) == ["a", "a", "c", "d"], "a has its half, b does not fit, c and d take what was kept"
    going.set()
    await asyncio.gather(*tasks)
    await bench.pool.close()
    assert bench.pool._memory.taken_bytes == 0


async def test_whoever_gives_up_waiting_for_memory_leaves_no_trace() -> None:
    bench = Bench(max_memory_bytes=800)
    key = ContextKey("a", "1")
    async with bench.pool.borrow(key, bench.start(), 400):
        waiting = asyncio.create_task(bench.pool.borrow(key, bench.start(), 400).__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert not bench.pool._memory._waiting
    async with asyncio.timeout(5), bench.pool.borrow(key, bench.start(), 400):
        pass
    await bench.pool.close()


async def test_idle_contexts_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each second, and there may be hundreds: a thread for each of them would cost more than they do."""
    bench = Bench()
    for name in "abcdef":
        await bench.use(name)
    await bench.pool.sweep()
    threads, to_thread = 0, asyncio.to_thread

    async def counted(call: Callable[[], object]) -> object:
        nonlocal threads
        threads += 1
        return await to_thread(call)

    monkeypatch.setattr(asyncio, "to_thread", counted)
    bench.made[2].used_s = bench.made[4].used_s = 100.0
    await bench.pool.sweep()
    assert threads == 1
    assert bench.idle("abcdef") == ["a", "b", "d", "f"], "each is judged by itself"


async def test_one_that_is_wanted_while_it_is_looked_at_stays() -> None:
    bench = Bench()
    await bench.use("a")
    bench.made[0].used_s = 100.0
    sweeping = asyncio.create_task(bench.pool.sweep())
    await asyncio.sleep(0)
    async with bench.pool.borrow(ContextKey("acme", "a"), bench.start()) as context:
        await sweeping
        assert not context.closed


async def test_one_that_was_used_while_it_was_looked_at_is_not_judged_by_that(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    context = await bench.use("a")
    await bench.pool.sweep()
    to_thread = asyncio.to_thread

    async def while_it_is_used(call: Callable[[], object]) -> object:
        context.used_s = 100.0
        found = await to_thread(call)
        monkeypatch.setattr(asyncio, "to_thread", to_thread)
        assert await bench.use("a") is context
        return found

    monkeypatch.setattr(asyncio, "to_thread", while_it_is_used)
    await bench.pool.sweep()
    assert not context.closed
