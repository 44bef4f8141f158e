"""Repeat arithmetic against SQLite itself, which defines it."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime

from hypothesis import assume, example, given
from hypothesis import strategies as st

from scheduler.errors import RepeatOutOfRange
from scheduler.repeat import Modifier, Shift, StartOf, Weekday, apply_modifiers

FIRST_S = int(datetime(1, 1, 1, tzinfo=UTC).timestamp())
LAST_S = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())

SHIFTS = st.one_of(
    st.builds(Shift, st.integers(-100_000, 100_000), st.sampled_from(["SECOND", "MINUTE", "HOUR", "DAY"])),
    st.builds(Shift, st.integers(-2000, 2000), st.just("MONTH")),
    st.builds(Shift, st.integers(-200, 200), st.just("YEAR")),
)
MODIFIERS = st.lists(
    st.one_of(
        SHIFTS, st.builds(StartOf, st.sampled_from(["DAY", "MONTH", "YEAR"])), st.builds(Weekday, st.integers(0, 6))
    ),
    max_size=6,
)
MODERN_S = st.integers(0, 4_102_444_800)


def by_sqlite(modifiers: list[Modifier], at_s: int) -> str | None:
    start = f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S}".rjust(19, "0")
    marks = ", ?" * len(modifiers)
    with closing(sqlite3.connect(":memory:")) as database:
        (answer,) = database.execute(f"SELECT datetime(?{marks})", (start, *map(str, modifiers))).fetchone()
    assert answer is None or isinstance(answer, str)
    return answer


@given(modifiers=MODIFIERS, at_s=MODERN_S | st.integers(FIRST_S, LAST_S))
@example(modifiers=[Shift(1, "MONTH")], at_s=1769817600)
@example(modifiers=[Shift(-1, "MONTH")], at_s=1774915200)
@example(modifiers=[Shift(1, "YEAR")], at_s=1709164800)
@example(modifiers=[Shift(-13, "MONTH"), Shift(13, "MONTH")], at_s=1709164800)
def test_agrees_with_sqlite(modifiers: list[Modifier], at_s: int) -> None:
    try:
        ours_ms = apply_modifiers(tuple(modifiers), at_s * 1000)
    except RepeatOutOfRange:
        # SQLite reckons back to the year -4713 on its way; here the years 1 to 9999 are all there is.
        assume(False)
        raise
    ours = f"{datetime.fromtimestamp(ours_ms // 1000, UTC):%Y-%m-%d %H:%M:%S}".rjust(19, "0")
    assert ours == by_sqlite(modifiers, at_s)


@given(modifiers=MODIFIERS, at_s=MODERN_S)
def test_what_sqlite_can_reckon_in_our_time_so_can_we(modifiers: list[Modifier], at_s: int) -> None:
    """From a date of this century with shifts of a few centuries nothing leaves the calendar: no error hides a case."""
    apply_modifiers(tuple(modifiers), at_s * 1000)
