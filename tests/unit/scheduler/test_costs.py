"""Estimates: how fast they learn, and how long they hold a surprise against a type."""

import pytest

from scheduler.costs import Costs, Pace
from scheduler.values import SchedulerOptions


def costs() -> Costs:
    return Costs(SchedulerOptions(slots=4, borrow_s=0.01, long_s=1.0))


def test_paces() -> None:
    learned = costs()
    assert learned.pace("a-x") is Pace.UNKNOWN
    for job_s, pace in [(0.01, Pace.SHORT), (0.02, Pace.MEDIUM), (1.0, Pace.MEDIUM), (1.1, Pace.LONG)]:
        learned.learn(f"a-{job_s}", 10, job_s * 10)
        assert learned.pace(f"a-{job_s}") is pace


def test_one_slow_first_start_is_soon_outweighed() -> None:
    learned = costs()
    learned.learn("a-x", 1, 0.5)
    for _ in range(8):
        size = learned.batch_size("a-x", 10_000, 1, 0.1)
        learned.learn("a-x", size, size * 0.001)
    assert learned.expect_s("a-x", 1) < 0.002


def test_a_surprise_is_remembered_for_ten_times_its_length() -> None:
    learned = costs()
    learned.learn("a-x", 1, 60.0)
    for _ in range(580):
        learned.learn("a-x", 1000, 1.0)
    assert learned.pace("a-x") is Pace.LONG
    for _ in range(30):
        learned.learn("a-x", 1000, 1.0)
    assert learned.pace("a-x") is Pace.SHORT


def test_an_overrun_changes_the_pace_at_once_and_not_the_mean() -> None:
    learned = costs()
    learned.learn("a-x", 100, 0.1)
    learned.overrun("a-x", 30.0)
    assert learned.pace("a-x") is Pace.LONG
    assert learned.expect_s("a-x", 1) == pytest.approx(0.001)


def test_nothing_is_short_where_nothing_may_borrow() -> None:
    learned = Costs(SchedulerOptions(slots=4))
    learned.learn("a-x", 10, 0.0)
    assert learned.pace("a-x") is Pace.MEDIUM


def test_the_start_of_a_context_is_paid_once_for_a_batch_however_large_it_is() -> None:
    """A first job in a new context: the start took long, the job did not."""
    learned = costs()
    learned.learn("a-x", 1, 0.5, 0.001)
    assert learned.batch_size("a-x", 10_000, 1, 0.1) == 100
    assert learned.expect_s("a-x", 1) == pytest.approx(0.5)
    assert learned.expect_s("a-x", 100) == pytest.approx(0.499 + 0.1)
    learned.learn("a-x", 100, 0.101, 0.1)
    assert learned.expect_s("a-x", 100) == pytest.approx((0.7 * 0.499 + 0.001) / 1.7 + 0.1, rel=0.01)


def test_one_job_that_took_no_time_is_not_trusted_for_thousands() -> None:
    learned = costs()
    learned.learn("a-x", 1, 0.5, 0.0)
    assert learned.batch_size("a-x", 10_000, 1, 0.1) == 100
    learned.learn("a-x", 100, 0.1, 0.0)
    assert learned.batch_size("a-x", 10_000, 1, 0.1) == 1000


def test_jobs_take_no_longer_than_their_slot_was_held() -> None:
    learned = costs()
    learned.learn("a-y", 1, 0.5, 60.0)
    assert learned.batch_size("a-y", 10_000, 1, 5.0) == 10
    assert learned.expect_s("a-y", 2) == pytest.approx(1.0)
