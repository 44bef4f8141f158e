"""The file as a whole: its version, a consistent copy while others write, a check of every page.

Works on connections of its own and never migrates, so that a file of any version can be looked at and copied.
"""

import contextlib
import errno
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw

from store.errors import NotFound, StoreCorrupt, StoreFull, StoreUnavailable
from store.sqlite.file import schema
from store.sqlite.file.connection import as_store_error, connect_reader
from store.sqlite.file.schema import read_version
from store.values.version import StoreVersion

log = logging.getLogger("store.sqlite")

_STEP_PAGES: Final = 4096
_PROBLEMS: Final = 10


def get_version(path: Path) -> StoreVersion:
    engine = f"SQLite {apsw.sqlite_lib_version()}"
    if not path.exists():
        return StoreVersion(0, len(schema.MIGRATIONS), engine)
    with reading(path) as conn:
        return StoreVersion(read_version(conn, str(path)), len(schema.MIGRATIONS), engine)


def copy_file(path: Path, target: Path) -> None:
    """The transaction that is opened first pins one moment; in WAL mode no writer waits for it."""
    with reading(path) as source:
        source.execute("BEGIN")
        _require_schema(source, path)
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        _copy_pages(source, target)
    _sync(target)


def _copy_pages(source: apsw.Connection, target: Path) -> None:
    try:
        with contextlib.closing(apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)) as copy:
            # Nobody uses the copy before it is complete and synced: it needs no protection while it grows.
            copy.execute("PRAGMA journal_mode = OFF")
            copy.execute("PRAGMA synchronous = OFF")
            with copy.backup("main", source, "main") as backup:
                while not backup.done:
                    backup.step(_STEP_PAGES)
    except apsw.Error as error:
        raise as_store_error(error, target) from error


def _sync(target: Path) -> None:
    for path in (target, target.parent):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def verify(path: Path, *, quick: bool) -> dict[str, int]:
    with reading(path) as conn:
        conn.execute("BEGIN")
        check = "quick_check" if quick else "integrity_check"
        problems = [text for (text,) in conn.execute(f"PRAGMA {check}({_PROBLEMS})")]
        if problems != ["ok"]:
            raise StoreCorrupt(f"{path} is damaged: {'; '.join(problems)}. Keep the file, and restore a backup")
        _require_schema(conn, path)
        names = [name for (name,) in conn.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
        tables = [name for name in names if not name.startswith("sqlite_")]
        return {name: conn.execute(f'SELECT count(*) FROM "{name}"').get for name in tables}


def _require_schema(conn: apsw.Connection, path: Path) -> None:
    """A file without any is what is left of a store that was cut off, or was never filled: nothing in it is damaged."""
    if not read_version(conn, str(path)):
        raise NotFound(f"there is no store in {path}: the file is empty")


def keep_copy(path: Path, version: int) -> Path:
    """A copy beside the file before it is migrated, named after its schema: `functory.db.schema-1`. None is replaced.

    To be called while the write lock is held: then the copy is what the migration begins with.
    """
    kept = path.with_name(f"{path.name}.schema-{version}")
    number = 1
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}.schema-{version}.{number}")
    partial = kept.with_name(f"{kept.name}.part")
    partial.unlink(missing_ok=True)  # of a copy that a crash interrupted
    try:
        copy_file(path, partial)
    except (StoreFull, OSError) as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise StoreUnavailable(f"{path} must be migrated, and cannot be copied before: {error}") from error
        raise StoreFull(f"{path} must be migrated, and there is no room for a copy before: free some space") from error
    partial.rename(kept)
    _sync(kept)
    log.warning("store.migrating", extra={"path": str(path), "schema": version, "copy": str(kept)})
    return kept


@contextlib.contextmanager
def reading(path: Path) -> Iterator[apsw.Connection]:
    """A connection that cannot write, for the length of a `with` block; SQLite's errors in the store's words."""
    if not path.exists():
        raise NotFound(f"there is no store at {path}")
    if not os.access(path, os.R_OK | os.W_OK):
        raise StoreUnavailable(f"{path} belongs to another user: run this as the user that the daemon runs as")
    try:
        with contextlib.closing(connect_reader(path)) as conn:
            yield conn
    except apsw.Error as error:
        raise as_store_error(error, path) from error
