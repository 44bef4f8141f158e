"""Who claims when the store says that a token comes: a burst of one gives its rate, and no rate keeps a loop busy."""

import asyncio
from types import SimpleNamespace
from typing import Any, Final

import pytest

from functory.execution.executor import Executor, ExecutorSettings
from functory.execution.tenant_book import TenantBook
from functory.loops.shared import make_shared
from functory.workers.claims import Claimed
from functory.workers.taker_line import TakerLine
from functory.workers.values import Order, Taken
from handlers.model import Handler
from scheduler import SchedulerOptions
from scheduler.claim_pause import LEAST_S
from scheduler.retry import RetryPolicy
from scheduler.table import make_policy
from store.base import ClaimedJobs, Job, WaitingType
from tests.support.rate_bucket import RateBucket
from tests.support.virtual_time import run_in_virtual_time

TYPE = "acme-mail"
JOB = Job("j1", TYPE, b"", 0, "a1", 1, 1, 500, 0, 0)
T0 = 1_800_000_000_000
SLOTS: Final = 4
LOOK_S: Final = 0.03
"""With very many types."""
CLAIM_S: Final = 0.0021
RUN_S: Final = 0.0013
SECONDS: Final = 4


class LoopClock:
    """The time of the loop, in whole milliseconds for the store."""

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()

    def now_ms(self) -> int:
        return T0 + int(self.monotonic_s() * 1000)


class LimitedStore:
    """Jobs of one type without end, and a limit on all of them."""

    def __init__(self, clock: LoopClock, rate_per_s: float) -> None:
        self._clock = clock
        self._bucket = RateBucket(rate_per_s, 1, T0)
        self.jobs = 0
        self.claims = 0
        self.meanwhile: Any = lambda: None
        """What happens while a claim is under way."""

    async def get_waiting_jobtypes(self, *, now_ms: int, runnable: bool) -> list[WaitingType]:
        assert runnable
        await asyncio.sleep(LOOK_S)
        return [WaitingType(TYPE, 100_000, now_ms, 1)]

    async def claim_jobs(self, jobtype: str, limit: int, *, now_ms: int, **_: Any) -> ClaimedJobs:
        assert jobtype == TYPE
        self.claims += 1
        count = self._bucket.take(now_ms, limit)
        self.jobs += count
        await asyncio.sleep(CLAIM_S)
        self.meanwhile()
        return ClaimedJobs([JOB] * count, self._bucket.next_ms(now_ms) if count < limit else None)


def make_executor(store: Any, clock: LoopClock) -> Executor:
    """One that runs nothing, and takes a moment for it."""

    async def handler_of(*_: Any) -> Handler:
        return Handler("python", "")

    async def run(*_: Any) -> float:
        await asyncio.sleep(RUN_S)
        return RUN_S

    async def room(_: str) -> None:
        pass

    runner: Any = SimpleNamespace(warm_jobtypes=frozenset, can_run=lambda *_: True)
    outbox: Any = SimpleNamespace(room=room)
    unused: Any = None
    straight: Any = SimpleNamespace(
        catch_up=lambda *_: None, waiting=list, count=lambda _: 0, start=lambda *_: ([], 0), showing=None
    )
    settings = ExecutorSettings(lease_s=60, poll_s=1.0, retry=RetryPolicy(), languages=frozenset({"python"}))
    policy = make_policy("deficit", SchedulerOptions(slots=SLOTS), lambda: 0.5)
    execute = Executor(make_shared(store, unused, clock, "a1"), runner, policy, outbox, TenantBook(store), settings)
    execute.use(straight)
    execute.handlers = SimpleNamespace(get=handler_of)  # type: ignore[assignment]  # a fake
    execute._batches = SimpleNamespace(run=run)  # type: ignore[assignment]  # a fake
    return execute


def run_executor(rate_per_s: float, seconds: float = SECONDS) -> LimitedStore:
    async def story() -> LimitedStore:
        clock = LoopClock()
        store = LimitedStore(clock, rate_per_s)
        running = asyncio.create_task(make_executor(store, clock).run())
        await asyncio.sleep(seconds)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return store

    return run_in_virtual_time(story())


