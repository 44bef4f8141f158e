"""Repeating by the calendar, as cron does it: `0 9 * * MON-FRI Europe/Berlin`.

Owns the syntax and the arithmetic. Five fields, then the time zone, which is UTC if nothing is said:

    cron      = (minute hour day month weekday | nickname) [zone]
    nickname  = @yearly | @annually | @monthly | @weekly | @daily | @midnight | @hourly
    field     = item {"," item}
    item      = ("*" | value ["-" value]) ["/" step]
    day       = item | "L"                             (L: the last of the month)
    weekday   = item | value "#" (1…5) | value "L"     (MON#2: the second Monday; FRIL: the last Friday)

Months and weekdays have names of three letters, in any letter case; Sunday is 0 or 7. If both day and weekday say
something, either of them is enough, as in any cron; a field that begins with `*` says nothing here.

Where clocks are put forward, a time that does not exist is that much later. Where they are put back, a time that comes
twice counts once. But if minute or hour begins with `*`, the job runs at each time that clocks show.
"""

import re
from calendar import monthrange
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from scheduler.errors import InvalidRepeat, RepeatOutOfRange
from vocabulary.time_text import EPOCH, to_ms
from vocabulary.zones import find_zone

_ITEM: Final = re.compile(r"(?:(\*)|([0-9A-Z]{1,3})(?:-([0-9A-Z]{1,3}))?)(?:/([0-9]{1,4}))?")
_NTH: Final = re.compile(r"([0-7]|[A-Z]{3})(?:#([1-5])|L)")
_FAR: Final = timedelta(days=9 * 366)
"""So far it is looked for a time: there is a February 29 in it."""
_MINUTE: Final = timedelta(minutes=1)
_MINUTE_MS: Final = 60_000
_DAY: Final = timedelta(days=1)
_LONGEST_GAP: Final = timedelta(hours=3)
"""More than clocks are put forward anywhere, but where a whole day was left out."""
_LAST: Final = 0
"""Of the weekdays of a month."""
_NICKNAMES: Final = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


class _Field(NamedTuple):
    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()
    """Of the values from `least` on."""

    def value(self, text: str) -> int:
        if text in self.names:
            return self.names.index(text) + self.least
        if text.isdigit() and self.least <= int(text) <= self.most:
            return int(text)
        also = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        raise InvalidRepeat(f"the {self.name} of a cron pattern is {self.least} to {self.most}{also}, not {text!r:.60}")

    def _last(self, text: str, first: int) -> int:
        """SAT-SUN ends with the Sunday after it."""
        return self.most if first and self.names is _WEEKDAYS and text == _WEEKDAYS[0] else self.value(text)

    def values(self, item: str) -> set[int]:
        match = _ITEM.fullmatch(item)
        if match is None:
            raise InvalidRepeat(f"{item!r:.60} is no {self.name} of a cron pattern, such as 1, 1-5, */2 or 1,3")
        star, first, last, step = match.groups()
        least = self.least if star else self.value(first)
        most = self._last(last, least) if last else self.most if star or step else least
        if most < least:
            raise InvalidRepeat(f"the {self.name} {item!r} of a cron pattern ends before it begins")
        if step is not None and not int(step):
            raise InvalidRepeat(f"the {self.name} {item!r} of a cron pattern has a step of 0")
        return set(range(least, most + 1, int(step or 1)))


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("weekday", 0, 7, _WEEKDAYS),
)


