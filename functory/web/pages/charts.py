"""Charts as inline SVG, drawn from numbers alone: they contain nothing that a tenant wrote.

Bars of one outcome are one path, so a page of fifty charts stays small. Colours are classes of the style sheet.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from functory.operations.consumers import WindowPart
from functory.web.pages.number_text import minute
from store.base import EndedSum
from store.values.scoreboard import MINUTE_MS

OUTCOMES: Final = ("ok", "retry", "failed", "error", "abandoned", "cancelled")
"""From the bottom of a bar to its top, and in every legend."""

MINUTES: Final = 60
_SPARK_BARS: Final = 30
_SPARK_HEIGHT: Final = 100
_SPARK_PLACES: Final = tuple(f"M{bar * 4}" for bar in range(_SPARK_BARS))
_BARS_HEIGHT: Final = 1000
_WINDOW_CELLS: Final = 200
_WINDOW_WORDS: Final = 20
_NOTHING: Final = EndedSum()


def spark(ended: Mapping[int, EndedSum], now_ms: int) -> Markup:
    """The last hour in bars of two minutes: successes below, then retries and failures, and what was cancelled on top.

    A page has fifty of these, so it uses whole numbers, one pass over the minutes and one over the bars.
    """
    first_ms = first_minute_ms(now_ms)
    good, late, bad, off = [0] * _SPARK_BARS, [0] * _SPARK_BARS, [0] * _SPARK_BARS, [0] * _SPARK_BARS
    for start, (ok, failed, retry, error, abandoned, cancelled, _) in ended.items():
        bar = (start - first_ms) // (2 * MINUTE_MS)
        if 0 <= bar < _SPARK_BARS:
            good[bar] += ok
            late[bar] += retry
            bad[bar] += failed + error + abandoned
            off[bar] += cancelled
    top = max(map(sum, zip(good, late, bad, off, strict=True)))
    if not top:
        return _svg("spark", _SPARK_BARS * 4, _SPARK_HEIGHT, "no runs in the last hour", "")
    label = f"last hour: {sum(good):,} succeeded, {sum(late):,} retried, {sum(bad):,} failed"
    label += f", {sum(off):,} cancelled" if any(off) else ""
    base, drawn = [_SPARK_HEIGHT] * _SPARK_BARS, ""
    for name, counts in (("ok", good), ("retry", late), ("failed", bad), ("cancelled", off)):
        path = ""
        for n, count in enumerate(counts):
            if count:
                tall = count * _SPARK_HEIGHT // top or 1
                path += f"{_SPARK_PLACES[n]} {base[n]}v-{tall}h3v{tall}z"
                base[n] -= tall
        drawn += f'<path class="c-{name}" d="{path}"/>' if path else ""
    return _svg("spark", _SPARK_BARS * 4, _SPARK_HEIGHT, label, drawn)


def bars(ended: Mapping[int, EndedSum], now_ms: int) -> Markup:
    """The last hour by the minute, stacked by outcome. Hovering over a minute shows its numbers."""
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
        f'<rect class="hover" data-minute="{first_ms + n * MINUTE_MS}" x="{n * 10}" y="0" width="10"'
        f' height="{_BARS_HEIGHT}">'
        f"<title>{minute(first_ms + n * MINUTE_MS)} UTC: {_words(row)}</title></rect>"
        for n, row in enumerate(rows)
        if totals[n]
    )
    label = f"ended runs of the last hour, minute by minute: {_words(_total(rows))}; at most {top:,} per minute"
    return _svg("bars", MINUTES * 10, _BARS_HEIGHT, label, paths + hovers)


def share_bar(share: float) -> Markup:
    """A part of a whole."""
    width = max(0.0, min(share, 1.0)) * 100
    drawn = f'<rect class="track" width="100" height="8"/><rect class="fill" width="{width:.1f}" height="8"/>'
    return _svg("share", 100, 8, f"{width:.0f} %", drawn)


def window_bar(parts: Sequence[WindowPart]) -> Markup:
    """The window of a consumer: what is done, in work and failed. With many indexes each cell stands for several of
    them, and shows what needs attention."""
    if not parts:
        return Markup("")
    first, last = parts[0].first, parts[-1].last
    step = -(-(last - first + 1) // _WINDOW_CELLS)
    cells = [""] * -(-(last - first + 1) // step)
    for state, kind in (("done", "c-ok"), ("in_work", "c-running"), ("failed", "c-failed")):
        for part in parts:
            if part.state == state:
                for place in range((part.first - first) // step, (part.last - first) // step + 1):
                    cells[place] = kind
    drawn = ""
    for kind in ("c-ok", "c-running", "c-failed"):
        path = "".join(f"M{n * 10} 0h9v20h-9z" for n, cell in enumerate(cells) if cell == kind)
        drawn += f'<path class="{kind}" d="{path}"/>' if path else ""
    words = ", ".join(f"{it.first:,} to {it.last:,} {it.state.replace('_', ' ')}" for it in parts[:_WINDOW_WORDS])
    return _svg("window", len(cells) * 10, 20, words + (", and more" if len(parts) > _WINDOW_WORDS else ""), drawn)


def peak(ended: Mapping[int, EndedSum], now_ms: int) -> int:
    """The highest number that ended in one minute: the scale of `bars`."""
    return max(sum(row[:6]) for row in _rows(ended, now_ms))


def total(ended: Mapping[int, EndedSum], now_ms: int) -> EndedSum:
    """The sum over the last hour."""
    first_ms = first_minute_ms(now_ms)
    return _total([it for start, it in ended.items() if start >= first_ms])


def first_minute_ms(now_ms: int) -> int:
    """The start of the last hour: sixty minutes, and this one is the last."""
    return (now_ms // MINUTE_MS - MINUTES + 1) * MINUTE_MS


def _rows(ended: Mapping[int, EndedSum], now_ms: int) -> list[EndedSum]:
    first_ms = first_minute_ms(now_ms)
    return [ended.get(first_ms + n * MINUTE_MS, _NOTHING) for n in range(MINUTES)]


def _total(rows: Sequence[EndedSum]) -> EndedSum:
    return EndedSum._make(map(sum, zip(*rows, strict=True))) if rows else _NOTHING


def _path(kind: str, values: Sequence[int], base: list[int], top: int, height: int, step: int) -> str:
    """Bars of one kind on top of `base`, which they raise. Anything above zero is at least one unit high, so that
    it can be seen."""
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
