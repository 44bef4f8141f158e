"""Batches of types with caps by key: smaller, and not in step, so that a key that is next does not wait long for a
slot."""

import asyncio
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Final

import pytest

from functory.execution.keyed_starts import KeyedStarts, for_keys
from handlers.model import Handler
from scheduler import Pick, SchedulerOptions
from scheduler.costs import Costs
from tests.support.clocks import FakeClock
from tests.support.virtual_time import run_in_virtual_time

PLAIN: Final = Handler("python", "pass")
CAPPED: Final = Handler("python", "pass", options={"max_per_key": 1})
TYPE: Final = "acme-a"
SLOTS: Final = 4
JOB_S: Final = 0.05
COMMIT_S: Final = 0.004
MANY: Final = 1000


def test_only_types_with_a_cap_by_key_have_smaller_batches() -> None:
    pick = Pick(TYPE, 40)
    assert for_keys(pick, PLAIN) is pick
    assert for_keys(pick, CAPPED) == Pick(TYPE, 10)
    assert for_keys(Pick(TYPE, 3), CAPPED) == Pick(TYPE, 1)


def costs_of(job_s: float) -> Costs:
    costs = Costs(SchedulerOptions(slots=SLOTS))
    costs.learn(TYPE, 1, job_s)
    return costs


class LoopClock(FakeClock):
    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()


def starts_of(lasts_s: Callable[[], float], handler: Handler, for_s: float = 20.0) -> list[float]:
    """When batches of one job started in `for_s` seconds, on slots that are always busy. Claims that come at about the
    same time share a commit."""

    async def story() -> list[float]:
        loop, costs, started = asyncio.get_running_loop(), costs_of(JOB_S), list[float]()
        keyed = KeyedStarts(LoopClock(), costs)
        until_s = loop.time() + for_s

        async def slot() -> None:
            while loop.time() < until_s:
                await keyed.prepare(Pick(TYPE, 1), handler, SLOTS, MANY)
                await asyncio.sleep(COMMIT_S - loop.time() % COMMIT_S)
                started.append(loop.time())
                took_s = lasts_s()
                await asyncio.sleep(took_s)
                costs.learn(TYPE, 1, took_s)

        async with asyncio.TaskGroup() as slots:
            for _ in range(SLOTS):
                slots.create_task(slot())
        return started

    return run_in_virtual_time(story())


def wait_s(starts: list[float]) -> float:
    """How long somebody who comes at any time waits for the next start, on average."""
    gaps = [later - sooner for sooner, later in pairwise(starts)]
    return sum(gap * gap for gap in gaps) / (2 * sum(gaps))


def test_slots_of_a_type_with_keys_come_free_one_after_the_other() -> None:
    in_step = starts_of(lambda: JOB_S, PLAIN)
    assert wait_s(in_step) > 0.45 * JOB_S, "left alone they fall into step"
    spread = starts_of(lambda: JOB_S, CAPPED)
    assert wait_s(spread) < 0.2 * JOB_S
    assert len(spread) > 0.97 * len(in_step), "and nothing is lost by it"


def test_jobs_that_take_any_time_lose_little() -> None:
    dice = random.Random(7)
    as_it_comes = starts_of(lambda: dice.expovariate(1 / JOB_S), PLAIN)
    dice = random.Random(7)
    spread = starts_of(lambda: dice.expovariate(1 / JOB_S), CAPPED)
    assert len(spread) > 0.93 * len(as_it_comes)


@pytest.mark.parametrize(
    ("handler", "waiting", "job_s", "delays"),
    [
        (CAPPED, MANY, JOB_S, [0.0, JOB_S / 4, JOB_S / 2, 3 * JOB_S / 4]),
        (CAPPED, MANY, 60.0, [0.0, 0.1, 0.2, 0.3]),
        (CAPPED, MANY, 0.02, [0.0] * 4),
        (CAPPED, 8 * SLOTS - 1, JOB_S, [0.0] * 4),
        (PLAIN, MANY, JOB_S, [0.0] * 4),
    ],
    ids=["spread", "long jobs not for long", "short jobs not", "a few jobs not", "without keys not"],
)
def test_who_waits_and_how_long(handler: Handler, waiting: int, job_s: float, delays: list[float]) -> None:
    async def story() -> list[float]:
        loop, began_s = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        keyed = KeyedStarts(LoopClock(), costs_of(job_s))

        async def one() -> float:
            await keyed.prepare(Pick(TYPE, 1), handler, SLOTS, waiting)
            return loop.time() - began_s

        return await asyncio.gather(*(one() for _ in range(SLOTS)))

    assert run_in_virtual_time(story()) == pytest.approx(delays)


def test_an_estimate_that_shrinks_leaves_nobody_waiting() -> None:
    costs, clock = costs_of(10.0), FakeClock()
    keyed = KeyedStarts(clock, costs)
    for _ in range(SLOTS):
        keyed.delay_s(Pick(TYPE, 1), SLOTS)
    for _ in range(50):
        costs.learn(TYPE, 1, JOB_S)
    assert keyed.delay_s(Pick(TYPE, 1), SLOTS) < JOB_S
