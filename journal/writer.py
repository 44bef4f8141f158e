"""Appending writes to the open segment so that they are on disk when the call returns. Runs on one thread.

Ensures: `append` returns only after the sync of every byte. When it raises, none of its writes is acknowledged and
none will be read: what was written is cut off again and that is synced, or the segment is left for good and its
successor's header, which is on the disk by then, says how much of it counts. Only if the disk takes no successor,
either, may a power cut before it does bring back what was written. A failed sync is never tried again on the same file.
"""

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Final, NamedTuple

from journal.disk import NO_ROOM, Disk, File, write_all
from journal.errors import DiskFull, JournalUnavailable
from journal.format import SegmentHeader, encode_segment_header
from journal.options import JournalOptions
from journal.segment import FIRST_FRAME, MOST_NUMBER, Segment, segment_name
from journal.writes import Batch, Write, frame_batches, frame_sizes, lay_out
from vocabulary.clock import Clock
from vocabulary.time_text import iso_time

_SMALL_WRITE_BYTES: Final = 64 * 1024
"""A disk without room for this is full. With it, only the write that does not fit is refused."""


class Appended(NamedTuple):
    """Writes that are durable."""

    segment: Segment
    """As it stands now."""
    batches: Sequence[Batch]
    offsets: Sequence[int]
    """Where each of them begins, and where the last one ends."""


class Previous(NamedTuple):
    """The segment before the next one, and how much of it was acknowledged."""

    number: int
    end: int


class _Open:
    """The segment that is being written."""

    def __init__(self, file: File, number: int, salt: int, opened_s: float) -> None:
        self.file = file
        self.number = number
        self.salt = salt
        self.opened_s = opened_s
        self.end = FIRST_FRAME


class SegmentWriter:
    def __init__(
        self,
        disk: Disk,
        options: JournalOptions,
        clock: Clock,
        *,
        sysid: str,
        floor_ms: Callable[[], int],
        last_number: int,
        previous: Previous,
    ) -> None:
        self._disk = disk
        self._options = options
        self._clock = clock
        self._sysid = sysid
        self._floor_ms = floor_ms
        self._last_number = last_number
        self._previous = previous
        self._open: _Open | None = None

    def append(self, writes: Sequence[Write]) -> Appended:
        """Write them and sync, all or none."""
        batches = lay_out(writes)
        size = sum(len(batch.head) + len(batch.body) for batch in batches)
        try:
            if self._options.min_free_bytes:
                self._require_room(size)
            segment = self._segment_for(size)
        except OSError as error:
            raise _unavailable(error, "begin a segment") from error
        data = frame_batches(batches, segment.end, segment.salt)
        try:
            write_all(segment.file, data, segment.end)
        except OSError as error:
            self._take_back(segment, error)
            raise _unavailable(error, f"write to {segment_name(segment.number)}") from error
        try:
            segment.file.sync()
        except OSError as error:
            self._leave(segment)
            raise _unavailable(error, f"sync {segment_name(segment.number)}") from error
        offsets = list(accumulate(frame_sizes(batches, segment.end), initial=segment.end))
        segment.end += len(data)
        return Appended(Segment(segment.number, segment.salt, segment.end), batches, offsets)

    def try_again(self) -> None:
        """After a write that failed: raises JournalUnavailable as long as the next one would fail too. A segment that
        holds lines is not trusted with the attempt: the next one is begun, as it would be after a failed sync."""
        try:
            self._require_room(_SMALL_WRITE_BYTES)
            if self._open is None or self._open.end > FIRST_FRAME:
                self._begin_segment()
        except OSError as error:
            raise _unavailable(error, "begin a segment") from error

    def close(self) -> None:
        if self._open is not None:
            self._previous = Previous(self._open.number, self._open.end)
            self._open.file.close()
            self._open = None

    def _require_room(self, size: int) -> None:
        min_free = self._options.min_free_bytes
        if (free := self._disk.free_bytes()) - size < min_free:
            raise DiskFull(
                f"{free} bytes are free, and {min_free} are left to the store (journal_min_free): free some space,"
                " and intake resumes by itself",
                has_room_for_less=free - _SMALL_WRITE_BYTES >= min_free,
            )

    def _segment_for(self, size: int) -> _Open:
        """The open segment, or the next one when it is full, old, or was left after an error."""
        segment = self._open
        if segment is None:
            return self._begin_segment()
        age_s = self._clock.monotonic_s() - segment.opened_s
        is_full = segment.end + size > self._options.segment_bytes or age_s > self._options.segment_age_s
        return self._begin_segment() if is_full and segment.end > FIRST_FRAME else segment

    def _begin_segment(self) -> _Open:
        """Create, write the header, sync the file, sync the directory; only then is it used."""
        if self._last_number >= MOST_NUMBER:
            raise JournalUnavailable(
                f"the journal came to {segment_name(self._last_number)}, and a segment after it would never be read:"
                " empty it, and give the daemon a new folder for its journal"
            )
        previous = Previous(self._open.number, self._open.end) if self._open else self._previous
        self._last_number += 1  # also when this attempt fails: a number is never used twice
        number = self._last_number
        salt = secrets.randbits(32)
        header = SegmentHeader(
            segment=number,
            date=iso_time(self._clock.now_ms()),
            sysid=self._sysid,
            salt=salt,
            floor_ms=self._floor_ms(),
            prev=previous.number,
            prev_bytes=previous.end,
        )
        file = self._disk.create(segment_name(number))
        try:
            write_all(file, encode_segment_header(header), 0)
            file.sync()
            self._disk.sync_directory()
        except OSError:
            file.close()
            with suppress(OSError):  # left behind, it is a segment without lines
                self._disk.remove(segment_name(number))
            raise
        self.close()
        self._open = _Open(file, number, salt, self._clock.monotonic_s())
        return self._open

    def _take_back(self, segment: _Open, error: OSError) -> None:
        """A write failed. For want of room the segment itself is sound: cut off what was half written and stay."""
        if error.errno in NO_ROOM:
            with suppress(OSError):
                segment.file.truncate(segment.end)
                segment.file.sync()
                return
        self._leave(segment)

    def _leave(self, segment: _Open) -> None:
        """Give the file up: the kernel may have dropped what it could not write, and would not say so again. The next
        header says where it ends, so it is written before anybody hears that the rest does not count: the cut may fail,
        and a power cut may undo it."""
        with suppress(OSError):
            segment.file.truncate(segment.end)
        self.close()
        with suppress(OSError, JournalUnavailable):  # the next write tries again, and whoever looks after the disk
            self._begin_segment()


def _unavailable(error: OSError, doing: str) -> JournalUnavailable:
    kind = DiskFull if error.errno in NO_ROOM else JournalUnavailable
    return kind(f"could not {doing}: {error.strerror or error}")
