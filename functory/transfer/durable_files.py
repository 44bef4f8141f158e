"""Copies files and moves folders so that the result survives a power cut, and belongs to whom it should."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from functory.errors import StillRunning
from journal.durable import sync_folder


def copy_durably(source: Path, target: Path) -> None:
    """Copy the content, for its owner alone. Raises FileExistsError."""
    with source.open("rb") as reading, _created(target) as writing:
        shutil.copyfileobj(reading, writing, 1 << 20)


def write_durably(path: Path, content: bytes) -> None:
    with _created(path) as file:
        file.write(content)


@contextmanager
def _created(path: Path) -> Iterator[BinaryIO]:
    """A new file, synced when the `with` block ends well."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:  # noqa: PTH123 (a descriptor that was never readable by others)
        yield file
        file.flush()
        os.fsync(file.fileno())


def hand_over(path: Path, of: Path) -> None:
    """Give a file, or a folder with all that is in it, to the owner of `of`. Only root can: whoever else made it is its
    owner. The new owner may be at work on names meanwhile, so no link is followed and a folder comes after its
    content."""
    if os.geteuid() != 0:
        return
    owner = of.stat()
    for _, folders, files, fd in os.fwalk(path, topdown=False):
        for name in (*folders, *files):
            os.chown(name, owner.st_uid, owner.st_gid, dir_fd=fd, follow_symlinks=False)
    os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def sync_tree(path: Path) -> None:
    """Sync the names in a folder and in all folders below it; files were synced when they were written."""
    for folder in [path, *(each for each in path.rglob("*") if each.is_dir())]:
        sync_folder(folder)


@contextmanager
def sole_use(path: Path) -> Iterator[None]:
    """Raises StillRunning if another process is in such a block for the same folder. The lock ends with the process."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise StillRunning(f"another process is writing to {path}: wait for it") from None
    try:
        yield
    finally:
        os.close(fd)
