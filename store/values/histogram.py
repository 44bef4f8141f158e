"""A small log-scale histogram: mergeable counts from which quantiles are read.

Four cells to every power of two, so a quantile is within 12.5 % of the truth, for any value from 0 to 2**62,
in at most 248 cells. A real distribution fills a few dozen.
Never keeps the values themselves.
"""

from collections import Counter
from collections.abc import Iterable, Mapping


def cell_of(value: int) -> int:
    """The cell of a value; values below 4 have a cell each, negative ones count as 0."""
    if value < 4:
        return max(value, 0)
    shift = value.bit_length() - 3
    return (shift + 1) * 4 + ((value >> shift) & 3)


def cell_bounds(cell: int) -> tuple[int, int]:
    """The half-open range of values that fall into a cell."""
    if cell < 4:
        return cell, cell + 1
    shift = cell // 4 - 1
    low = (4 + (cell & 3)) << shift
    return low, low + (1 << shift)


class Histogram:
    """Counts by cell. Equal when the counts are."""

    __slots__ = ("cells",)

    def __init__(self, cells: Mapping[int, int] | None = None) -> None:
        self.cells: dict[int, int] = dict(cells or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and self.cells == other.cells

    __hash__ = None  # type: ignore[assignment]  # mutable: merged in place

    def __repr__(self) -> str:
        return f"Histogram({dict(sorted(self.cells.items()))})"

    def record(self, values: Iterable[int]) -> None:
        """Equal values are looked at once: a batch has many."""
        for value, count in Counter(values).items():
            cell = cell_of(value)
            self.cells[cell] = self.cells.get(cell, 0) + count

    def merge(self, other: "Histogram") -> None:
        for cell, count in other.cells.items():
            self.cells[cell] = self.cells.get(cell, 0) + count

    @property
    def count(self) -> int:
        return sum(self.cells.values())

    def quantile(self, q: float) -> int | None:
        """The middle of the cell in which the quantile falls; None of an empty histogram."""
        if not self.cells:
            return None
        rank = q * (self.count - 1)
        seen = 0
        for cell in sorted(self.cells):
            seen += self.cells[cell]
            if seen > rank:
                break
        low, high = cell_bounds(cell)
        return (low + high - 1) // 2

    def encode(self) -> str:
        """Compact text: `cell:count` by spaces, in order of cells."""
        return " ".join([f"{cell}:{count}" for cell, count in sorted(self.cells.items())])

    @classmethod
    def decode(cls, text: str) -> "Histogram":
        pairs = (pair.split(":") for pair in text.split())
        return cls({int(cell): int(count) for cell, count in pairs})
