"""Uids for contexts: one each while it lives, so that no two contexts, and so no two tenants, share one.

The uids are far above what systems, containers and directories hand out. They come in ranges, and a launcher locks the
range that it uses: without namespaces a context is killed by its uid, and must not take one of another daemon along.
Within a range they are given round robin: one that was just released is the last to come again.
"""

import fcntl
import os
import tempfile
from pathlib import Path
from typing import Final

from runner.errors import IsolationError, LaunchError

DEFAULT_BASE: Final = 0x7000_0000
_COUNT: Final = 1 << 12
_RANGES: Final = 64


def are_mapped(folder: Path = Path("/proc/self")) -> bool:
    """Whether all ranges exist for this process, as uids and as gids.

    Root of a container has only those that were mapped into it, often 65,536.
    """
    return all(_has_all((folder / name).read_text()) for name in ("uid_map", "gid_map"))


def _has_all(id_map: str) -> bool:
    rows = [(int(first), int(count)) for first, _, count in map(str.split, id_map.splitlines())]
    end = DEFAULT_BASE + _COUNT * _RANGES
    return any(first <= DEFAULT_BASE and end <= first + count for first, count in rows)


class Uids:
    """A range of uids and which of them are taken."""

    def __init__(self, base: int, count: int = _COUNT) -> None:
        self._base = base
        self._count = count
        self._next = 0
        self._taken: set[int] = set()

    def take(self) -> int:
        if len(self._taken) == self._count:
            raise LaunchError(f"all {self._count} uids for contexts are taken")
        while self._base + self._next in self._taken:
            self._next = (self._next + 1) % self._count
        uid = self._base + self._next
        self._next = (self._next + 1) % self._count
        self._taken.add(uid)
        return uid

    def release(self, uid: int) -> None:
        self._taken.discard(uid)


class UidRange:
    """The lock on a range, which no other launcher of this machine then uses; it ends with the process."""

    def __init__(self, lock_fd: int, base: int) -> None:
        self._lock_fd = lock_fd
        self.base = base

    @classmethod
    def reserve(cls, base: int = DEFAULT_BASE, directory: Path | None = None) -> "UidRange":
        """The first free range from `base` on. For root; opens files, so not for the event loop."""
        folder = directory or _lock_directory()
        for index in range(_RANGES):
            fd = os.open(folder / f"{base + index * _COUNT}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
            else:
                return cls(fd, base + index * _COUNT)
        raise IsolationError(f"all {_RANGES} ranges of uids are in use; their locks are in {folder}")

    def release(self) -> None:
        os.close(self._lock_fd)


def _lock_directory() -> Path:
    """A directory of root's that all daemons of this machine agree on."""
    for parent in ("/run", "/var/lib", tempfile.gettempdir()):
        folder = Path(parent, "functory-uids")
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            continue  # a read-only file system
        if folder.lstat().st_uid == os.geteuid() and not folder.is_symlink():
            return folder
    raise IsolationError("no directory to lock a range of uids in: /run, /var/lib and the temporary one are read-only")
