"""Moving the WAL into the file, beside the writer and not in its way.

Left alone, SQLite does it at the end of whichever commit makes the WAL long, some ten milliseconds in which nobody can
write. Here a thread with a connection of its own does it, which disturbs neither writer nor readers. What is committed
meanwhile stays in the WAL, which starts anew only when all of it is in the file: so the writer moves that rest itself,
which is short. After a reader held on to the WAL, such as a backup, the rest may be long: then the thread goes on, as
long as each time leaves half as much. Ensures: the WAL is hardly longer than CHECKPOINT_PAGES while no reader holds on
to it. Nothing depends on a checkpoint but the WAL's length, so one that fails is tried again after a later commit.
"""

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import apsw

from store.sqlite.file.connection import CHECKPOINT_PAGES, fetch


class _Moved(NamedTuple):
    """How many pages the WAL had, and how many of these are in the file now."""

    in_wal: int
    pages: int


class Checkpoints:
    """Belongs to the writer's thread."""

    def __init__(self, path: Path, conn: apsw.Connection) -> None:
        self._path = path
        self._conn = conn
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store-checkpoint")
        self._moved: Future[_Moved | None] | None = None
        self._pages = 0
        self._rest = 0
        """Of the WAL, when the thread was asked."""
        conn.set_wal_hook(self._committed)  # takes the place of SQLite's own checkpoints

    def close(self) -> None:
        """Before the connection is."""
        self._thread.shutdown()

    @property
    def is_due(self) -> bool:
        return self._pages >= CHECKPOINT_PAGES

    def look(self) -> None:
        """To be called between transactions, when one is due."""
        if self._moved is None:
            self._ask(self._pages)
        elif self._moved.done():
            moved, self._moved = self._moved.result(), None
            if moved is not None and self._is_long(moved):
                self._ask(self._pages - moved.pages)
            else:
                with contextlib.suppress(apsw.Error):
                    self._conn.wal_checkpoint()

    def _ask(self, rest: int) -> None:
        self._rest = rest
        with contextlib.suppress(RuntimeError):  # the system lets nobody start a thread now
            self._moved = self._thread.submit(self._move_most)

    def _is_long(self, moved: "_Moved") -> bool:
        """Whether the rest is for the thread again: a reader held it back, or each time leaves far less."""
        rest, held_back = self._pages - moved.pages, moved.in_wal - moved.pages
        return rest >= CHECKPOINT_PAGES and (held_back >= CHECKPOINT_PAGES or rest <= self._rest // 2)

    def _committed(self, _conn: apsw.Connection, _database: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def _move_most(self) -> "_Moved | None":
        """None if that failed."""
        with contextlib.suppress(apsw.Error), contextlib.closing(apsw.Connection(str(self._path))) as conn:
            fetch(conn, "PRAGMA schema_version")  # before it has read something it knows of no WAL
            return _Moved(*conn.wal_checkpoint())
        return None
