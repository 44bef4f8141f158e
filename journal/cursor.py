"""The read position and the small file that keeps it over restarts.

Two slots of one sector each are written in turn, so that a torn write loses the newest position at most, never both.
A position that is too old is harmless: lines are read again and the store knows their ids.
"""

import re
import sys
from typing import Final, NamedTuple
from zlib import crc32

from journal.disk import Disk, File, write_all

CURSOR_NAME: Final = "cursor"
_SLOT_BYTES: Final = 512
_SLOT: Final = re.compile(
    rb"#:Read turn=(\d{1,18}),segment=(\d{1,12}),offset=(\d{1,15}),line=(\d{1,7})(,crc=([0-9a-f]{8})) *\n"
)


class Position(NamedTuple):
    """A place between two lines; positions compare as the lines were written."""

    segment: int
    offset: int
    """Of the batch's first byte in the segment."""
    line: int
    """How many lines of that batch lie before."""


START: Final = Position(0, 0, 0)
END: Final = Position(sys.maxsize, 0, 0)


class Cursor:
    """Owns the cursor file. Not for two threads at once."""

    def __init__(self, file: File, turn: int, position: Position) -> None:
        self._file = file
        self._turn = turn
        self.position = position

    @classmethod
    def open(cls, disk: Disk) -> "Cursor":
        if CURSOR_NAME not in disk.names():
            file = disk.create(CURSOR_NAME)
            write_all(file, b"\n" * (2 * _SLOT_BYTES), 0)
            file.sync()
            disk.sync_directory()
            return cls(file, 0, START)
        file = disk.open(CURSOR_NAME, writable=True)
        turn, position = read_slots(file.read(0, 2 * _SLOT_BYTES))
        return cls(file, turn, position)

    def save(self, position: Position, *, sync: bool) -> None:
        self._turn += 1
        text = b"#:Read turn=%d,segment=%d,offset=%d,line=%d" % (self._turn, *position)
        line = b"%b,crc=%08x" % (text, crc32(text))
        write_all(self._file, line.ljust(_SLOT_BYTES - 1) + b"\n", self._turn % 2 * _SLOT_BYTES)
        if sync:
            self._file.sync()
        self.position = position

    def close(self) -> None:
        self._file.close()


def read_slots(data: bytes) -> tuple[int, Position]:
    """The newest slot that is whole; the start of the journal when none is."""
    newest = (0, START)
    for begin in (0, _SLOT_BYTES):
        slot = data[begin : begin + _SLOT_BYTES]
        match = _SLOT.fullmatch(slot)
        if match and crc32(slot[: match.start(5)]) == int(match[6], 16):
            position = Position(int(match[2]), int(match[3]), int(match[4]))
            newest = max(newest, (int(match[1]), position))
    return newest
