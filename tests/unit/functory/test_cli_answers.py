"""What a terminal shows: times that no calendar has, and the reasons that name them."""

import time
from collections.abc import Iterator

import pytest

from functory.cli.answers import moment, reason
from functory.wire.jobs import Why
from vocabulary.time_text import MAX_TIME_MS, parse_time


@pytest.mark.parametrize("time_ms", [MAX_TIME_MS + 86_400_000, 1_001_795_023_523_118, 1 << 62, 10**40])
def test_a_time_that_is_out_of_range_is_shown_as_such(time_ms: int) -> None:
    assert moment(time_ms) == "after the year 9999"
    why = Why("j", "waiting", "rate_domain", "no token until some day", {"until_ms": time_ms})
    assert reason(why) == "no token until some day"


def test_a_reason_that_names_the_last_time_of_all_is_shown_in_any_zone() -> None:
    why = Why("j", "waiting", "rate_domain", "no token until 9999-12-31T23:59:59.999Z", {"until_ms": MAX_TIME_MS})
    assert reason(why) == f"no token until {moment(MAX_TIME_MS)}"


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("UTC", "2026-11-19 09:00:00 UTC"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "2026-11-19 10:00:00+01:00"),
        ("EST5EDT,M3.2.0,M11.1.0", "2026-11-19 04:00:00-05:00"),
        ("NPT-5:45", "2026-11-19 14:45:00+05:45"),
        ("LMT0:44:30", "2026-11-19 08:15:30-00:44:30"),
    ],
    indirect=["zone"],
)
@pytest.mark.usefixtures("zone")
def test_a_time_that_a_command_prints_is_read_back_as_the_same_time_in_any_zone(text: str) -> None:
    time_ms = 1_795_078_800_000
    assert moment(time_ms) == text
    assert parse_time(text) == time_ms
