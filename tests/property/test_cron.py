"""A cron pattern against a plain walk over every minute."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from scheduler.cron import parse_cron
from scheduler.errors import InvalidRepeat, RepeatOutOfRange
from scheduler.repeat import parse_repeat

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/Havana",
    "America/Nuuk",
]
TRANSITIONS = [datetime(2026, 3, 8, tzinfo=UTC), datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 4, tzinfo=UTC)]
DAYS = 3


def field(least: int, most: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    """The text of a field that does not begin with a star, and what it means."""
    values = st.frozensets(st.integers(least, most), min_size=1, max_size=3)
    return values.map(lambda some: (",".join(map(str, sorted(some))), some))


def anything(least: int, most: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    every = frozenset(range(least, most + 1))
    steps = st.integers(1, most).map(lambda step: (f"*/{step}", frozenset(range(least, most + 1, step))))
    return st.one_of(st.just(("*", every)), steps, field(least, most))


@given(
    anything(0, 59),
    anything(0, 23),
    anything(0, 6),
    st.sampled_from(ZONES),
    st.sampled_from(TRANSITIONS),
    st.integers(-1440, 2880),
)
def test_a_pattern_comes_when_a_walk_over_all_minutes_finds_it(
    minute: tuple[str, frozenset[int]],
    hour: tuple[str, frozenset[int]],
    weekday: tuple[str, frozenset[int]],
    zone: str,
    near: datetime,
    offset: int,
) -> None:
    cron = parse_cron(f"{minute[0]} {hour[0]} * * {weekday[0]} {zone}")
    after = near + timedelta(minutes=offset, seconds=7)
    due = datetime.fromtimestamp(cron.next_ms(int(after.timestamp() * 1000)) / 1000, UTC)
    each = "*" in {minute[0][0], hour[0][0]}
    walked = walk(after, DAYS * 1440, minute[1], hour[1], weekday[1], ZoneInfo(zone), each=each)
    assert due == walked if walked is not None else due > after + timedelta(days=DAYS - 1)


def walk(
    after: datetime,
    minutes: int,
    of_minutes: frozenset[int],
    of_hours: frozenset[int],
    of_weekdays: frozenset[int],
    zone: ZoneInfo,
    *,
    each: bool,
) -> datetime | None:
    """The first time that fits. A time that is named comes once, and later by the gap if it falls into one."""

    def fits(shown: datetime) -> bool:
        day = shown.isoweekday() % 7
        return shown.minute in of_minutes and shown.hour in of_hours and day in of_weekdays

    time = after.replace(second=0) + timedelta(minutes=1)
    for _ in range(minutes):
        shown = time.astimezone(zone)
        if fits(shown) and (each or not shown.fold):
            return time
        before = shown.replace(tzinfo=None) - (gap := _gap_before(time, zone))
        if gap and not each and fits(before) and _is_missing(before, zone):
            return time
        time += timedelta(minutes=1)
    return None


def _gap_before(time: datetime, zone: ZoneInfo) -> timedelta:
    """By how much clocks were put forward in the last two hours."""
    now, earlier = time.astimezone(zone).utcoffset(), (time - timedelta(hours=2)).astimezone(zone).utcoffset()
    assert now is not None
    assert earlier is not None
    return max(now - earlier, timedelta())


def _is_missing(naive: datetime, zone: ZoneInfo) -> bool:
    there = naive.replace(tzinfo=zone)
    return there.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != naive


@given(st.text(alphabet="0123456789*/-,#LMONSUFRI ", max_size=60).map(lambda text: f"*{text}"))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    try:
        cron = parse_repeat(text)
    except InvalidRepeat:
        return
    try:
        parse_cron(str(cron)).next_ms(0)
    except RepeatOutOfRange:
        return