@dataclass(frozen=True, slots=True)
class Cron:
    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    has_last_day: bool
    months: frozenset[int]
    weekdays: frozenset[int]
    nth_weekdays: frozenset[tuple[int, int]]
    is_either: bool
    """Of day and weekday, one is enough."""
    runs_at_each: bool
    """At each time that clocks show, and not once at each time that is named."""
    zone: ZoneInfo

    def __str__(self) -> str:
        return self.text

    def next_ms(self, after_ms: int) -> int:
        """The first time after that one. Raises RepeatOutOfRange if there is none in nine years."""
        return _next_ms(self, after_ms // _MINUTE_MS)

    def times(self, after: datetime) -> Iterator[datetime]:
        """In order, from about that time on."""
        return self._clock_times(after) if self.runs_at_each else self._named_times(after)

    def _named_times(self, after: datetime) -> Iterator[datetime]:
        """Those from a gap come later than some that are named after them, perhaps on the next day."""
        earliest = after.astimezone(self.zone).replace(tzinfo=None) - _LONGEST_GAP
        late: deque[datetime] = deque()
        for day in self._days_from(earliest.date()):
            has_gap = self._at(day + _DAY) - self._at(day) < _DAY
            for hour in self.hours if day > earliest.date() else [it for it in self.hours if it >= earliest.hour]:
                for minute in self.minutes:
                    time = self._at(day, hour, minute)
                    if has_gap and self._is_from_gap(time, day, hour, minute):
                        late.append(time)
                        continue
                    while late and late[0] <= time:
                        yield late.popleft()
                    yield time

    def _is_from_gap(self, time: datetime, day: date, hour: int, minute: int) -> bool:
        shown = time.astimezone(self.zone)
        return (shown.date(), shown.hour, shown.minute) != (day, hour, minute)

    def _at(self, day: date, hour: int = 0, minute: int = 0) -> datetime:
        """The first time that is called so, or that much later if there is none."""
        return datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone).astimezone(UTC)

    def _clock_times(self, after: datetime) -> Iterator[datetime]:
        hours, minutes = frozenset(self.hours), frozenset(self.minutes)
        first = after.astimezone(self.zone).date()
        for day in self._days_from(first):
            time = after.replace(second=0, microsecond=0)
            if day > first:
                time = self._at(day)
            while (shown := time.astimezone(self.zone)).date() <= day:
                if shown.date() == day and shown.hour in hours and shown.minute in minutes:
                    yield time
                time += _MINUTE if shown.hour in hours else timedelta(minutes=60 - shown.minute)

    def _days_from(self, day: date) -> Iterator[date]:
        end = day + _FAR
        while day < end:
            if day.month not in self.months:
                day = day.replace(day=monthrange(day.year, day.month)[1])
            elif self._has(day):
                yield day
            day += _DAY

    def _has(self, day: date) -> bool:
        is_day = day.day in self.days or (self.has_last_day and (day + _DAY).day == 1)
        if is_day and self.is_either:
            return True
        return (is_day or self.is_either) and self._has_weekday(day)

    def _has_weekday(self, day: date) -> bool:
        weekday = day.isoweekday() % 7
        if weekday in self.weekdays or (weekday, (day.day + 6) // 7) in self.nth_weekdays:
            return True
        return (weekday, _LAST) in self.nth_weekdays and (day + 7 * _DAY).month != day.month


@lru_cache(maxsize=4096)
def _next_ms(cron: Cron, after_minute: int) -> int:
    """Once for all jobs of a pattern that end in a minute: a batch of them ends in one step of the event loop."""
    after = EPOCH + after_minute * _MINUTE
    try:
        return to_ms(next(time for time in cron.times(after) if time > after))
    except (StopIteration, OverflowError, ValueError):
        raise RepeatOutOfRange(f"'{cron}' has no time in the nine years after {after:%Y-%m-%d}") from None


def is_cron(text: str) -> bool:
    """Whether it is meant as a cron pattern: no other repeat begins with a digit, a star or an @."""
    return text.lstrip()[:1] in {"*", "@", *"0123456789"}


@lru_cache(maxsize=1024)
def parse_cron(text: str) -> Cron:
    """Raises InvalidRepeat, which says what part is wrong and what it could be."""
    parts = _spelled_out(text.split())
    if len(parts) == len(_FIELDS) + 1 and parts[-1][0] in {"*", "?", *"0123456789"}:
        raise InvalidRepeat(
            "this cron pattern has six fields. There is none for seconds: it is minute hour day month weekday, and a"
            " time zone may stand after them"
        )
    if len(parts) not in {len(_FIELDS), len(_FIELDS) + 1}:
        raise InvalidRepeat(
            "a cron pattern has five fields (minute hour day month weekday) and may have a time zone after them,"
            f" as in '0 9 * * MON-FRI Europe/Berlin'; this one has {len(parts)}"
        )
    minute, hour, day, month, weekday = fields = [part.upper() for part in parts[:5]]
    day_items, weekday_items = day.split(","), weekday.split(",")
    nth = [item for item in weekday_items if _NTH.fullmatch(item)]
    return Cron(
        " ".join([*fields, *parts[5:]]),
        _sorted(_FIELDS[0], minute.split(",")),
        _sorted(_FIELDS[1], hour.split(",")),
        frozenset(_sorted(_FIELDS[2], [item for item in day_items if item != "L"])),
        "L" in day_items,
        frozenset(_sorted(_FIELDS[3], month.split(","))),
        frozenset(value % 7 for value in _sorted(_FIELDS[4], [item for item in weekday_items if item not in nth])),
        frozenset(map(_nth_weekday, nth)),
        is_either=day[0] != "*" and weekday[0] != "*",
        runs_at_each="*" in {minute[0], hour[0]},
        zone=_zone(parts[5] if len(parts) > len(_FIELDS) else "UTC"),
    )


def _spelled_out(parts: list[str]) -> list[str]:
    """With the fields in place of a nickname."""
    if not parts[0].startswith("@"):
        return parts
    if (fields := _NICKNAMES.get(parts[0].upper())) is None:
        known = ", ".join(map(str.lower, _NICKNAMES))
        raise InvalidRepeat(f"{parts[0]!r:.60} is none of {known}, after which a time zone may stand")
    return [*fields.split(), *parts[1:]]


def _sorted(field: _Field, items: list[str]) -> tuple[int, ...]:
    return tuple(sorted(set().union(*map(field.values, items))))


def _nth_weekday(item: str) -> tuple[int, int]:
    match = _NTH.fullmatch(item)
    assert match is not None
    return _FIELDS[4].value(match[1]) % 7, int(match[2] or _LAST)


def _zone(name: str) -> ZoneInfo:
    zone = find_zone(name)
    if zone is None:
        raise InvalidRepeat(f"there is no time zone {name!r:.60}: it is a name such as Europe/Berlin, or UTC")
    return zone
