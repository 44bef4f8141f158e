"""Renames that can be undone, and who has a SQLite file open."""

import fcntl
import os
import struct
from pathlib import Path
from typing import Final

_FLOCK: Final = struct.Struct("hhqqi4x")
_LOCK_BYTES: Final = (0x4000_0000, 512)
"""Where SQLite locks a file, by its format. In WAL mode a connection holds a shared lock there until it is closed."""


class Moves:
    def __init__(self) -> None:
        self._done: list[tuple[Path, Path]] = []

    def move(self, source: Path, target: Path) -> None:
        source.rename(target)
        self._done.append((source, target))

    def undo(self) -> None:
        """Move everything back, the last first."""
        while self._done:
            source, target = self._done[-1]
            target.rename(source)
            self._done.pop()


def process_that_uses(file: Path) -> int | None:
    """The pid of a process that has the SQLite file open; 0 if it is out of sight, such as one outside this container.
    None: there is none. Not for a process that has it open itself: closing a descriptor would end its locks."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, *_LOCK_BYTES, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))
    finally:
        os.close(fd)
    return None if kind == fcntl.F_UNLCK else max(pid, 0)
