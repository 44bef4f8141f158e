"""Repeating jobs: `BASE, modifier, modifier…` or a cron pattern (cron.py) says when the next round is due.

Owns the syntax and the arithmetic, which is SQLite's for its date modifiers, in whole seconds UTC: modifiers apply from
left to right; a month or year that lacks the day runs over into the next month (January 31 + 1 month is March 2 or 3).

    repeat    = canned | base "," modifier {"," modifier} | cron
    canned    = HOURLY | DAILY | WEEKLY           (FINISHED, +1 HOUR | +1 DAY | +7 DAYS)
    base      = SCHEDULED | STARTED | FINISHED
    modifier  = ("+" | "-") number unit | START OF (DAY | MONTH | YEAR) | WEEKDAY (0…6, 0 = Sunday)
    unit      = SECOND[S] | MINUTE[S] | HOUR[S] | DAY[S] | MONTH[S] | YEAR[S]

In any letter case, with any spaces. `SCHEDULED, +1 HOUR` catches up: after an outage the next round may be in the past.
A pattern whose next round is not after its base would run the job again at once, for ever: RepeatStuck.
A cron pattern never catches up: its next round is at its first time after the end of this one.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from scheduler.cron import Cron, is_cron, parse_cron
from scheduler.errors import InvalidRepeat, RepeatOutOfRange, RepeatStuck
from vocabulary.time_text import EPOCH, to_ms

MAX_CHARS: Final = 200
MAX_MODIFIERS: Final = 10

_FIXED: Final = {
    "SECOND": timedelta(seconds=1),
    "MINUTE": timedelta(minutes=1),
    "HOUR": timedelta(hours=1),
    "DAY": timedelta(days=1),
}
_MONTHS: Final = {"MONTH": 1, "YEAR": 12}
_SHIFT: Final = re.compile(r"([+-]) ?([0-9]{1,9}) (SECOND|MINUTE|HOUR|DAY|MONTH|YEAR)S?")
_START: Final = re.compile(r"START OF (DAY|MONTH|YEAR)")
_WEEKDAY: Final = re.compile(r"WEEKDAY ([0-6])")


class Base(StrEnum):
    """The moment from which the next round is reckoned."""

    SCHEDULED = "SCHEDULED"
    STARTED = "STARTED"
    FINISHED = "FINISHED"


class Shift(NamedTuple):
    amount: int
    unit: str

    def apply(self, at: datetime) -> datetime:
        if self.unit in _FIXED:
            return at + self.amount * _FIXED[self.unit]
        years, month = divmod(at.month - 1 + self.amount * _MONTHS[self.unit], 12)
        return at.replace(year=at.year + years, month=month + 1, day=1) + timedelta(days=at.day - 1)

    def __str__(self) -> str:
        return f"{self.amount:+d} {self.unit}{'' if abs(self.amount) == 1 else 'S'}"


class StartOf(NamedTuple):
    unit: str

    def apply(self, at: datetime) -> datetime:
        day = at.replace(hour=0, minute=0, second=0)
        if self.unit == "DAY":
            return day
        return day.replace(day=1) if self.unit == "MONTH" else day.replace(month=1, day=1)

    def __str__(self) -> str:
        return f"START OF {self.unit}"


class Weekday(NamedTuple):
    """The next such day, at the same time; the same day if it is one. 0 is Sunday."""

    day: int

    def apply(self, at: datetime) -> datetime:
        return at + timedelta(days=(self.day - at.isoweekday()) % 7)

    def __str__(self) -> str:
        return f"WEEKDAY {self.day}"


Modifier = Shift | StartOf | Weekday


@dataclass(frozen=True, slots=True)
class Repeat:
    base: Base
    modifiers: tuple[Modifier, ...]

    def __str__(self) -> str:
        return ", ".join([self.base, *map(str, self.modifiers)])


CANNED: Final = {
    "HOURLY": Repeat(Base.FINISHED, (Shift(1, "HOUR"),)),
    "DAILY": Repeat(Base.FINISHED, (Shift(1, "DAY"),)),
    "WEEKLY": Repeat(Base.FINISHED, (Shift(7, "DAY"),)),
}


def parse_repeat(text: str) -> Repeat | Cron:
    """Raises InvalidRepeat, which says what part is wrong and what it could be."""
    if is_cron(text):
        return parse_cron(_not_too_long(text))
    parts = _split(text)
    if len(parts) == 1 and parts[0] in CANNED:
        return CANNED[parts[0]]
    if parts[0] not in Base.__members__:
        raise InvalidRepeat(
            f"a repeat begins with {', '.join(Base)}, is one of {', '.join(CANNED)}, or a cron pattern such as"
            f" '0 9 * * MON-FRI Europe/Berlin'; not {parts[0]!r:.60}"
        )
    if len(parts) == 1:
        raise InvalidRepeat(f"{parts[0]} needs a modifier after it, as in '{parts[0]}, +1 HOUR'")
    return Repeat(Base[parts[0]], tuple(map(_parse_modifier, parts[1:])))


def parse_modifiers(text: str) -> tuple[Modifier, ...]:
    """Modifiers without a base, as in a `retryAfter` of '+10 MINUTES'. Raises InvalidRepeat."""
    return tuple(map(_parse_modifier, _split(text)))


def first_run_ms(repeat: Repeat | Cron, now_ms: int) -> int:
    """When the first round is due if nobody says when: at once, or at the first time of the calendar.

    Raises RepeatOutOfRange.
    """
    return repeat.next_ms(now_ms) if isinstance(repeat, Cron) else now_ms


def next_run_ms(repeat: Repeat | Cron, *, scheduled_ms: int, started_ms: int, finished_ms: int) -> int:
    """When the next round is due. May be in the past, for the caller to run at once.

    Raises RepeatStuck or RepeatOutOfRange.
    """
    if isinstance(repeat, Cron):
        return repeat.next_ms(max(scheduled_ms, finished_ms))  # a clock that was put back runs no round twice
    base_ms = {Base.SCHEDULED: scheduled_ms, Base.STARTED: started_ms, Base.FINISHED: finished_ms}[repeat.base]
    due_ms = apply_modifiers(repeat.modifiers, base_ms)
    if due_ms <= base_ms:
        raise RepeatStuck(
            f"'{repeat}' does not lead forward from {_at(base_ms):%Y-%m-%d %H:%M:%S} UTC: "
            "put an advance such as +1 DAY in it, before START OF or WEEKDAY"
        )
    return due_ms


def next_times_ms(repeat: Repeat | Cron, first_ms: int, count: int) -> list[int]:
    """So many times, the first one and those that follow it if each round takes no time; fewer where the calendar ends.

    Raises RepeatStuck.
    """
    times_ms = [first_ms]
    try:
        while len(times_ms) < count:
            at_ms = times_ms[-1]
            times_ms.append(next_run_ms(repeat, scheduled_ms=at_ms, started_ms=at_ms, finished_ms=at_ms))
    except RepeatOutOfRange:
        pass
    return times_ms


def check_repeat(repeat: Repeat | Cron, now_ms: int) -> None:
    """Find most patterns that cannot work before a job is accepted: the next round is tried, and the one after it,
    since `START OF DAY, +23 HOURS` leads forward once. Raises RepeatStuck or RepeatOutOfRange."""
    for _ in range(2):
        now_ms = next_run_ms(repeat, scheduled_ms=now_ms, started_ms=now_ms, finished_ms=now_ms)


def apply_modifiers(modifiers: tuple[Modifier, ...], at_ms: int) -> int:
    """In whole seconds: the milliseconds of `at_ms` are cut off. Raises RepeatOutOfRange outside years 1 to 9999."""
    try:
        at = _at(at_ms)
        for modifier in modifiers:
            at = modifier.apply(at)
    except (OverflowError, ValueError) as error:
        pattern = ", ".join(map(str, modifiers))
        raise RepeatOutOfRange(f"'{pattern}' leads out of the years 1 to 9999") from error
    return to_ms(at)


def _at(at_ms: int) -> datetime:
    return EPOCH + timedelta(seconds=at_ms // 1000)


def _not_too_long(text: str) -> str:
    if len(text) > MAX_CHARS:
        raise InvalidRepeat(f"a repeat has at most {MAX_CHARS} characters, this one has {len(text)}")
    return text


def _split(text: str) -> list[str]:
    parts = [" ".join(part.upper().split()) for part in _not_too_long(text).split(",")]
    if len(parts) > MAX_MODIFIERS + 1:
        raise InvalidRepeat(f"a repeat has at most {MAX_MODIFIERS} modifiers, this one has {len(parts) - 1}")
    return parts


def _parse_modifier(part: str) -> Modifier:
    if match := _SHIFT.fullmatch(part):
        sign, digits, unit = match.groups()
        return Shift(int(sign + digits), unit)
    if match := _START.fullmatch(part):
        return StartOf(match[1])
    if match := _WEEKDAY.fullmatch(part):
        return Weekday(int(match[1]))
    raise InvalidRepeat(
        f"{part!r:.60} is not a modifier: +N or -N with SECONDS, MINUTES, HOURS, DAYS, MONTHS or YEARS; "
        "START OF DAY, MONTH or YEAR; WEEKDAY 0 to 6"
    )
