"""What a terminal shows: times that no calendar has, and the reasons that name them."""

import pytest

from functory.cli.answers import moment, reason
from functory.wire.jobs import Why
from vocabulary.time_text import MAX_TIME_MS


@pytest.mark.parametrize("time_ms", [MAX_TIME_MS + 86_400_000, 1_001_795_023_523_118, 1 << 62, 10**40])
def test_a_time_that_is_out_of_range_is_shown_as_such(time_ms: int) -> None:
    assert moment(time_ms) == "after the year 9999"
    why = Why("j", "waiting", "rate_domain", "no token until some day", {"until_ms": time_ms})
    assert reason(why) == "no token until some day"


def test_a_reason_that_names_the_last_time_of_all_is_shown_in_any_zone() -> None:
    why = Why("j", "waiting", "rate_domain", "no token until 9999-12-31T23:59:59.999Z", {"until_ms": MAX_TIME_MS})
    assert reason(why) == f"no token until {moment(MAX_TIME_MS)}"
