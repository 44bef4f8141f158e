"""Folders and small files whose names and content survive a power cut once the call has returned. Blocks.

A new name is on the disk only after the folder that it is in was synced: without that a crash can lose a whole journal
whose every byte was synced.
"""

import glob
import os
import tempfile
from contextlib import suppress
from pathlib import Path


def make_folder(path: Path) -> Path:
    """The folder and those above it, readable by their owner alone. One that exists is left as it is."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
        with suppress(PermissionError):  # a folder that we may write to and not read cannot be opened
            sync_folder(path.parent)
    return path


def sync_folder(path: Path) -> None:
    """The names in it."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def append_durably(path: Path, content: bytes) -> None:
    """To a file that is readable by its owner alone, and made if it is not there."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with open(fd, "ab") as file:  # noqa: PTH123 (a descriptor)
        file.write(content)
        file.flush()
        os.fsync(fd)
    sync_folder(path.parent)


def replace_durably(path: Path, content: bytes) -> None:
    """The file has its old content or all of the new one, whenever the power fails. For its owner alone."""
    written = _write_beside(path, content)
    try:
        written.rename(path)
    except BaseException:
        written.unlink()
        raise
    sync_folder(path.parent)


def create_durably(path: Path, content: bytes) -> None:
    """The same for a file that must not be there. Raises FileExistsError: of several that try, one makes it."""
    written = _write_beside(path, content)
    try:
        path.hardlink_to(written)
    finally:
        written.unlink()
    sync_folder(path.parent)


def remove_leftovers(path: Path, before_s: float) -> None:
    """What a crash left of an attempt to write this file, if it is older than that: a younger one may be under way."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.????????"):
        with suppress(OSError):  # another process was quicker, or it is another user's
            if left.stat().st_mtime < before_s:
                left.unlink()


def _write_beside(path: Path, content: bytes) -> Path:
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with open(fd, "wb") as file:  # noqa: PTH123 (a descriptor that was never readable by others)
            file.write(content)
            file.flush()
            os.fsync(fd)
    except BaseException:
        temporary.unlink()
        raise
    return temporary
