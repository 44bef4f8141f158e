"""Reading lines from a position onwards, over segment borders and past damage, in bounded pieces.

Never loads a segment: it holds one window of the file and one batch. Damage is reported and stepped over, because a
bad sector must not stop the lines behind it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from journal.cursor import END, Position
from journal.disk import Disk, File
from journal.format import Frame, Record, decode_records
from journal.segment import FIRST_FRAME, Damage, FrameReader, Segment


class Piece(NamedTuple):
    """Consecutive lines, and where they begin and end."""

    records: list[Record]
    start: Position
    end: Position


class LineReader:
    """Remembers where the last piece ended, so that reading on never looks at the same bytes twice."""

    def __init__(self, disk: Disk, on_damage: Callable[[int, Damage], None]) -> None:
        self._disk = disk
        self._on_damage = on_damage
        self._number = 0
        self._file: File | None = None
        self._frames: FrameReader | None = None
        self._frame: Frame | None = None
        self._records: list[Record] = []
        self._line = 0

    def read(
        self,
        start: Position,
        segments: Mapping[int, Segment],
        max_lines: int,
        max_bytes: int,
        stop: Position = END,
    ) -> Piece:
        """Up to `max_lines` lines from `start` on; fewer at `max_bytes` (but always one), at `stop`, or
        where the lines end."""
        if self._frames is None or start != self._position():
            self._seek(start, segments)
        elif self._number in segments:
            self._frames.extend(segments[self._number].end)
        records: list[Record] = []
        first: Position | None = None
        while len(records) < max_lines and max_bytes > 0:
            if self._line == len(self._records) and not self._next_batch(segments):
                break
            if first is None or stop is not END:
                here = self._position()
                if here >= stop:
                    break
                first = first or here
            taken = self._take(max_lines - len(records), max_bytes, stop)
            records += taken
            max_bytes -= sum([len(record.payload) for record in taken])
        end = self._position() if self._frames else start
        return Piece(records, first or end, end)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = self._frames = self._frame = None
        self._records, self._line = [], 0

    def _position(self) -> Position:
        assert self._frames is not None
        if self._frame is not None and self._line < len(self._records):
            return Position(self._number, self._frame.offset, self._line)
        return Position(self._number, self._frames.offset, 0)

    def _seek(self, start: Position, segments: Mapping[int, Segment]) -> None:
        segment = segments.get(start.segment)
        if segment is None:  # read up and removed: go on with what follows
            self._open_after(start.segment, segments)
            return
        self._open(segment, max(start.offset, FIRST_FRAME))
        if start.line and self._next_batch({segment.number: segment}) and self._position().offset == start.offset:
            self._line = min(start.line, len(self._records))

    def _next_batch(self, segments: Mapping[int, Segment]) -> bool:
        """Load the next batch, stepping over damage and into the next segment; False where the lines end."""
        while self._frames is not None:
            found = self._frames.next()
            if isinstance(found, Damage):
                self._on_damage(self._number, found)
            elif found is not None:
                self._frame, self._records, self._line = found, decode_records(found), 0
                return True
            elif not self._open_after(self._number, segments):
                return False
        return False

    def _take(self, max_lines: int, max_bytes: int, stop: Position) -> list[Record]:
        assert self._frame is not None
        begin = self._line
        end = min(begin + max_lines, len(self._records))
        if (self._number, self._frame.offset) == stop[:2]:
            end = min(end, stop.line)
        if len(self._frame.body) > max_bytes:
            end = begin + _lines_within(self._records[begin:end], max_bytes)
        self._line = end
        return self._records[begin:end] if end - begin < len(self._records) else self._records

    def _open_after(self, number: int, segments: Mapping[int, Segment]) -> bool:
        following = min((other for other in segments if other > number), default=None)
        if following is None:
            return False
        self._open(segments[following], FIRST_FRAME)
        return True

    def _open(self, segment: Segment, offset: int) -> None:
        self.close()
        self._file = self._disk.open(segment.name)
        self._frames = FrameReader(self._file, segment.salt, offset, segment.end)
        self._number = segment.number


def _lines_within(records: Sequence[Record], max_bytes: int) -> int:
    """How many records it takes to pass `max_bytes`, at most all."""
    size = 0
    for count, record in enumerate(records, start=1):
        size += len(record.payload)
        if size >= max_bytes:
            return count
    return len(records)