@pytest.mark.parametrize("rate_per_s", [1, 5, 20, 33, 50, 100])
def test_the_executor_takes_each_token_when_it_comes(rate_per_s: int) -> None:
    store = run_executor(rate_per_s)
    assert 0.99 * rate_per_s * SECONDS <= store.jobs <= rate_per_s * SECONDS + 1
    assert store.claims <= (SLOTS + 1) * (store.jobs + SECONDS), "those of one moment, and one each second to make sure"


@pytest.mark.parametrize("interval_s", [12.5, 22.2, 59.5])
def test_tokens_that_come_slowly_are_taken_when_they_come(interval_s: float) -> None:
    seconds = 10 * interval_s + 0.5
    assert run_executor(1 / interval_s, seconds).jobs == 11
    assert run_workers(LimitedClaims(1 / interval_s), seconds=seconds) == 11


def test_no_rate_makes_the_executor_claim_without_a_pause() -> None:
    store = run_executor(1_000_000)
    assert store.jobs >= 100 * SECONDS
    assert store.claims <= SLOTS * SECONDS / LEAST_S


def test_jobs_that_come_while_a_claim_is_under_way_do_not_wait_for_its_token() -> None:
    """They may have another rate domain, or none."""

    async def story() -> int:
        clock = LoopClock()
        store = LimitedStore(clock, 0.001)
        execute = make_executor(store, clock)
        store.meanwhile = lambda: execute.added([TYPE])
        running = asyncio.create_task(execute.run())
        await asyncio.sleep(0.5)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return store.claims

    assert run_in_virtual_time(story()) > 2 * SLOTS


class LimitedClaims:
    """The same for a line of workers."""

    def __init__(self, rate_per_s: float, *, is_told: bool = True) -> None:
        self._clock = LoopClock()
        self._bucket = RateBucket(rate_per_s, 1, T0)
        self._is_told = is_told
        self.claims = 0

    async def claim(self, jobtype: str, version: int, order: Order, limit: int) -> Claimed:
        self.claims += 1
        now_ms = self._clock.now_ms()
        count = self._bucket.take(now_ms, limit)
        await asyncio.sleep(CLAIM_S)
        token_s = None
        if self._is_told and count < limit:
            token_s = (self._bucket.next_ms(now_ms) - self._clock.now_ms()) / 1000
        return Claimed([Taken(JOB, 1000)] * count, may_have_more=count > 0, token_s=token_s)

    def assign(self, jobs: list[Taken], worker: str) -> None:
        pass


def run_workers(claims: Any, workers: int = 1, seconds: float = SECONDS) -> int:
    """How many jobs workers get that each ask for one after the other."""

    async def story() -> int:
        async def kinds(_: str) -> dict[str, int]:
            return {TYPE: 1}

        types: Any = SimpleNamespace(of=kinds)
        line = TakerLine("acme", claims, types)
        line.set_listed({TYPE: 500})
        loop = asyncio.get_running_loop()
        end_s = loop.time() + seconds

        async def work() -> int:
            jobs = 0
            while loop.time() < end_s:
                jobs += len(await line.take(Order("acme", ("mail",), wait_s=end_s - loop.time())))
                await asyncio.sleep(RUN_S)
            return jobs

        return sum(await asyncio.gather(*(work() for _ in range(workers))))

    return run_in_virtual_time(story())


@pytest.mark.parametrize("rate_per_s", [1, 5, 20, 33, 50, 100])
def test_workers_get_each_token_when_it_comes(rate_per_s: int) -> None:
    claims = LimitedClaims(rate_per_s)
    assert 0.99 * rate_per_s * SECONDS <= (jobs := run_workers(claims)) <= rate_per_s * SECONDS + 1
    assert claims.claims <= 2 * (jobs + SECONDS)


def test_no_rate_makes_a_line_claim_without_a_pause() -> None:
    claims = LimitedClaims(1_000_000)
    assert run_workers(claims, workers=8) >= 100 * SECONDS
    assert claims.claims <= SECONDS / LEAST_S


def test_where_the_store_does_not_know_a_line_guesses() -> None:
    assert run_workers(LimitedClaims(20, is_told=False)) >= 0.7 * 20 * SECONDS
