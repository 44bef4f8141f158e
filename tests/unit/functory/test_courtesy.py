"""Steps are shorter while another tenant is here that has little to do, and only then."""

import pytest

from functory.loops.courtesy import FEW, LONG_STEP, MEDIUM_STEP, SHORT_STEP, Courtesy
from tests.support.clocks import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_who_is_alone_takes_long_steps(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    assert courtesy.step("busy", LONG_STEP) == LONG_STEP
    courtesy.seen("busy", 1)
    assert courtesy.step("busy", LONG_STEP) == LONG_STEP, "its own few jobs are no reason"


def test_beside_somebody_with_little_to_do_steps_are_shorter_for_a_moment(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    courtesy.seen("quiet", 1)
    courtesy.seen("busy", 3)
    assert courtesy.step("busy", LONG_STEP) == MEDIUM_STEP
    assert courtesy.step("busy", 7) == 7
    clock.advance(0.04)
    courtesy.seen("quiet", FEW)
    clock.advance(0.04)
    assert courtesy.step("busy", LONG_STEP) == MEDIUM_STEP
    assert courtesy.is_asked_of("busy")
    clock.advance(0.02)
    assert courtesy.step("busy", LONG_STEP) == LONG_STEP, "one job now and then costs the others nearly nothing"
    assert not courtesy.is_asked_of("busy")


def bring(courtesy: Courtesy, clock: FakeClock, tenant: str, jobs: int, every_s: float) -> None:
    """One job after the other, each seen when it starts and when it has ended."""
    for _ in range(jobs):
        courtesy.seen(tenant, 1)
        clock.advance(0.02)
        courtesy.seen(tenant, 1)
        clock.advance(every_s - 0.02)
    courtesy.seen(tenant, 1)


def test_beside_somebody_who_adds_one_job_after_the_other_steps_are_as_short_as_makes_sense(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    bring(courtesy, clock, "quiet", 5, 0.05)
    assert courtesy.step("busy", LONG_STEP) == MEDIUM_STEP, "it has not been here for long"
    bring(courtesy, clock, "quiet", 3, 0.05)
    assert courtesy.step("busy", LONG_STEP) == SHORT_STEP
    courtesy.seen("another", 1)
    assert courtesy.step("busy", LONG_STEP) == SHORT_STEP, "beside somebody with a single job, too"
    clock.advance(0.3)
    courtesy.seen("quiet", 1)
    assert courtesy.step("busy", LONG_STEP) == MEDIUM_STEP, "after a pause it is a new series"


def test_jobs_now_and_then_are_no_series(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    bring(courtesy, clock, "quiet", 20, 1.0)
    assert courtesy.step("busy", LONG_STEP) == MEDIUM_STEP


def test_however_many_tenants_come_what_is_remembered_of_them_is_bounded(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    bring(courtesy, clock, "quiet", 8, 0.05)
    for number in range(3000):
        courtesy.seen(f"tenant{number}", 1)
    assert len(courtesy._series) <= 1000
    assert courtesy.step("busy", LONG_STEP) == SHORT_STEP


def test_each_of_two_with_little_to_do_counts_for_the_other(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    for _ in range(2):
        courtesy.seen("one", 1)
        courtesy.seen("two", 1)
    courtesy.seen("two", 1)
    assert [courtesy.step(tenant, LONG_STEP) for tenant in ("one", "two", "busy")] == [MEDIUM_STEP] * 3


def test_two_that_have_much_to_do_take_long_steps(clock: FakeClock) -> None:
    courtesy = Courtesy(clock)
    courtesy.seen("busy", FEW + 1)
    assert courtesy.step("other", LONG_STEP) == LONG_STEP
