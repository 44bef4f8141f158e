"""All file access of the journal, as one small interface. `OsDisk` is the real one; the tests' crash model another.

Calls block: the journal makes them on its own threads. Errors are OSError, as the system gives them.
"""

import errno
import fcntl
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Protocol

from journal.durable import make_folder, sync_folder
from journal.errors import JournalLocked

log = logging.getLogger("journal")

LOCK_NAME: Final = "lock"
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a disk that is sound."""


class File(Protocol):
    def write(self, data: bytes, offset: int) -> int:
        """Write at `offset`; returns how much was written, which may be less than all."""

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Returns when all that was written to this file is on disk. After a failure nothing is known of it."""

    def close(self) -> None: ...


class Disk(Protocol):
    """One flat directory. A created, renamed or removed name is durable after `sync_directory`, not before."""

    def lock(self) -> None:
        """Become the only writer of the directory; JournalLocked if there is another."""

    def unlock(self) -> None: ...

    def names(self) -> list[str]: ...

    def create(self, name: str) -> File:
        """A new file; FileExistsError if the name is taken."""

    def open(self, name: str, *, writable: bool = False) -> File: ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, name: str) -> None: ...

    def sync_directory(self) -> None: ...

    def free_bytes(self) -> int: ...


@contextmanager
def opened(disk: Disk, name: str, *, writable: bool = False) -> Iterator[File]:
    """The file for the length of a `with` block."""
    file = disk.open(name, writable=writable)
    try:
        yield file
    finally:
        file.close()


def file_size(disk: Disk, name: str) -> int:
    with opened(disk, name) as file:
        return file.size()


def write_all(file: File, data: bytes, offset: int) -> None:
    """Write all of `data`, going on after short writes."""
    written = file.write(data, offset)
    while written < len(data):
        written += file.write(data[written:], offset + written)


class OsFile:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, data: bytes, offset: int) -> int:
        return os.pwrite(self._fd, data, offset)

    def read(self, offset: int, size: int) -> bytes:
        data = os.pread(self._fd, size, offset)
        while len(data) < size and (more := os.pread(self._fd, size - len(data), offset + len(data))):
            data += more
        return data

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


class OsDisk:
    """A directory of the file system. Files are readable by their owner only: payloads are the tenants' own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._locked = ExitStack()
        """Closes what holds the lock."""

    def lock(self) -> None:
        make_folder(self.directory)
        with ExitStack() as held:  # also if the disk is full, say: a descriptor that stays open keeps the lock
            fd = os.open(self.directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            held.callback(os.close, fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._lock_folder(held)
            except BlockingIOError:
                owner = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
                raise JournalLocked(f"{self.directory} is written to by another process (pid {owner})") from None
            os.ftruncate(fd, os.pwrite(fd, f"{os.getpid()}\n".encode(), 0))  # in this order a full disk has room for it
            self._locked = held.pop_all()

    def _lock_folder(self, held: ExitStack) -> None:
        """It too: whoever removes the file would let a second writer in. Earlier versions know only the file, which
        also counts alone where folders cannot be locked (NFS)."""
        fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        held.callback(os.close, fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError as error:
            log.debug("journal.folder_not_locked", extra={"reason": str(error)})

    def unlock(self) -> None:
        self._locked.close()

    def names(self) -> list[str]:
        return sorted(name for name in os.listdir(self.directory) if name != LOCK_NAME)  # noqa: PTH208 (names only)

    def create(self, name: str) -> OsFile:
        return OsFile(os.open(self.directory / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    def open(self, name: str, *, writable: bool = False) -> OsFile:
        flags = os.O_RDWR if writable else os.O_RDONLY
        path = self.directory / name
        fd = os.open(path, flags | os.O_CLOEXEC)
        if stat.S_ISDIR(os.fstat(fd).st_mode):  # opened for reading, it would fail at the first read, without its name
            os.close(fd)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        return OsFile(fd)

    def rename(self, old: str, new: str) -> None:
        (self.directory / old).rename(self.directory / new)

    def remove(self, name: str) -> None:
        (self.directory / name).unlink()

    def sync_directory(self) -> None:
        sync_folder(self.directory)

    def free_bytes(self) -> int:
        status = os.statvfs(self.directory)
        return status.f_bavail * status.f_frsize
