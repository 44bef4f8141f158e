"""Charts as inline SVG, drawn from numbers alone: nothing that a tenant wrote comes near them.

Bars of one outcome are one path, so a page of fifty charts stays small. Colours are classes of the style sheet.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from functory.web.pages.words import minute
from store.base import EndedSum
from store.values.scoreboard import MINUTE_MS

OUTCOMES: Final = ("ok", "retry", "failed", "error", "abandoned", "cancelled")
"""From the bottom of a bar to its top, and in every legend."""

MINUTES: Final = 60
_SPARK_BARS: Final = 30
_SPARK_HEIGHT: Final = 20
_BARS_HEIGHT: Final = 100
_NOTHING: Final = EndedSum(0, 0, 0, 0, 0, 0, 0)


def spark(ended: Mapping[int, EndedSum], now_ms: int) -> Markup:
    """The last hour in bars of two minutes: what went well below, what did not above."""
    rows = _rows(ended, now_ms)
    pairs = [rows[n] for n in range(MINUTES)]
    good: list[int] = []
    bad: list[int] = []
    for n in range(0, MINUTES, MINUTES // _SPARK_BARS):
        here = pairs[n : n + MINUTES // _SPARK_BARS]
        good.append(sum(it.ok + it.cancelled for it in here))
        bad.append(sum(it.failed + it.abandoned + it.retry + it.error for it in here))
    top = max(map(sum, zip(good, bad, strict=True)))
    label = "nothing ended in the last hour"
    paths = ""
    if top:
        label = f"last hour: {sum(good):,} ended well, {sum(bad):,} runs did not"
        base = [0.0] * _SPARK_BARS
        paths = _path("c-ok", good, base, top, _SPARK_HEIGHT, 4) + _path("c-failed", bad, base, top, _SPARK_HEIGHT, 4)
    return _svg("spark", _SPARK_BARS * 4, _SPARK_HEIGHT, label, paths)


def bars(ended: Mapping[int, EndedSum], now_ms: int) -> Markup:
    """The last hour minute by minute, stacked by outcome; hovering a minute says its numbers."""
    rows = _rows(ended, now_ms)
    totals = [sum(row[:6]) for row in rows]
    top = max(totals)
    first_ms = _first_ms(now_ms)
    base = [0.0] * MINUTES
    paths = ""
    if top:
        for name in OUTCOMES:
            paths += _path(f"c-{name}", [getattr(row, name) for row in rows], base, top, _BARS_HEIGHT, 10)
    hovers = "".join(
        f'<rect class="hover" x="{n * 10}" y="0" width="10" height="{_BARS_HEIGHT}">'
        f"<title>{minute(first_ms + n * MINUTE_MS)} UTC: {_words(row)}</title></rect>"
        for n, row in enumerate(rows)
        if totals[n]
    )
    label = f"ended runs of the last hour, minute by minute: {_words(_total(rows))}; at most {top:,} a minute"
    return _svg("bars", MINUTES * 10, _BARS_HEIGHT, label, paths + hovers)


def share_bar(share: float) -> Markup:
    """A part of a whole."""
    width = max(0.0, min(share, 1.0)) * 100
    drawn = f'<rect class="track" width="100" height="8"/><rect class="fill" width="{width:.1f}" height="8"/>'
    return _svg("share", 100, 8, f"{width:.0f} %", drawn)


def peak(ended: Mapping[int, EndedSum], now_ms: int) -> int:
    """The most that ended in one minute: the scale of `bars`."""
    return max(sum(row[:6]) for row in _rows(ended, now_ms))


def total(ended: Mapping[int, EndedSum], now_ms: int) -> EndedSum:
    """Over the last hour."""
    return _total(_rows(ended, now_ms))


def first_minute_ms(now_ms: int) -> int:
    return _first_ms(now_ms)


def _first_ms(now_ms: int) -> int:
    return (now_ms // MINUTE_MS - MINUTES + 1) * MINUTE_MS


def _rows(ended: Mapping[int, EndedSum], now_ms: int) -> list[EndedSum]:
    first_ms = _first_ms(now_ms)
    return [ended.get(first_ms + n * MINUTE_MS, _NOTHING) for n in range(MINUTES)]


def _total(rows: Sequence[EndedSum]) -> EndedSum:
    return EndedSum._make(map(sum, zip(*rows, strict=True)))


def _path(kind: str, values: Sequence[int], base: list[float], top: int, height: int, step: int) -> str:
    """Bars of one kind on top of `base`, which grows by them."""
    parts = []
    for n, value in enumerate(values):
        if value:
            tall = value / top * height
            parts.append(f"M{n * step} {height - base[n]:.1f}v-{tall:.1f}h{step - 1}v{tall:.1f}z")
            base[n] += tall
    return f'<path class="{kind}" d="{"".join(parts)}"/>' if parts else ""


def _svg(kind: str, width: int, height: int, label: str, drawn: str) -> Markup:
    return Markup(  # noqa: S704 (all of it is numbers, and words of this file)
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img"'
        f' aria-label="{label}">{drawn}</svg>'
    )


def _words(row: EndedSum) -> str:
    return ", ".join(f"{getattr(row, name):,} {name}" for name in OUTCOMES if getattr(row, name)) or "nothing"
