"""The repeat syntax: the examples of its description, what it refuses, how it says so."""

from datetime import UTC, datetime

import pytest

from scheduler.errors import InvalidRepeat, RepeatOutOfRange, RepeatStuck
from scheduler.repeat import (
    Base,
    Repeat,
    Shift,
    StartOf,
    Weekday,
    apply_modifiers,
    check_repeat,
    next_run_ms,
    parse_modifiers,
)
from scheduler.repeat import parse_repeat as parse


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def after(repeat: str, at: str) -> str:
    """The next round after one that was scheduled, started and finished at that time."""
    due_ms = next_run_ms(parse(repeat), scheduled_ms=ms(at), started_ms=ms(at), finished_ms=ms(at))
    return f"{datetime.fromtimestamp(due_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


@pytest.mark.parametrize(("base", "due"), [("SCHEDULED", "14:00"), ("STARTED", "14:15"), ("FINISHED", "14:45")])
def test_the_base_is_the_moment_it_names(base: str, due: str) -> None:
    due_ms = next_run_ms(
        parse(f"{base}, +1 HOUR"),
        scheduled_ms=ms("2026-11-14 13:00"),
        started_ms=ms("2026-11-14 13:15"),
        finished_ms=ms("2026-11-14 13:45"),
    )
    assert due_ms == ms(f"2026-11-14 {due}")


@pytest.mark.parametrize(
    ("repeat", "at", "due"),
    [
        ("FINISHED, +1 DAY, START OF DAY, +4 HOURS", "2026-11-14 17:30:05", "2026-11-15 04:00:00"),
        ("FINISHED, +1 DAY, WEEKDAY 1, START OF DAY, +6 HOURS", "2026-11-16 06:00:07", "2026-11-23 06:00:00"),
        ("finished, +1 minute", "2014-12-29 07:38:51", "2014-12-29 07:39:51"),
        ("HOURLY", "2026-12-31 23:10:00", "2027-01-01 00:10:00"),
        ("daily", "2024-02-28 01:00:00", "2024-02-29 01:00:00"),
        ("Weekly", "2026-11-14 01:00:00", "2026-11-21 01:00:00"),
        ("SCHEDULED, +1 MONTH", "2026-01-31 00:00:00", "2026-03-03 00:00:00"),
        ("SCHEDULED, +1 YEAR", "2024-02-29 00:00:00", "2025-03-01 00:00:00"),
        ("SCHEDULED, START OF MONTH, +1 MONTH, -1 DAY, +1 DAY", "2026-11-14 12:00:00", "2026-12-01 00:00:00"),
        ("  Scheduled ,+  90   seconds ", "2026-11-14 12:00:00", "2026-11-14 12:01:30"),
    ],
)
def test_examples(repeat: str, at: str, due: str) -> None:
    assert after(repeat, at) == due


def test_whole_seconds() -> None:
    assert apply_modifiers((Shift(1, "SECOND"),), 1_800_000_000_999) == 1_800_000_001_000
    assert apply_modifiers((Shift(1, "SECOND"),), -1) == 0


def test_the_canonical_form_reads_back() -> None:
    repeat = Repeat(Base.STARTED, (Shift(-2, "DAY"), Shift(1, "MONTH"), StartOf("YEAR"), Weekday(6)))
    assert str(repeat) == "STARTED, -2 DAYS, +1 MONTH, START OF YEAR, WEEKDAY 6"
    assert parse(str(repeat)) == repeat


def test_modifiers_alone_make_a_retry_after() -> None:
    now_ms = ms("2026-11-14 12:00")
    assert apply_modifiers(parse_modifiers("+10 MINUTES"), now_ms) - now_ms == 600_000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "begins with SCHEDULED, STARTED, FINISHED, is one of HOURLY, DAILY, WEEKLY, or a cron pattern"),
        ("MONTHLY", "not 'MONTHLY'"),
        ("HOURLY, +1 DAY", "not 'HOURLY'"),
        ("FINISHED", "'FINISHED, \\+1 HOUR'"),
        ("FINISHED,", "'' is not a modifier"),
        ("FINISHED, 1 HOUR", "'1 HOUR' is not a modifier"),
        ("FINISHED, +1.5 HOURS", "is not a modifier"),
        ("FINISHED, +\u0661 HOUR", "is not a modifier"),
        ("FINISHED, +1 WEEK", "SECONDS, MINUTES, HOURS, DAYS, MONTHS or YEARS"),
        ("FINISHED, START OF WEEK", "START OF DAY, MONTH or YEAR"),
        ("FINISHED, WEEKDAY 7", "WEEKDAY 0 to 6"),
        ("FINISHED, +1 DAY\nSTARTED", "is not a modifier"),
        ("FINISHED, +" + "9" * 10 + " DAYS", "is not a modifier"),
        ("FINISHED" + ", +1 DAY" * 11, "at most 10 modifiers"),
        ("F" * 201, "at most 200 characters"),
    ],
)
def test_what_is_not_in_the_syntax_is_refused_with_what_is(text: str, says: str) -> None:
    with pytest.raises(InvalidRepeat, match=says):
        parse(text)


@pytest.mark.parametrize("text", ["FINISHED, -1 HOUR", "SCHEDULED, START OF DAY", "STARTED, WEEKDAY 6"])
def test_a_pattern_that_does_not_advance_is_refused(text: str) -> None:
    with pytest.raises(RepeatStuck, match="2026-11-14 12:00:00 UTC"):
        after(text, "2026-11-14 12:00:00")


@pytest.mark.parametrize(
    "text", ["FINISHED, START OF DAY, +23 HOURS", "SCHEDULED, WEEKDAY 1", "STARTED, +1 YEAR, -366 DAYS"]
)
def test_a_pattern_that_advances_once_and_never_again_is_refused_from_the_start(text: str) -> None:
    with pytest.raises(RepeatStuck):
        check_repeat(parse(text), ms("2027-06-15 12:00:00"))


@pytest.mark.parametrize("text", ["hourly", "scheduled, +1 month, start of month", "finished, +1 day, weekday 1"])
def test_a_pattern_that_advances_is_accepted(text: str) -> None:
    check_repeat(parse(text), ms("2027-06-15 12:00:00"))


@pytest.mark.parametrize("text", ["FINISHED, +999999999 YEARS", "FINISHED, +999999999 DAYS", "FINISHED, -90000 MONTHS"])
def test_the_calendar_ends(text: str) -> None:
    with pytest.raises(RepeatOutOfRange, match="years 1 to 9999"):
        after(text, "2026-11-14 12:00:00")
