"""The bucket of a rate domain over any times of claims: never more than its rate and burst, and nothing lost by coming
late."""

from math import ceil, floor

from hypothesis import given
from hypothesis import strategies as st

from store.rate_rules import KEPT_MS, kept_part
from tests.support.rate_bucket import RateBucket

rates = st.one_of(st.sampled_from([0.1, 1, 7, 20, 30, 50, 99, 100, 1000]), st.floats(0.01, 100_000))
pauses = st.lists(st.one_of(st.integers(0, 30), st.integers(0, 5000)), min_size=1, max_size=60)


def most_in_any_window(given_at: list[tuple[int, int]], rate_per_s: float) -> tuple[float, float]:
    """Over all windows from one claim to another: the tokens given in it beyond its rate; and beyond the whole tokens
    that come in it."""
    beyond = beyond_whole = 0.0
    for first in range(len(given_at)):
        count = 0
        for at_ms, tokens in given_at[first:]:
            count += tokens
            comes = rate_per_s * (at_ms - given_at[first][0]) / 1000
            beyond = max(beyond, count - comes)
            beyond_whole = max(beyond_whole, count - ceil(comes - 1e-6))
    return beyond, beyond_whole


@given(rates, st.integers(1, 5), pauses, st.data())
def test_no_window_has_more_than_rate_and_burst(
    rate_per_s: float, burst: int, pauses_ms: list[int], data: st.DataObject
) -> None:
    """Two daemons that claim from one bucket are one sequence of claims, too."""
    bucket, now_ms = RateBucket(rate_per_s, burst), 0
    given_at: list[tuple[int, int]] = []
    for pause_ms in pauses_ms:
        now_ms += pause_ms
        count = bucket.take(now_ms, data.draw(st.integers(1, 7)))
        assert count <= burst
        given_at.append((now_ms, count))
    beyond, beyond_whole = most_in_any_window(given_at, rate_per_s)
    assert beyond <= burst + rate_per_s * KEPT_MS / 1000 + 1e-6
    assert beyond < burst + 1
    assert beyond_whole <= burst, "a window in which a whole number of tokens comes is exact"


@given(st.floats(0.5, 100), st.lists(st.floats(0, 1), min_size=5, max_size=60))
def test_who_comes_late_by_no_more_than_is_kept_loses_nothing(rate_per_s: float, lateness: list[float]) -> None:
    """With a burst of one. A token comes at a time between two milliseconds, and is told as the later one."""
    bucket, now_ms = RateBucket(rate_per_s, 1), 0
    most_late_ms = floor(1000 * kept_part(rate_per_s) / rate_per_s) - 1
    for number, part in enumerate(lateness):
        assert bucket.take(now_ms, 1) == 1
        due_ms = bucket.next_ms(now_ms)
        assert due_ms <= ceil(1000 * (number + 1) / rate_per_s + 1e-3)
        now_ms = due_ms + floor(part * max(most_late_ms, 0))
