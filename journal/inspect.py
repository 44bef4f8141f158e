"""Looking at a journal without touching it: for people, on a live directory or a copy. Takes no lock, writes nothing.

Applies the rules of recovery: what recovery would cut as a torn write is told apart from damage
to what was acknowledged.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from journal.cursor import CURSOR_NAME, START, Position, read_slots
from journal.disk import Disk, file_size, opened
from journal.format import SEGMENT_HEADER_BYTES, Frame, SegmentHeader
from journal.recovery import acknowledged_ends, read_segment_header, scan_tail
from journal.segment import FIRST_FRAME, Damage, FrameReader, segment_name, segment_number


class SegmentReport(NamedTuple):
    number: int
    header: SegmentHeader | None
    """None when it is damaged, or torn while the segment was created."""
    size_bytes: int
    end: int
    """How much of it was, or may have been, acknowledged."""
    batches: int
    lines: int
    damages: list[Damage]

    @property
    def torn_bytes(self) -> int:
        """Written and never acknowledged."""
        return max(0, self.size_bytes - self.end)

    @property
    def is_damaged(self) -> bool:
        return bool(self.damages)


class Entry(NamedTuple):
    """One batch of the journal and where it stands."""

    segment: int
    frame: Frame


def read_position(disk: Disk) -> Position:
    """Where reading goes on after a restart."""
    if CURSOR_NAME not in disk.names():
        return START
    with opened(disk, CURSOR_NAME) as file:
        return read_slots(file.read(0, file.size()))[1]


def batches(disk: Disk) -> Iterator[Entry]:
    """All good batches in order."""
    for number, header, end in _segments(disk):
        if header is not None:
            yield from (Entry(number, found) for found in _walk(disk, number, header, end) if isinstance(found, Frame))


def reports(disk: Disk) -> Iterator[SegmentReport]:
    """One for each segment, in order."""
    for number, header, end in _segments(disk):
        size = file_size(disk, segment_name(number))
        if header is None:
            # No longer than a header: it was being created, and never held a line.
            damages = [Damage(0, size)] if size > SEGMENT_HEADER_BYTES else []
            yield SegmentReport(number, None, size, 0, 0, 0, damages)
            continue
        found = list(_summaries(disk, number, header, end))
        frames = [summary for summary in found if isinstance(summary, int)]
        damages = [summary for summary in found if isinstance(summary, Damage)]
        yield SegmentReport(number, header, size, end, len(frames), sum(frames), damages)


def set_aside(disk: Disk) -> list[str]:
    """Files that recovery or reading put aside for people."""
    return [name for name in disk.names() if ".damaged" in name or ".torn" in name]


def _segments(disk: Disk) -> Iterator[tuple[int, SegmentHeader | None, int]]:
    """Number, header and acknowledged end of every segment."""
    headers: dict[int, SegmentHeader | None] = {}
    for name in disk.names():
        if (number := segment_number(name)) is not None:
            with suppress(FileNotFoundError), opened(disk, name) as file:  # a live journal removes what is read up
                headers[number] = read_segment_header(file)
    ends = acknowledged_ends(header for header in headers.values() if header is not None)
    for number, header in headers.items():
        if header is not None and number not in ends:
            with opened(disk, segment_name(number)) as file:
                ends[number] = scan_tail(file, header.salt).end
        yield number, header, ends.get(number, 0)


def _walk(disk: Disk, number: int, header: SegmentHeader, end: int) -> Iterator[Frame | Damage]:
    with opened(disk, segment_name(number)) as file:
        frames = FrameReader(file, header.salt, FIRST_FRAME, end)
        while (found := frames.next()) is not None:
            yield found


def _summaries(disk: Disk, number: int, header: SegmentHeader, end: int) -> Iterator[int | Damage]:
    """The number of lines of each batch, so that a large segment is not held in memory; and the damage."""
    for found in _walk(disk, number, header, end):
        yield found.lines if isinstance(found, Frame) else found
