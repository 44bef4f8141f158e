"""Retry times: backoff within its bounds, the handler's wish, and the end of it."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.errors import InvalidOptions
from scheduler.retry import Abandon, AbandonReason, RetryAt, RetryPolicy, backoff_s, decide_retry

NOW = 1_800_000_000_000
DAY_MS = 86_400_000


def decide(
    policy: RetryPolicy, attempts: int = 1, roll: float = 0.5, asked_s: float | None = None, age_ms: int = 0
) -> RetryAt | Abandon:
    return decide_retry(policy, attempts=attempts, begun_ms=NOW - age_ms, now_ms=NOW, roll=roll, asked_s=asked_s)


def test_the_delay_doubles_up_to_its_bound() -> None:
    policy = RetryPolicy(base_s=2.0, max_s=10.0)
    assert [backoff_s(policy, n) for n in range(1, 6)] == [2.0, 4.0, 8.0, 10.0, 10.0]
    assert backoff_s(policy, 10**9) == 10.0, "no overflow"
    assert backoff_s(RetryPolicy(base_s=5.0, factor=1.0, max_s=60.0), 10**9) == 5.0


def test_jitter_is_full() -> None:
    policy = RetryPolicy(base_s=8.0)
    assert decide(policy, roll=0.0) == RetryAt(NOW)
    assert decide(policy, roll=0.5) == RetryAt(NOW + 4000)
    assert decide(policy, attempts=2, roll=0.25) == RetryAt(NOW + 4000)


def test_attempts_end() -> None:
    policy = RetryPolicy(max_attempts=3)
    assert isinstance(decide(policy, attempts=2), RetryAt)
    assert decide(policy, attempts=3) == Abandon(AbandonReason.ATTEMPTS, "tried 3 times, the limit is 3")
    assert isinstance(decide(policy, attempts=3, asked_s=1.0), Abandon), "also for a handler that asks"


def test_the_window_ends() -> None:
    policy = RetryPolicy(base_s=3600.0, window_s=86_400.0)
    gone = decide(policy, age_ms=DAY_MS)
    assert isinstance(gone, Abandon)
    assert gone.reason is AbandonReason.WINDOW
    assert decide(policy, age_ms=DAY_MS - 10, roll=0.9) == RetryAt(NOW + 10), "the last try is at its end"


def test_the_handlers_wish_is_taken_within_the_window() -> None:
    policy = RetryPolicy(window_s=60.0)
    assert decide(policy, asked_s=0.0) == RetryAt(NOW)
    assert decide(policy, asked_s=60.0) == RetryAt(NOW + 60_000)
    for past in (60.1, math.inf, 1e308):
        late = decide(policy, asked_s=past)
        assert isinstance(late, Abandon)
        assert late.reason is AbandonReason.WINDOW
    for nonsense in (-1.0, math.nan, -math.inf):
        assert decide(policy, asked_s=nonsense) == decide(policy)


@given(
    attempts=st.integers(0, 10**6),
    roll=st.floats(0, 1, exclude_max=True),
    asked_s=st.none() | st.floats(),
    age_ms=st.integers(-DAY_MS, 10 * DAY_MS),
    base_s=st.floats(1e-3, 1e6),
    factor=st.floats(1, 1e6),
)
def test_never_raises_never_leaves_the_window(
    attempts: int, roll: float, asked_s: float | None, age_ms: int, base_s: float, factor: float
) -> None:
    policy = RetryPolicy(base_s=base_s, factor=factor)
    decision = decide(policy, attempts=attempts, roll=roll, asked_s=asked_s, age_ms=age_ms)
    if isinstance(decision, RetryAt):
        assert NOW <= decision.at_ms <= NOW - age_ms + policy.window_s * 1000
        if asked_s is None:
            assert decision.at_ms - NOW <= policy.max_s * 1000


@pytest.mark.parametrize(
    "wrong", [{"base_s": 0.0}, {"max_s": math.inf}, {"window_s": math.nan}, {"factor": 0.5}, {"max_attempts": 0}]
)
def test_a_policy_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptions, match=next(iter(wrong))):
        RetryPolicy(**wrong)
