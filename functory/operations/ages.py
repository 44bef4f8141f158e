"""How long ago a job ended, as somebody chooses it: a name, and the span of time that it means at a moment."""

from typing import Final, NamedTuple

from store.values.scoreboard import DAY_MS, HOUR_MS

ANY_AGE: Final = "any"


class Age(NamedTuple):
    words: str
    youngest_ms: int | None = None
    oldest_ms: int | None = None


class Span(NamedTuple):
    """Half open; None: without an end on this side."""

    since_ms: int | None
    until_ms: int | None


AGES: Final = {
    "1h": Age("in the last hour", oldest_ms=HOUR_MS),
    "1d": Age("in the last day", oldest_ms=DAY_MS),
    "7d": Age("in the last week", oldest_ms=7 * DAY_MS),
    ANY_AGE: Age("at any time"),
    "over-1h": Age("more than an hour ago", youngest_ms=HOUR_MS),
    "over-1d": Age("more than a day ago", youngest_ms=DAY_MS),
    "over-7d": Age("more than a week ago", youngest_ms=7 * DAY_MS),
    "over-30d": Age("more than 30 days ago", youngest_ms=30 * DAY_MS),
}


def span_of(age: str, now_ms: int) -> Span:
    """age: a key of AGES."""
    _, youngest_ms, oldest_ms = AGES[age]
    return Span(
        None if oldest_ms is None else max(now_ms - oldest_ms, 0),
        None if youngest_ms is None else max(now_ms - youngest_ms, 0),
    )


def span_until(age: str, at_ms: int) -> Span:
    """The same, without what ended after that moment."""
    since_ms, until_ms = span_of(age, at_ms)
    return Span(since_ms, at_ms + 1 if until_ms is None else until_ms)
