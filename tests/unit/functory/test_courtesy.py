"""Steps are cut short, and followed by a rest, while another tenant is here that has little to do, and only then."""

import asyncio

import pytest

from functory.courtesy import FEW, LONGEST_REST_S, REST, SHORT_STEP, Courtesy, Pace
from tests.support.clocks import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_who_is_alone_takes_long_steps(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    assert courtesy.step("busy", 500) == 500
    courtesy.seen("busy", 1)
    assert courtesy.step("busy", 500) == 500, "its own few jobs are no reason"


def test_beside_somebody_with_little_to_do_steps_are_short_for_a_moment(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    courtesy.seen("quiet", 1)
    courtesy.seen("busy", 3)
    assert courtesy.step("busy", 500) == SHORT_STEP
    assert courtesy.step("busy", 7) == 7
    clock.advance(0.9)
    courtesy.seen("quiet", FEW)
    clock.advance(0.9)
    assert courtesy.step("busy", 500) == SHORT_STEP
    clock.advance(0.2)
    assert courtesy.step("busy", 500) == 500


def test_two_that_have_much_to_do_take_long_steps(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    courtesy.seen("busy", FEW + 1)
    assert courtesy.step("other", 500) == 500


def test_many_tenants_are_not_remembered_for_ever(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    for number in range(5000):
        courtesy.seen(f"t{number}", 1)
    assert len(courtesy._seen) <= 1000
    assert courtesy.step("t4999", 500) == SHORT_STEP


class Rests:
    """A pace whose rests are noted and take no time but the clock's."""

    def __init__(self, clock: FakeClock) -> None:
        self.courtesy = Courtesy(clock)
        self.courtesy.seen("quiet", 1)
        self.slept_s: list[float] = []
        self.pace = Pace(self.courtesy, clock, self._sleep)
        self._clock = clock

    async def _sleep(self, rest_s: float) -> None:
        self.slept_s.append(rest_s)
        self._clock.advance(rest_s)

    async def step(self, tenant: str, jobs: int, took_s: float) -> None:
        async with self.pace.step(tenant, jobs):
            self._clock.advance(took_s)


async def test_long_steps_beside_somebody_with_little_to_do_are_followed_by_a_rest(clock: FakeClock) -> None:
    rests = Rests(clock)
    for tenant, took_s in (("busy", 0.002), ("other", 0.003), ("busy", 0.3), ("busy", 0.001)):
        await rests.step(tenant, 100, took_s)
    assert rests.slept_s == pytest.approx([REST * 0.002, REST * 0.003, LONGEST_REST_S])
    clock.advance(REST * 0.001)
    await rests.step("busy", 100, 0.001)
    assert len(rests.slept_s) == 3, "it has rested while there was nothing to do"


async def test_steps_of_one_kind_come_one_after_the_other(clock: FakeClock) -> None:
    rests = Rests(clock)
    order = []

    async def step(tenant: str) -> None:
        async with rests.pace.step(tenant, 100):
            order.append(f"{tenant} begins")
            await asyncio.sleep(0)
            order.append(f"{tenant} ends")

    await asyncio.gather(step("busy"), step("other"))
    assert order == ["busy begins", "busy ends", "other begins", "other ends"]


async def test_few_jobs_wait_for_no_step_and_alone_nobody_rests(clock: FakeClock) -> None:
    rests = Rests(clock)
    async with rests.pace.step("busy", 100), rests.pace.step("quiet", FEW), rests.pace.step("busy", 1):
        clock.advance(2)  # who had to wait for the first of them would wait for ever
    async with rests.pace.step("busy", 100), rests.pace.step("busy", 100):
        pass
    assert not rests.slept_s


async def test_a_step_that_fails_lets_the_next_one_come(clock: FakeClock) -> None:
    rests = Rests(clock)
    step = rests.pace.step("busy", 100)
    await step.__aenter__()
    clock.advance(0.001)
    error = OSError("the store is away")
    assert not await step.__aexit__(OSError, error, None), "whoever takes the step hears of it"
    await rests.step("busy", 100, 0.001)
    assert rests.slept_s == pytest.approx([REST * 0.001])
