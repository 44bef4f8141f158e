"""Tables for terminals: a header, a rule, aligned columns; states and outcomes in colour."""

import os
import sys
from collections.abc import Sequence
from typing import Final

_GREEN, _YELLOW, _RED, _BLUE, _GREY, _BOLD = "32", "33", "31", "36", "90", "1"
_COLOURS: Final = {
    "ok": _GREEN,
    "retry": _YELLOW,
    "failed": _RED,
    "error": _RED,
    "abandoned": _RED,
    "cancelled": _GREY,
    "running": _BLUE,
    "lapsed": _YELLOW,
    "suspended": _YELLOW,
    "held": _YELLOW,
    "paused": _YELLOW,
}


def is_coloured() -> bool:
    """Whether standard output is a terminal whose user wants colour (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(word: str, *, on: bool | None = None) -> str:
    """A state or an outcome in its colour; any other word as it is."""
    colour = _COLOURS.get(word.strip())
    return f"\x1b[{colour}m{word}\x1b[0m" if colour and (is_coloured() if on is None else on) else word


def render_table(headers: Sequence[str], rows: Sequence[Sequence[object]], *, coloured: bool | None = None) -> str:
    """Columns as wide as their widest cell; numbers to the right, everything else to the left."""
    on = is_coloured() if coloured is None else coloured
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    numeric = [bool(rows) and all(isinstance(row[n], int | float) for row in rows) for n in range(len(headers))]

    def line(row: Sequence[str]) -> list[str]:
        return [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]

    head = "  ".join(line(headers)).rstrip()
    rule = "  ".join("-" * width for width in widths)
    body = ["  ".join(paint(cell, on=on) for cell in line(row)).rstrip() for row in cells]
    return "\n".join([f"\x1b[{_BOLD}m{head}\x1b[0m" if on else head, rule, *body])


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
