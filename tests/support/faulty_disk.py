"""A real directory whose next operations can be told to fail: the n-th write, the n-th sync, all writes for a while."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

from journal.disk import OsDisk, OsFile

Fault = Callable[[], None]


def fails_with(code: int) -> Fault:
    def fail() -> None:
        raise OSError(code, os.strerror(code))

    return fail


class FaultyDisk(OsDisk):
    """`faults[operation]` is asked before every operation of that name; a fault raises, or does nothing."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.faults: dict[str, Fault] = {}
        self.counts: dict[str, int] = {}
        self.free = 1 << 40
        self.keeps_what_is_cut = False
        """A file that is made shorter is as long as it was after a power cut: here, at once."""

    def reach(self, operation: str) -> None:
        self.counts[operation] = self.counts.get(operation, 0) + 1
        self.faults.get(operation, lambda: None)()

    def fail_nth(self, operation: str, n: int, code: int = errno.EIO) -> None:
        """The n-th from now on fails, those before and after do not."""
        left = n

        def fault() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                fails_with(code)()

        self.faults[operation] = fault

    def create(self, name: str) -> OsFile:
        self.reach("create")
        fd = os.open(self.directory / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        return FaultyFile(fd, self)

    def sync_directory(self) -> None:
        self.reach("sync_directory")
        super().sync_directory()

    def free_bytes(self) -> int:
        return self.free


class FaultyFile(OsFile):
    def __init__(self, fd: int, disk: FaultyDisk) -> None:
        super().__init__(fd)
        self._disk = disk
        self._has_failed_sync = False

    def write(self, data: bytes, offset: int) -> int:
        try:
            self._disk.reach("write")
        except OSError:
            super().write(data[: len(data) // 2], offset)  # what a failing write may leave behind
            raise
        if "short_write" in self._disk.faults:
            data = data[: max(1, len(data) // 3)]
        return super().write(data, offset)

    def truncate(self, size: int) -> None:
        self._disk.reach("truncate")
        if not self._disk.keeps_what_is_cut:
            super().truncate(size)

    def sync(self) -> None:
        assert not self._has_failed_sync, "a failed sync was tried again on the same file"
        try:
            self._disk.reach("sync")
        except OSError:
            self._has_failed_sync = True
            raise
        super().sync()
