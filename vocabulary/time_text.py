"""Times as text, and back. A time is a number of milliseconds since 1970, UTC."""

import re
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

MAX_TIME_MS: Final = 253_402_300_799_999
"""The end of the year 9999: later times have no text form."""

_MOST_DIGITS: Final = 18
"""Of a number of milliseconds. Whether it is a time of ours is for the caller to judge."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2})?( UTC)?")
_MILLISECOND: Final = timedelta(milliseconds=1)


def compact_time(time_ms: int) -> str:
    """`20261114T235959123Z`"""
    return f"{_second(time_ms // 1000, '%Y%m%dT%H%M%S')}{time_ms % 1000:03d}Z"


def iso_time(time_ms: int) -> str:
    """`2026-11-14T23:59:59.123Z`"""
    return f"{_second(time_ms // 1000, '%Y-%m-%dT%H:%M:%S')}.{time_ms % 1000:03d}Z"


def to_ms(moment: datetime) -> int:
    """The whole milliseconds of a moment that has a time zone."""
    return (moment - EPOCH) // _MILLISECOND


def parse_rfc3339(text: str) -> int:
    """The time of `2026-11-14T23:59:59Z` or with another offset, to the nearest millisecond. T and Z may be small.

    Raises ValueError, also for a time without an offset.
    """
    moment = datetime.fromisoformat(text.upper())
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no offset from UTC, such as Z")
    return round(moment.timestamp() * 1000)


def is_plain_time(text: str) -> bool:
    """Whether it is a `2026-11-14` or `2026-11-14 23:59:59` by its form: then it is UTC, as in SQLite. That may be said
    with ` UTC` after it, as the commands print it."""
    return _PLAIN.fullmatch(text) is not None


def parse_utc(text: str) -> int:
    """The time of a plain text. Raises ValueError if there is no such day or hour."""
    return to_ms(datetime.fromisoformat(text.removesuffix(" UTC")).replace(tzinfo=UTC))


def parse_time(text: str) -> int:
    """A time as people and programs write it: milliseconds, `2026-11-14 23:59:59` or `2026-11-14` in UTC, also as the
    commands print it, or RFC 3339 with its offset. Raises ValueError."""
    if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    return parse_utc(text) if is_plain_time(text) else parse_rfc3339(text)


@lru_cache(maxsize=16)
def _second(time_s: int, form: str) -> str:
    """By the second: formatting a date costs more than all else about an id."""
    return time.strftime(form, time.gmtime(time_s))
