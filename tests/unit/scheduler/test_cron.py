"""Cron patterns: when they come, also where clocks are put forward and back; what is refused, and how it is said."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from scheduler.cron import Cron, parse_cron
from scheduler.errors import InvalidRepeat, RepeatOutOfRange
from scheduler.repeat import check_repeat, first_run_ms, next_run_ms, parse_repeat


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def times(pattern: str, after: str, count: int) -> list[str]:
    """The next ones, as clocks of the zone show them."""
    cron, at_ms, found = parse_cron(pattern), ms(after), []
    for _ in range(count):
        at_ms = cron.next_ms(at_ms)
        found.append(f"{datetime.fromtimestamp(at_ms / 1000, cron.zone):%m-%d %H:%M %z}")
    return found


@pytest.mark.parametrize(
    ("pattern", "after", "found"),
    [
        ("* * * * *", "2026-11-18 23:59:30", ["11-19 00:00", "11-19 00:01"]),
        ("*/20 * * * *", "2026-11-18 12:20:00", ["11-18 12:40", "11-18 13:00", "11-18 13:20"]),
        ("5/20 9-10 * * *", "2026-11-18 09:30:00", ["11-18 09:45", "11-18 10:05", "11-18 10:25"]),
        ("0 9 * * MON-FRI", "2026-11-20 09:00:00", ["11-23 09:00", "11-24 09:00"]),
        ("0 9 * * sat-sun", "2026-11-18 09:00:00", ["11-21 09:00", "11-22 09:00", "11-28 09:00"]),
        ("0 9 * * 7", "2026-11-18 09:00:00", ["11-22 09:00", "11-29 09:00"]),
        ("0 9 * * SUN-SUN", "2026-11-18 09:00:00", ["11-22 09:00", "11-29 09:00"]),
        ("0 9 * * 0-MON", "2026-11-18 09:00:00", ["11-22 09:00", "11-23 09:00"]),
        ("0 0 1,15 */6 *", "2026-11-18 00:00:00", ["01-01 00:00", "01-15 00:00", "07-01 00:00"]),
        ("0 0 L feb *", "2026-11-18 00:00:00", ["02-28 00:00", "02-29 00:00"]),
        ("0 0 29 2 *", "2026-11-18 00:00:00", ["02-29 00:00", "02-29 00:00"]),
        ("0 0 * * TUE#2", "2026-11-18 00:00:00", ["12-08 00:00", "01-12 00:00"]),
        ("0 0 * * FRIL,1L", "2026-11-18 00:00:00", ["11-27 00:00", "11-30 00:00", "12-25 00:00", "12-28 00:00"]),
        ("0 0 13 * FRI", "2026-11-12 12:00:00", ["11-13 00:00", "11-20 00:00"]),
        ("0 0 */2 * FRI", "2026-11-12 12:00:00", ["11-13 00:00", "11-27 00:00"]),
        ("@hourly", "2026-11-18 23:59:30", ["11-19 00:00", "11-19 01:00"]),
        (" @Daily", "2026-11-18 12:00:00", ["11-19 00:00", "11-20 00:00"]),
        ("@midnight UTC", "2026-11-18 12:00:00", ["11-19 00:00", "11-20 00:00"]),
        ("@weekly", "2026-11-18 12:00:00", ["11-22 00:00", "11-29 00:00"]),
        ("@monthly", "2026-11-18 12:00:00", ["12-01 00:00", "01-01 00:00"]),
        ("@yearly", "2026-11-18 12:00:00", ["01-01 00:00", "01-01 00:00"]),
        ("@annually", "2026-11-18 12:00:00", ["01-01 00:00"]),
    ],
)
def test_examples(pattern: str, after: str, found: list[str]) -> None:
    assert times(pattern, after, len(found)) == [f"{time} +0000" for time in found]


@pytest.mark.parametrize(
    ("pattern", "after", "found"),
    [
        ("@daily Europe/Berlin", "2026-10-24 00:00:00", ["10-25 00:00 +0200", "10-26 00:00 +0100"]),
        ("0 9 * * * Europe/Berlin", "2026-10-24 00:00:00", ["10-24 09:00 +0200", "10-25 09:00 +0100"]),
        ("30 2 * * * Europe/Berlin", "2026-03-28 12:00:00", ["03-29 03:30 +0200", "03-30 02:30 +0200"]),
        ("45,15 2,3 * * * Europe/Berlin", "2026-03-29 00:59:00", ["03-29 03:15 +0200", "03-29 03:45 +0200"]),
        ("30 2 * * * Europe/Berlin", "2026-10-24 12:00:00", ["10-25 02:30 +0200", "10-26 02:30 +0100"]),
        ("30 2 * * * Europe/Berlin", "2026-10-25 01:10:00", ["10-26 02:30 +0100"]),
        ("30 * * * * Europe/Berlin", "2026-10-25 00:00:00", ["10-25 02:30 +0200", "10-25 02:30 +0100"]),
        ("*/30 2 * * * Europe/Berlin", "2026-03-28 12:00:00", ["03-30 02:00 +0200", "03-30 02:30 +0200"]),
        ("15 2 * * * Australia/Lord_Howe", "2026-10-03 00:00:00", ["10-04 02:45 +1100", "10-05 02:15 +1100"]),
        ("0 12 * * * Pacific/Apia", "2011-12-29 12:00:00", ["12-29 12:00 -1000", "12-31 12:00 +1400"]),
        ("30 23 * * * America/Nuuk", "2026-03-29 01:05:00", ["03-29 00:30 -0100", "03-29 23:30 -0100"]),
        ("15,30 0,23 * * * America/Nuuk", "2026-03-29 01:00:00", ["03-29 00:15 -0100", "03-29 00:30 -0100"]),
        ("0 0 * * * America/Havana", "2026-03-07 12:00:00", ["03-08 01:00 -0400", "03-09 00:00 -0400"]),
    ],
)
def test_clocks_that_are_put_forward_and_back(pattern: str, after: str, found: list[str]) -> None:
    assert times(pattern, after, len(found)) == found


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("0 9 * *", "has five fields"),
        ("0 0 9 * * * Europe/Berlin", "has five fields"),
        ("0 0 4 * * *", "none for seconds"),
        ("60 9 * * *", "the minute of a cron pattern is 0 to 59, not '60'"),
        ("0 24 * * *", "the hour of a cron pattern is 0 to 23"),
        ("0 9 0 * *", "the day of a cron pattern is 1 to 31"),
        ("0 9 * MAI *", "the month of a cron pattern is 1 to 12 or JAN to DEC, not 'MAI'"),
        ("0 9 * * MON-XYZ", "the weekday of a cron pattern is 0 to 7 or SUN to SAT"),
        ("0 17-9 * * *", "ends before it begins"),
        ("*/0 9 * * *", "has a step of 0"),
        ("0 9 * * MON#6", "'MON#6' is no weekday"),
        ("0 9 * * L", "the weekday of a cron pattern is"),
        ("0 9 , * *", "'' is no day"),
        ("0 9 1-2-3 * *", "'1-2-3' is no day"),
        ("0 9 * * ²", "is no weekday"),
        ("0 9 * * * Mars/Olympus", "there is no time zone 'Mars/Olympus'"),
        ("0 9 * * * ../../etc/passwd", "there is no time zone"),
        ("0 9 * * * Europe", "there is no time zone 'Europe'"),
        ("@reboot", "'@reboot' is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly"),
        ("@ daily", "'@' is none of @yearly"),
        ("@daily Mars/Olympus", "there is no time zone 'Mars/Olympus'"),
        ("@daily * *", "five fields"),
        ("0 " + "1," * 99 + "1 * * *", "at most 200 characters"),
    ],
)
def test_what_is_wrong_is_said(pattern: str, says: str) -> None:
    with pytest.raises(InvalidRepeat) as refused:
        parse_repeat(pattern)
    assert says in str(refused.value)


@pytest.mark.parametrize("pattern", ["0 0 31 2,4 *", "0 0 */31 * MON#5", "* * 30 2 * Europe/Berlin"])
def test_a_time_that_never_comes_is_refused(pattern: str) -> None:
    with pytest.raises(RepeatOutOfRange, match="has no time in the nine years"):
        check_repeat(parse_repeat(pattern), ms("2026-11-18"))


def test_the_end_of_the_calendar_is_out_of_range() -> None:
    with pytest.raises(RepeatOutOfRange):
        parse_cron("0 0 1 1 *").next_ms(ms("9999-06-01"))


def test_rounds_that_were_missed_are_left_out() -> None:
    due_ms = next_run_ms(
        parse_repeat("0 * * * *"),
        scheduled_ms=ms("2026-11-18 09:00"),
        started_ms=ms("2026-11-18 09:00"),
        finished_ms=ms("2026-11-18 12:30"),
    )
    assert due_ms == ms("2026-11-18 13:00")


def test_a_clock_that_was_put_back_runs_no_round_twice() -> None:
    due_ms = next_run_ms(
        parse_repeat("0 9 * * *"),
        scheduled_ms=ms("2026-11-18 09:00"),
        started_ms=ms("2026-11-18 08:59"),
        finished_ms=ms("2026-11-18 08:59"),
    )
    assert due_ms == ms("2026-11-19 09:00")


def test_the_first_round_of_a_cron_pattern_is_at_its_time_and_of_others_at_once() -> None:
    now_ms = ms("2026-11-18 10:00")
    assert first_run_ms(parse_repeat("0 9 * * *"), now_ms) == ms("2026-11-19 09:00")
    assert first_run_ms(parse_repeat("HOURLY"), now_ms) == now_ms


def test_a_pattern_is_shown_as_it_is_meant() -> None:
    cron = parse_repeat("  0  9 * *  mon-fri   Europe/Berlin ")
    assert isinstance(cron, Cron)
    assert str(cron) == "0 9 * * MON-FRI Europe/Berlin"
    assert str(parse_repeat("@daily  Europe/Berlin")) == "0 0 * * * Europe/Berlin"


def test_a_year_of_them_has_no_two_at_once() -> None:
    cron, at_ms, found = parse_cron("17 */4 * * * America/New_York"), ms("2026-01-01"), []
    while at_ms < ms("2027-01-01"):
        found.append(at_ms := cron.next_ms(at_ms))
    assert all(earlier < later for earlier, later in pairwise(found))
    assert len(found) == pytest.approx(6 * 365, abs=2)
