"""What a start finds on disk, and making it whole: run before anything is read or written.

The rules, none of which is a guess (the reasons are in docs/journal-format.md):

- A file no longer than a segment header, with a bad one, was being created: set aside as `.torn`.
- A longer file with a bad header was damaged, and so was one that a later header says had lines: set aside as
  `.damaged` and reported; people can still read it.
- One with a number that no journal comes to, and that no header names, is foreign: it stays as it is.
- A segment that a later header names as its `prev` was acknowledged up to `prev_bytes`. Shorter: reported. Longer: the
  rest was never acknowledged and is not read. Gone: reported, if the read position lies before its end.
- Any other segment may end in a torn write. It is cut at the first bad frame that no later frame declares synced,
  and what was cut off is kept as `.torn`. On a full disk it stays, and is not read: its successor says where it ends.

Ensures: run again, also after a crash in the middle of it, it gives the same result. Never deletes a byte that was
acknowledged; what it cuts off it keeps.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from journal.cursor import Position
from journal.disk import NO_ROOM, Disk, File, opened, write_all
from journal.format import SEGMENT_HEADER_BYTES, Frame, SegmentHeader, decode_records, decode_segment_header
from journal.ids import parse_id
from journal.segment import (
    FIRST_FRAME,
    FrameReader,
    Segment,
    damaged_number,
    highest_number,
    is_likely,
    segment_name,
    segment_number,
)

log = logging.getLogger("journal")

_COPY_BYTES: Final = 1 << 20


class Finding(NamedTuple):
    """Something worth telling people. `is_damage` means that acknowledged lines may be lost."""

    segment: int
    offset: int
    size: int
    is_damage: bool
    text: str


def log_findings(findings: Sequence[Finding]) -> int:
    """Returns how many of them are damage."""
    for finding in findings:
        level = logging.ERROR if finding.is_damage else logging.WARNING
        details = {"segment": finding.segment, "offset": finding.offset, "found": finding.text}
        log.log(level, "journal.recovered", extra=details)
    return sum(finding.is_damage for finding in findings)


class Recovered(NamedTuple):
    segments: dict[int, Segment]
    last_number: int
    """The highest number in use by any file."""
    floor_ms: int
    """The largest time that an id on disk carries."""
    gone: dict[int, int]
    """What `gone_segments` found."""
    findings: list[Finding]


class Tail(NamedTuple):
    """Where a segment that nothing vouches for ends."""

    end: int
    """Up to here it holds good frames, or damage that was once acknowledged."""
    last_frame: Frame | None
    """The last good frame, also when it lies behind a torn one: no id may repeat what it holds."""


def recover(disk: Disk) -> Recovered:
    names = disk.names()
    headers, bad = _read_headers(disk, names)
    acknowledged = acknowledged_ends(headers.values())
    findings = [
        _set_bad_aside(disk, number, size, acknowledged.get(number, 0))
        for number, size in bad.items()
        if not is_foreign(number, acknowledged)
    ]
    floor_ms = max((header.floor_ms for header in headers.values()), default=0)
    segments = {}
    for number, header in headers.items():
        with opened(disk, segment_name(number), writable=True) as file:
            if number in acknowledged:
                end = acknowledged[number]
                findings += _missing_end(number, file.size(), end)
            else:
                tail = scan_tail(file, header.salt)
                end = tail.end
                findings += _cut_torn_end(disk, number, file, end)
                if tail.last_frame is not None:
                    floor_ms = max(floor_ms, parse_id(decode_records(tail.last_frame)[-1].id).time_ms)
        segments[number] = Segment(number, header.salt, end)
    return Recovered(segments, highest_number(names, headers), floor_ms, gone_segments(names, acknowledged), findings)


def acknowledged_ends(headers: Iterable[SegmentHeader]) -> dict[int, int]:
    """How much of each segment counts, by the word of its successors. Of several, the last saw it whole."""
    ends: dict[int, int] = {}
    for header in headers:
        ends[header.prev] = max(header.prev_bytes, ends.get(header.prev, 0))
    return ends


def gone_segments(names: Iterable[str], acknowledged: Mapping[int, int]) -> dict[int, int]:
    """Those with acknowledged lines that have no file, nor one that was set aside: by number, where each ended. Most
    were read up and removed; `is_lost` tells."""
    there = {number for name in names for number in (segment_number(name), damaged_number(name))}
    return {number: end for number, end in acknowledged.items() if end > FIRST_FRAME and number not in there}


def is_lost(number: int, end: int, read_from: Position) -> bool:
    """Whether a segment that is gone had lines that were not read. It is removed only when the position is past it."""
    return (read_from.segment, read_from.offset) < (number, end)


def losses(gone: Mapping[int, int], read_from: Position) -> list[Finding]:
    return [
        Finding(
            number, FIRST_FRAME, end - FIRST_FRAME, True, f"it is gone, with lines up to byte {end} that were not read"
        )
        for number, end in gone.items()
        if is_lost(number, end, read_from)
    ]


def is_foreign(number: int, acknowledged: Mapping[int, int]) -> bool:
    """Whether a file with a bad header and this number was never a segment."""
    return not is_likely(number) and number not in acknowledged


def was_torn(size: int, acknowledged: int) -> bool:
    """Whether a file with a bad header was being created, and never had a line; otherwise it was damaged."""
    return max(size, acknowledged) <= SEGMENT_HEADER_BYTES


def scan_tail(file: File, salt: int) -> Tail:
    """Walk the frames of a segment to find where what may have been acknowledged ends."""
    frames = FrameReader(file, salt, FIRST_FRAME, file.size())
    doubts: list[int] = []
    end = FIRST_FRAME
    last_frame: Frame | None = None
    while (found := frames.next()) is not None:
        if isinstance(found, Frame):
            # What was on disk before this frame was written is not torn: if it is bad now, it was damaged since.
            doubts = [offset for offset in doubts if offset >= found.sync]
            end, last_frame = found.end, found
        else:
            doubts.append(found.offset)
    return Tail(doubts[0] if doubts else end, last_frame)


def read_segment_header(file: File, number: int) -> SegmentHeader | None:
    """None if it is bad, or that of another segment."""
    header = decode_segment_header(file.read(0, SEGMENT_HEADER_BYTES))
    return header if header is not None and header.segment == number else None


def _read_headers(disk: Disk, names: list[str]) -> tuple[dict[int, SegmentHeader], dict[int, int]]:
    """The good ones, and the sizes of files that have none."""
    headers: dict[int, SegmentHeader] = {}
    bad: dict[int, int] = {}
    for name in names:
        number = segment_number(name)
        if number is None:
            continue
        with opened(disk, name) as file:
            header, size = read_segment_header(file, number), file.size()
        if header is not None:
            headers[number] = header
        else:
            bad[number] = size
    return headers, bad


def _set_bad_aside(disk: Disk, number: int, size: int, acknowledged: int) -> Finding:
    if was_torn(size, acknowledged):
        _set_aside(disk, segment_name(number), f"{number:010d}.torn")
        return Finding(number, 0, size, False, "was being created at the crash; set aside as .torn")
    _set_aside(disk, segment_name(number), f"{number:010d}.damaged")
    return Finding(number, 0, max(size, acknowledged), True, "its header is damaged; set aside as .damaged")


def _set_aside(disk: Disk, name: str, new: str) -> None:
    disk.rename(name, new)
    disk.sync_directory()


def _missing_end(number: int, size: int, end: int) -> list[Finding]:
    if size >= end:
        return []
    return [Finding(number, size, end - size, True, f"{end - size} acknowledged bytes at its end are missing")]


def _cut_torn_end(disk: Disk, number: int, file: File, end: int) -> list[Finding]:
    """Keep what lies past `end` in a file of its own, and only then cut it off."""
    size = file.size()
    if size <= end:
        return []
    kept = f"{number:010d}.torn-{end}"
    if kept not in disk.names():
        try:
            _copy_end(disk, file, end, size, f"{kept}.part")
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            with suppress(FileNotFoundError):
                disk.remove(f"{kept}.part")
            return [
                Finding(number, end, size - end, False, "a torn write, never acknowledged, stays: the disk is full")
            ]
        _set_aside(disk, f"{kept}.part", kept)
    file.truncate(end)
    file.sync()
    return [Finding(number, end, size - end, False, f"a torn write, never acknowledged, was cut; kept as {kept}")]


def _copy_end(disk: Disk, file: File, begin: int, end: int, name: str) -> None:
    if name in disk.names():
        disk.remove(name)
    copy = disk.create(name)
    try:
        for offset in range(begin, end, _COPY_BYTES):
            write_all(copy, file.read(offset, min(_COPY_BYTES, end - offset)), offset - begin)
        copy.sync()
    finally:
        copy.close()
