"""The segments on disk: how much of them waits to be read, which are done with, and the read position that is kept.

Never reads or writes a line. A segment is removed once every line in it was rsynced and it will not grow; a damaged one
is set aside under another name. Ensures: the position is kept before anything is removed, so a crash never leaves a
position in a segment that is gone.
"""

from collections.abc import Mapping, Sequence

from journal.cursor import Cursor, Position
from journal.disk import Disk
from journal.errors import BacklogFull
from journal.segment import FIRST_FRAME, Segment
from journal.trouble import Trouble


class Backlog:
    def __init__(self, disk: Disk, cursor: Cursor, segments: Mapping[int, Segment], max_bytes: int) -> None:
        self._disk = disk
        self._cursor = cursor
        self._damaged: set[int] = set()
        self._max_bytes = max_bytes
        self.segments = dict(segments)
        """By number."""
        self.size_bytes = 0
        """Durable and not yet rsynced."""
        self.trouble = Trouble()
        """From the limit on, until an eighth of it is read: a backlog that stays near it is not news at each line."""

    @property
    def end(self) -> Position | None:
        """Where the next line goes; None when there is no segment."""
        newest = max(self.segments.values(), default=None)
        return Position(newest.number, newest.end, 0) if newest else None

    def weigh(self, point: Position) -> None:
        """Count the bytes from the read point on. It may lie past the end of what is there: in a copy that was taken
        before the store's, or where a crash left segments that the store had read up."""
        self.size_bytes = sum(
            max(segment.end - max(FIRST_FRAME, point.offset if number == point.segment else 0), 0)
            for number, segment in self.segments.items()
            if number >= point.segment
        )
        if self.size_bytes >= self._max_bytes:
            self.trouble.begin(self._full())
        elif self.size_bytes < self._max_bytes - self._max_bytes // 8:
            self.trouble.end()

    def grow(self, segment: Segment) -> None:
        """Lines were appended to it: the newest, which no reader has passed."""
        before = self.segments.get(segment.number)
        self.segments[segment.number] = segment
        self.size_bytes += segment.end - (FIRST_FRAME if before is None else before.end)
        if self.size_bytes >= self._max_bytes:
            self.trouble.begin(self._full())

    @property
    def is_filling(self) -> bool:
        return self.size_bytes >= self._max_bytes // 2

    def require_room(self) -> None:
        """Raises BacklogFull."""
        if self.size_bytes >= self._max_bytes:
            raise self._full()

    def _full(self) -> BacklogFull:
        return BacklogFull(f"{self.size_bytes} bytes wait to be read, at the limit max_backlog_bytes={self._max_bytes}")

    def read_up(self, point: Position) -> list[int]:
        """The segments whose every line is done with and that will not grow."""
        newest = max(self.segments, default=0)
        return [
            number
            for number, segment in self.segments.items()
            if number < point.segment or (number == point.segment and number < newest and point.offset >= segment.end)
        ]

    def forget(self, done: Sequence[int]) -> None:
        for number in done:
            del self.segments[number]

    def mark_damaged(self, number: int) -> None:
        self._damaged.add(number)

    def keep(self, position: Position, done: Sequence[int], *, sync: bool) -> None:
        """Keep the position, then remove what is done with: durably first, or after a power cut it would look as if
        lines were lost. Blocks; raises OSError."""
        self._cursor.save(position, sync=sync or bool(done))
        for number in done:
            name = Segment(number, 0, 0).name
            if number in self._damaged:
                self._disk.rename(name, name.replace(".journal", ".damaged"))
            else:
                self._disk.remove(name)
