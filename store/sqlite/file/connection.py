"""How a connection to the file is made, and what its errors mean in the store's words."""

import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import apsw

from store.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable, UnsupportedStore

OLDEST_SQLITE: Final = (3, 51, 3)
"""Versions before this can lose committed transactions when two connections meet while the WAL is reset."""

BUSY_TIMEOUT_MS: Final = 10_000
_RETRY_S: Final = 0.005
"""Between two tries of what SQLite itself does not wait for."""
CACHE_KIB: Final = 32 * 1024
CHECKPOINT_PAGES: Final = 8_000
"""The WAL is moved into the file when it is this long (32 MB): rarer checkpoints write a hot page less often."""
LONGEST_WAL_BYTES: Final = 64 << 20
"""After a checkpoint no more of the WAL is kept, to be written over."""


def fetch(conn: apsw.Connection, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[tuple[Any, ...]]:
    """All rows. What a column holds is the schema's word (STRICT tables), which a type checker cannot read."""
    return conn.execute(sql, values).fetchall()


def check_library(version: str | None = None) -> None:
    """Refuse a SQLite without the WAL-reset fix."""
    found = version or apsw.sqlite_lib_version()
    if tuple(int(part) for part in found.split(".")) < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        raise UnsupportedStore(f"SQLite {found} can lose data in WAL mode; install apsw with SQLite >= {wanted}")


def connect_writer(path: Path) -> apsw.Connection:
    if not path.exists():
        _create_private(path)
    conn = _connect(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    _enter_wal(conn)
    conn.execute("PRAGMA synchronous = FULL")
    conn.execute("PRAGMA temp_store = MEMORY")
    conn.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    conn.execute(f"PRAGMA journal_size_limit = {LONGEST_WAL_BYTES}")
    return conn


def _enter_wal(conn: apsw.Connection) -> None:
    """Two that do this to a new file at once are in each other's way, and SQLite tells one of them so without
    waiting as it does elsewhere."""
    end_s = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            conn.execute("PRAGMA journal_mode = WAL")
            return
        except apsw.BusyError:
            if time.monotonic() >= end_s:
                raise
            time.sleep(_RETRY_S)


def _create_private(path: Path) -> None:
    """An empty file that only its owner can read: it will hold payloads and hashes of keys. The WAL inherits that.

    It is made under another name and linked: a descriptor of the database itself must never be closed in a process
    that may have it open through SQLite, because that drops the locks of all its connections.
    """
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(descriptor)
        with contextlib.suppress(FileExistsError):  # another daemon was quicker
            path.hardlink_to(temporary)
        Path(temporary).unlink()
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error.strerror}; check that the folder exists and is writable") from error


def connect_reader(path: Path) -> apsw.Connection:
    # temp_store is left alone: a sort that fits the cache is in memory anyway, and a quarter quicker than with MEMORY,
    # which allocates row by row.
    conn = _connect(path, apsw.SQLITE_OPEN_READWRITE)
    conn.execute("PRAGMA query_only = 1")
    return conn


def _connect(path: Path, flags: int) -> apsw.Connection:
    conn = apsw.Connection(str(path), flags=flags, statementcachesize=200)
    conn.set_busy_timeout(BUSY_TIMEOUT_MS)
    # A plan for any value: otherwise whatever may fit a partial index is compiled anew each time a value is bound.
    conn.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    conn.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    return conn


def as_store_error(error: apsw.Error, path: Path) -> StoreError:
    """The store's word for what SQLite reported. A fault of our own SQL is not dressed up: it stays what it is."""
    if isinstance(error, apsw.FullError):
        return StoreFull(f"{path}: the disk is full; nothing of this call was kept")
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreUnavailable(f"{path}: another process held the write lock for {BUSY_TIMEOUT_MS} ms")
    if isinstance(error, apsw.ProtocolError):
        return StoreUnavailable(f"{path}: another process kept all others out for some {BUSY_TIMEOUT_MS} ms")
    if isinstance(error, apsw.NoMemError):
        return StoreUnavailable(f"{path}: the system gave SQLite no memory; nothing of this call was kept")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return StoreCorrupt(f"{path}: {error}; stop, keep the file, and restore a backup")
    if isinstance(error, apsw.IOError | apsw.CantOpenError | apsw.ReadOnlyError | apsw.PermissionsError):
        return StoreUnavailable(f"{path}: {error}; check that the folder exists, is writable and has space")
    raise error
