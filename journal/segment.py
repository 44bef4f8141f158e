"""Segments: the numbered files of the journal, and reading the frames of one through a bounded window."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from journal.disk import File
from journal.format import BATCH_MARK, BODY_LIMIT, SEGMENT_HEADER_BYTES, Frame, decode_frame

_NAME: Final = re.compile(r"(\d{10,12})\.journal")
_DAMAGED: Final = re.compile(r"(\d{10,12})\.damaged")
_OWN: Final = re.compile(r"(\d{10,12})\.(?:journal|damaged|torn(?:-\d+(?:\.part)?)?)")
"""Ten digits. Earlier versions came to more after a foreign file with a number above all others."""
MOST_NUMBER: Final = 10**12 - 1
"""The highest that a name, a header and the cursor can have."""
_MOST_LIKELY: Final = 9 * 10**9
"""No journal comes to more by itself: a file above it is foreign, unless a header says that it is a segment."""
_WINDOW_BYTES: Final = 256 * 1024
_LINE_BEFORE_BATCH: Final = b"\n" + BATCH_MARK


class Segment(NamedTuple):
    """What is known of one segment. Bytes past `end` were never acknowledged and are never read."""

    number: int
    salt: int
    end: int

    @property
    def name(self) -> str:
        return segment_name(self.number)


FIRST_FRAME: Final = SEGMENT_HEADER_BYTES
"""The offset of a segment's first frame."""


class Damage(NamedTuple):
    """Bytes of a segment that hold no good frame, up to the next good one or the end."""

    offset: int
    end: int


def segment_name(number: int) -> str:
    return f"{number:010d}.journal"


def segment_number(name: str) -> int | None:
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def damaged_number(name: str) -> int | None:
    """Of a segment that was set aside as damaged."""
    match = _DAMAGED.fullmatch(name)
    return int(match[1]) if match else None


def is_of_segment(name: str) -> bool:
    """Whether it is a segment, or something that was set aside of one."""
    return _OWN.fullmatch(name) is not None


def is_likely(number: int) -> bool:
    """Whether a journal may have come to it by itself."""
    return number <= _MOST_LIKELY


def highest_number(names: list[str], segments: Iterable[int]) -> int:
    """Over all segments, and whatever was set aside of one, so that no number is ever used twice. A foreign file does
    not lift it so far that there would be no names for the segments after it."""
    named = (int(match[1]) for name in names if (match := _OWN.fullmatch(name)))
    return max([*segments, *filter(is_likely, named)], default=0)


class FrameReader:
    """Reads frames in order from `offset` to `end`. Holds one window of the file, or one frame if that is larger."""

    def __init__(self, file: File, salt: int, offset: int, end: int) -> None:
        self._file = file
        self._salt = salt
        self._offset = offset
        self._end = end
        self._window = b""
        self._base = offset

    @property
    def offset(self) -> int:
        """Where the next frame begins."""
        return self._offset

    def extend(self, end: int) -> None:
        """The segment has grown."""
        self._end = end

    def next(self) -> Frame | Damage | None:
        """The next frame, or the damage that stands in its place; None at the end."""
        if self._offset >= self._end:
            return None
        found = self._frame_at(self._offset) or Damage(self._offset, self._find_frame(self._offset))
        self._offset = found.end
        return found

    def _frame_at(self, offset: int) -> Frame | None:
        found = decode_frame(self._window, offset - self._base, self._base, self._salt)
        while isinstance(found, int):
            available = self._base + len(self._window) - offset
            wanted = min(max(found, _WINDOW_BYTES), self._end - offset)
            if wanted <= available or found > BODY_LIMIT:
                return None
            self._window = self._file.read(offset, wanted)
            self._base = offset
            if len(self._window) < wanted:
                self._end = offset + len(self._window)  # the file is shorter than it was acknowledged to be
            found = decode_frame(self._window, 0, self._base, self._salt)
        return found

    def _find_frame(self, start: int) -> int:
        """The offset of the first good frame after `start`, or the end. Payloads hold no newline, so no candidate
        is of a tenant's making; and the salt would expose one."""
        while start < self._end:
            window = self._file.read(start, min(_WINDOW_BYTES, self._end - start))
            at = window.find(_LINE_BEFORE_BATCH)
            if at >= 0:
                start += at + 1
                if self._frame_at(start) is not None:
                    return start
            elif len(window) < _WINDOW_BYTES:
                break
            else:
                start += len(window) - len(_LINE_BEFORE_BATCH) + 1
        return self._end
