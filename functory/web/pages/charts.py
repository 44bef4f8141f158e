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
_SPARK_HEIGHT: Final = 100
_SPARK_PLACES: Final = tuple(f"M{bar * 4}" for bar in range(_SPARK_BARS))
_BARS_HEIGHT: Final = 1000
_NOTHING: Final = EndedSum(0, 0, 0, 0, 0, 0, 0)


def spark(ended: Mapping[int, EndedSum], now_ms: int) -> Markup:
    """The last hour in bars of two minutes: what went well below, what did not above.

    A page has fifty of them: whole numbers, one pass over the minutes and one over the bars.
    """
    first_ms = first_minute_ms(now_ms)
    good, bad = [0] * _SPARK_BARS, [0] * _SPARK_BARS
    for start, (ok, failed, retry, error, abandoned, cancelled, _) in ended.items():
        bar = (start - first_ms) // (2 * MINUTE_MS)
        if 0 <= bar < _SPARK_BARS:
            good[bar] += ok + cancelled
            bad[bar] += failed + retry + error + abandoned
    top = max(map(int.__add__, good, bad))
    if not top:
        return _svg("spark", _SPARK_BARS * 4, _SPARK_HEIGHT, "nothing ended in the last hour", "")
    label = f"last hour: {sum(good):,} ended well, {sum(bad):,} runs did not"
    good_bars, bad_bars = "", ""
    for place, well, ill in zip(_SPARK_PLACES, good, bad, strict=True):
        base = _SPARK_HEIGHT
        if well:
            tall = well * _SPARK_HEIGHT // top or 1
            good_bars += f"{place} {base}v-{tall}h3v{tall}z"
            base -= tall
        if ill:
            tall = ill * _SPARK_HEIGHT // top or 1
            bad_bars += f"{place} {base}v-{tall}h3v{tall}z"
    drawn = f'<path class="c-ok" d="{good_bars}"/>' if good_bars else ""
    drawn += f'<path class="c-failed" d="{bad_bars}"/>' if bad_bars else ""
    return _svg("spark", _SPARK_BARS * 4, _SPARK_HEIGHT, label, drawn)


def bars(ended: Mapping[int, EndedSum], now_ms: int) -> Markup:
    """The last hour minute by minute, stacked by outcome; hovering a minute says its numbers."""
    rows = _rows(ended, now_ms)
    totals = [sum(row[:6]) for row in rows]
    top = max(totals)
    first_ms = first_minute_ms(now_ms)
    base = [_BARS_HEIGHT] * MINUTES
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
    first_ms = first_minute_ms(now_ms)
    return _total([it for start, it in ended.items() if start >= first_ms])


def first_minute_ms(now_ms: int) -> int:
    """Where the last hour begins: sixty minutes, of which this one is the last."""
    return (now_ms // MINUTE_MS - MINUTES + 1) * MINUTE_MS


def _rows(ended: Mapping[int, EndedSum], now_ms: int) -> list[EndedSum]:
    first_ms = first_minute_ms(now_ms)
    return [ended.get(first_ms + n * MINUTE_MS, _NOTHING) for n in range(MINUTES)]


def _total(rows: Sequence[EndedSum]) -> EndedSum:
    return EndedSum._make(map(sum, zip(*rows, strict=True))) if rows else _NOTHING


def _path(kind: str, values: Sequence[int], base: list[int], top: int, height: int, step: int) -> str:
    """Bars of one kind that stand at `base`, which moves up by them. What there is is seen: one unit at least."""
    parts = []
    width = step - 1
    for n, value in enumerate(values):
        if value:
            tall = value * height // top or 1
            parts.append(f"M{n * step} {base[n]}v-{tall}h{width}v{tall}z")
            base[n] -= tall
    return f'<path class="{kind}" d="{"".join(parts)}"/>' if parts else ""


def _svg(kind: str, width: int, height: int, label: str, drawn: str) -> Markup:
    return Markup(  # noqa: S704 (all of it is numbers, and words of this file)
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img"'
        f' aria-label="{label}">{drawn}</svg>'
    )


def _words(row: EndedSum) -> str:
    return ", ".join(f"{getattr(row, name):,} {name}" for name in OUTCOMES if getattr(row, name)) or "nothing"
