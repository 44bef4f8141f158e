"""Looking at a journal without touching it: for people, on a live directory or a copy. Takes no lock, writes nothing.

Applies the rules of recovery: what recovery would cut as a torn write is told apart from damage
to what was acknowledged. A journal in use removes what was read up at any time: such a segment is left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from journal.cursor import CURSOR_NAME, START, Position, read_slots
from journal.disk import Disk, file_size, opened
from journal.format import Frame, SegmentHeader
from journal.recovery import (
    acknowledged_ends,
    gone_segments,
    is_foreign,
    is_lost,
    read_segment_header,
    scan_tail,
    was_torn,
)
from journal.segment import FIRST_FRAME, Damage, FrameReader, damaged_number, segment_name, segment_number


class SegmentReport(NamedTuple):
    number: int
    header: SegmentHeader | None
    """None when it is damaged, torn while the segment was created, or gone."""
    size_bytes: int
    end: int
    """How much of it was, or may have been, acknowledged."""
    batches: int
    lines: int
    damages: list[Damage]
    is_lost: bool = False
    """It is gone, with lines that were not read."""

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
    found = _look(disk)
    for number, header in found.headers.items():
        if header is not None:
            with suppress(FileNotFoundError):
                end = _end_of(disk, number, header, found.ends)
                frames = _walk(disk, number, header, end)
                yield from (Entry(number, frame) for frame in frames if isinstance(frame, Frame))


def reports(disk: Disk) -> Iterator[SegmentReport]:
    """One for each segment, in order; also for one that is lost."""
    found = _look(disk)
    position = read_position(disk)  # asked later: whatever was gone by then without being lost lies before it
    for number in sorted({*found.headers, *found.gone}):
        if number in found.headers:
            with suppress(FileNotFoundError):
                yield _report(disk, number, found.headers[number], found.ends)
        elif is_lost(number, end := found.gone[number], position):
            yield SegmentReport(number, None, 0, end, 0, 0, [Damage(FIRST_FRAME, end)], is_lost=True)


def writers(disk: Disk) -> list[str]:
    """The sysids of those who wrote the segments that are there, the first first."""
    headers = _look(disk).headers
    return [header.sysid for _, header in sorted(headers.items()) if header is not None]


def is_journal(names: Iterable[str]) -> bool:
    """Whether a folder with files of these names is one: it has a read position, or a segment."""
    return any(name == CURSOR_NAME or segment_number(name) or damaged_number(name) for name in names)


def set_aside(disk: Disk) -> list[str]:
    """Files that recovery or reading put aside for people."""
    return [name for name in disk.names() if ".damaged" in name or ".torn" in name]


class _Found(NamedTuple):
    headers: dict[int, SegmentHeader | None]
    """Of every segment that is there."""
    ends: dict[int, int]
    """As far as successors say."""
    gone: dict[int, int]


def _look(disk: Disk) -> _Found:
    names = disk.names()
    headers: dict[int, SegmentHeader | None] = {}
    for name in names:
        if (number := segment_number(name)) is not None:
            with suppress(FileNotFoundError), opened(disk, name) as file:
                headers[number] = read_segment_header(file, number)
    ends = acknowledged_ends(header for header in headers.values() if header is not None)
    own = {number: header for number, header in headers.items() if header is not None or not is_foreign(number, ends)}
    return _Found(own, ends, gone_segments(names, ends))


def _report(disk: Disk, number: int, header: SegmentHeader | None, ends: Mapping[int, int]) -> SegmentReport:
    size = file_size(disk, segment_name(number))
    if header is None:
        acknowledged = ends.get(number, 0)
        damages = [] if was_torn(size, acknowledged) else [Damage(0, max(size, acknowledged))]
        return SegmentReport(number, None, size, 0, 0, 0, damages)
    end = _end_of(disk, number, header, ends)
    found = list(_summaries(disk, number, header, end))
    frames = [summary for summary in found if isinstance(summary, int)]
    damages = [summary for summary in found if isinstance(summary, Damage)]
    return SegmentReport(number, header, size, end, len(frames), sum(frames), damages)


def _end_of(disk: Disk, number: int, header: SegmentHeader, ends: Mapping[int, int]) -> int:
    """How much of it was acknowledged: by the word of its successor, or what recovery would leave of it."""
    if number in ends:
        return ends[number]
    with opened(disk, segment_name(number)) as file:
        return scan_tail(file, header.salt).end


def _walk(disk: Disk, number: int, header: SegmentHeader, end: int) -> Iterator[Frame | Damage]:
    with opened(disk, segment_name(number)) as file:
        frames = FrameReader(file, header.salt, FIRST_FRAME, end)
        while (found := frames.next()) is not None:
            yield found


def _summaries(disk: Disk, number: int, header: SegmentHeader, end: int) -> Iterator[int | Damage]:
    """The number of lines of each batch, so that a large segment is not held in memory; and the damage."""
    for found in _walk(disk, number, header, end):
        yield found.lines if isinstance(found, Frame) else found
