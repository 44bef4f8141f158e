"""The last minutes in buckets of minutes and hours: always the same minutes, and never many buckets."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from functory.web.pages.spans import last_minutes
from store.values.scoreboard import HOUR_MS, MINUTE_MS

HOURS = HOUR_MS * 500_000


@given(st.integers(HOURS, HOURS + 3 * HOUR_MS), st.integers(1, 60))
def test_spans_hold_each_of_the_last_minutes_once(now_ms: int, minutes: int) -> None:
    held = Counter[int]()
    read = 0
    for sign, width_ms, since_ms, until_ms in last_minutes(now_ms, minutes):
        assert width_ms in (MINUTE_MS, HOUR_MS)
        assert since_ms % width_ms == 0
        for start_ms in range(since_ms, until_ms, width_ms):
            read += 1
            for minute_ms in range(start_ms, start_ms + width_ms, MINUTE_MS):
                if minute_ms <= now_ms:  # nothing has ended later
                    held[minute_ms] += sign
    this_ms = now_ms // MINUTE_MS * MINUTE_MS
    assert {minute: count for minute, count in held.items() if count} == dict.fromkeys(
        range(this_ms - (minutes - 1) * MINUTE_MS, this_ms + 1, MINUTE_MS), 1
    )
    assert read <= min(minutes, 32)
