"""The newest lines, as they were written: a reader that keeps up takes them from memory.

Reading back what was synced a moment ago costs a change of threads, a checksum and taking the text apart, which is most
of what a short batch costs to read. This only ever spares that: what is not here, because it is older than the bound or
came before a new segment, is on disk, and whoever reads goes there.
"""

from collections import deque
from typing import Final, NamedTuple

from journal.cursor import Position
from journal.lines import Piece
from journal.writes import Batch

_OVERHEAD_BYTES: Final = 1000
"""Of a batch in memory, beside its lines: without it ten thousand short ones would seem to weigh nothing."""


class _Placed(NamedTuple):
    """A batch, and where it is in the journal."""

    segment: int
    offset: int
    end: int
    batch: Batch


class Recent:
    """Batches go in as they are acknowledged, in the order of the journal. All on the event loop."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._batches: deque[_Placed] = deque()

    def add(self, segment: int, offset: int, end: int, batch: Batch) -> None:
        self._batches.append(_Placed(segment, offset, end, batch))
        self._size_bytes += len(batch.body) + _OVERHEAD_BYTES
        while self._size_bytes > self._max_bytes:
            self._drop()

    def read(self, start: Position, max_lines: int, max_bytes: int) -> Piece | None:
        """Up to so many lines from `start` on, and at least one; None when they are not here. Those before it are
        forgotten: readers go forward, and who goes back reads from disk."""
        while self._batches and (self._batches[0].segment, self._batches[0].end) <= start[:2]:
            self._drop()
        piece = Piece([], start, start)
        for placed in self._batches:
            max_bytes -= len(placed.batch.body)
            begin, left = piece.end.line, max_lines - len(piece.records)
            if placed[:2] != piece.end[:2] or left == 0 or max_bytes < 0:
                break
            end = min(placed.batch.lines, begin + left)
            is_whole = end == placed.batch.lines
            piece.records.extend(placed.batch.records(begin, end))
            reached = Position(placed.segment, placed.end, 0) if is_whole else piece.end._replace(line=end)
            piece = piece._replace(end=reached)
        return piece if piece.records else None

    def _drop(self) -> None:
        self._size_bytes -= len(self._batches.popleft().batch.body) + _OVERHEAD_BYTES
