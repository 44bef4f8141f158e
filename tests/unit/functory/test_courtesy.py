"""Steps are shorter while another tenant is here that has little to do, and only then."""

import pytest

from functory.loops.courtesy import FEW, LONG_STEP, SHORT_STEP, Courtesy
from tests.support.clocks import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_who_is_alone_takes_long_steps(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    assert courtesy.step("busy", LONG_STEP) == LONG_STEP
    courtesy.seen("busy", 1)
    assert courtesy.step("busy", LONG_STEP) == LONG_STEP, "its own few jobs are no reason"


def test_beside_somebody_with_little_to_do_steps_are_short_for_a_moment(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    courtesy.seen("quiet", 1)
    courtesy.seen("busy", 3)
    assert courtesy.step("busy", LONG_STEP) == SHORT_STEP
    assert courtesy.step("busy", 7) == 7
    clock.advance(0.04)
    courtesy.seen("quiet", FEW)
    clock.advance(0.04)
    assert courtesy.step("busy", LONG_STEP) == SHORT_STEP
    clock.advance(0.02)
    assert courtesy.step("busy", LONG_STEP) == LONG_STEP, "one job now and then costs the others nearly nothing"


def test_each_of_two_with_little_to_do_counts_for_the_other(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    for _ in range(2):
        courtesy.seen("one", 1)
        courtesy.seen("two", 1)
    courtesy.seen("two", 1)
    assert [courtesy.step(tenant, LONG_STEP) for tenant in ("one", "two", "busy")] == [SHORT_STEP] * 3


def test_two_that_have_much_to_do_take_long_steps(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    courtesy.seen("busy", FEW + 1)
    assert courtesy.step("other", LONG_STEP) == LONG_STEP
