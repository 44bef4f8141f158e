"""Steps are shorter while another tenant is here that has little to do, and only then."""

import pytest

from functory.loops.courtesy import FEW, LONG_STEP, SHORT_STEP, USUAL_STEP, Courtesy
from tests.support.clocks import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_who_is_alone_takes_long_steps(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    assert courtesy.step("busy", LONG_STEP) == LONG_STEP
    courtesy.seen("busy", 1)
    assert courtesy.step("busy", LONG_STEP) == LONG_STEP, "its own few jobs are no reason"


def test_beside_somebody_with_little_to_do_steps_are_short_for_a_moment_and_not_long_for_a_while(
    clock: FakeClock,
) -> None:
    courtesy = Courtesy(clock)
    courtesy.seen("quiet", 1)
    courtesy.seen("busy", 3)
    assert courtesy.step("busy", LONG_STEP) == SHORT_STEP
    assert courtesy.step("busy", 7) == 7
    clock.advance(0.9)
    courtesy.seen("quiet", FEW)
    clock.advance(0.9)
    assert courtesy.step("busy", LONG_STEP) == SHORT_STEP
    clock.advance(0.2)
    assert courtesy.step("busy", LONG_STEP) == USUAL_STEP
    assert courtesy.step("busy", 7) == 7
    clock.advance(58.8)
    assert courtesy.step("busy", LONG_STEP) == USUAL_STEP
    clock.advance(0.2)
    assert courtesy.step("busy", LONG_STEP) == LONG_STEP


def test_two_that_have_much_to_do_take_long_steps(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    courtesy.seen("busy", FEW + 1)
    assert courtesy.step("other", LONG_STEP) == LONG_STEP


def test_many_tenants_are_not_remembered_for_ever(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    for number in range(5000):
        courtesy.seen(f"t{number}", 1)
    assert len(courtesy._seen) <= 1000
    assert courtesy.step("t4999", 500) == SHORT_STEP
