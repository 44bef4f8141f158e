"""Whether the path of the store still names the file that was opened.

A file that is removed or replaced under a running daemon stays open, and takes every write as if nothing had happened.
The next start would find none of it.
"""

import time
from pathlib import Path
from typing import Final

from store.errors import StoreLost

_EVERY_S: Final = 1.0
"""While all is well: a look for each transaction would cost a switch of threads each time."""


class OpenedFile:
    """Made when the file is open. For one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened = _identity(path)
        self._seen_s = time.monotonic()

    def check(self) -> None:
        """Raises StoreLost. A file that is moved back is as good as before."""
        now_s = time.monotonic()
        if now_s - self._seen_s < _EVERY_S:
            return
        try:
            is_same = _identity(self._path) == self._opened
        except OSError:  # a folder that cannot be entered, or a disk that does not answer, tells nothing of the file
            is_same = True
        if not is_same:
            raise StoreLost(
                f"{self._path} was removed or replaced while it was in use: nothing is written any more, and new jobs"
                " stay in the journal. Move the file back, with its -wal file, or stop the daemon and restore a backup"
            )
        self._seen_s = now_s


def _identity(path: Path) -> tuple[int, int] | None:
    """None: there is no such file."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
