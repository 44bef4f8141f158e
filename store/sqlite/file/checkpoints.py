"""Moving the WAL into the file, beside the writer and not in its way.

Left alone, SQLite does it at the end of whichever commit makes the WAL long, some ten milliseconds in which nobody can
write. Here a thread with a connection of its own does it, which disturbs neither writer nor readers. What is committed
meanwhile stays in the WAL, which starts anew only when all of it is in the file: so the writer moves that rest itself,
which is short. Ensures: the WAL is hardly longer than CHECKPOINT_PAGES while no reader holds on to it. Nothing depends
on a checkpoint but the WAL's length, so one that fails is tried again after a later commit.
"""

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import apsw

from store.sqlite.file.connection import CHECKPOINT_PAGES, fetch


class Checkpoints:
    """Belongs to the writer's thread."""

    def __init__(self, path: Path, conn: apsw.Connection) -> None:
        self._path = path
        self._conn = conn
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store-checkpoint")
        self._moved: Future[None] | None = None
        self._pages = 0
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
            with contextlib.suppress(RuntimeError):  # the system lets nobody start a thread now
                self._moved = self._thread.submit(self._move_most)
        elif self._moved.done():
            self._moved = None
            with contextlib.suppress(apsw.Error):
                self._conn.wal_checkpoint()

    def _committed(self, _conn: apsw.Connection, _database: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def _move_most(self) -> None:
        with contextlib.suppress(apsw.Error), contextlib.closing(apsw.Connection(str(self._path))) as conn:
            fetch(conn, "PRAGMA schema_version")  # before it has read something it knows of no WAL
            conn.wal_checkpoint()
