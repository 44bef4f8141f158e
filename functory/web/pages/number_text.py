"""Numbers, sizes, durations and times in words. Pure; the templates use them as filters."""

from datetime import UTC, datetime
from typing import Final

from vocabulary.time_text import iso_time

_DURATIONS: Final = ((86_400, "d"), (3600, "h"), (60, "m"))


def count(value: float) -> str:
    """With separators; shortened when it would not fit a column."""
    if value >= 10_000_000:
        return f"{value / 1e6:,.0f} M"
    if value >= 1_000_000:
        return f"{value / 1e6:.2f} M"
    return f"{value:,.0f}"


def whole(value: int) -> str:
    """With separators and never shortened: for a number that names something."""
    return f"{value:,}"


def size(size_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024 or unit == "GiB":
            return f"{size_bytes:,.0f} {unit}" if unit == "B" or size_bytes >= 100 else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    raise AssertionError("the last unit takes all")


def micros(value_us: float | None) -> str:
    """A duration that was measured."""
    if value_us is None:
        return "-"
    if value_us < 1000:
        return f"{value_us:.0f} µs"
    if value_us < 1_000_000:
        return f"{value_us / 1000:.{0 if value_us >= 100_000 else 1}f} ms"
    return seconds(value_us / 1e6)


def seconds(value_s: float) -> str:
    """`4.2 s`, `3 m 20 s`, `2 h 5 m`, `3 d 4 h`."""
    if value_s < 60:
        return f"{value_s:.1f} s" if value_s < 10 else f"{value_s:.0f} s"
    whole = round(value_s)
    for place, (unit_s, name) in enumerate(_DURATIONS):
        if whole >= unit_s:
            smaller_s, smaller = (*_DURATIONS, (1, "s"))[place + 1]
            rest = whole % unit_s // smaller_s
            return f"{whole // unit_s} {name}" + (f" {rest} {smaller}" if rest else "")
    raise AssertionError("sixty seconds are a minute")


def ago(time_ms: int, now_ms: int) -> str:
    """How long before now, or after."""
    delta_s = (now_ms - time_ms) / 1000
    if abs(delta_s) < 1:
        return "now"
    text = seconds(abs(delta_s)) if abs(delta_s) >= 10 else f"{abs(delta_s):.0f} s"
    return f"{text} ago" if delta_s > 0 else f"in {text}"


def per_minute(value: float) -> str:
    """A rate, in the unit in which it is easy to read."""
    if value >= 600:
        return f"{value / 60:,.0f}/s"
    if value >= 10:
        return f"{value:,.0f}/min"
    return f"{value:.1f}/min" if value else "-"


def percent(share: float) -> str:
    if 0 < share < 0.001:
        return "<0.1 %"
    return f"{share * 100:.{1 if share < 0.1 else 0}f} %"


def iso(time_ms: int) -> str:
    """The `datetime` attribute of a time element."""
    return iso_time(time_ms)


def utc(time_ms: int) -> str:
    """Shown when hovering."""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{time_ms % 1000:03d} UTC"


def clock(time_ms: int) -> str:
    """Shown on the page until a script replaces it with the reader's own time zone."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%d %b %Y %H:%M:%S UTC")


def minute(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%H:%M")
