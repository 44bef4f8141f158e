"""Ids of deleted jobs whose lines may be read again (values/positions.py): rows of no type, which no reader sees."""

from collections.abc import Iterable
from typing import Final

import apsw

from store.names import FORGOTTEN_AFTER_MS
from store.sqlite.file.connection import fetch
from store.sqlite.file.schema import State
from store.sqlite.file.writer import Tx
from store.values.positions import JournalPosition, may_be_read_again, passed_of, source_of
from store.values.transfer import DeletedRecord

POSITION: Final = "reader, segment, offset, line, passed, sources"
_KEEP: Final = (
    "INSERT INTO jobs (id, lock, done, type, lane, state, due, created, data_bytes)"
    f" VALUES (?, ?, ?, 0, 0, {State.DELETED}, 0, 0, 0) ON CONFLICT (id) DO NOTHING"
)
_SOURCES: Final = f"SELECT DISTINCT lock FROM jobs WHERE state = {State.DELETED}"
_READ: Final = f"SELECT n FROM jobs WHERE state = {State.DELETED} AND lock = ? AND id <= ? LIMIT ?"
_OLD: Final = f"SELECT n FROM jobs WHERE state = {State.DELETED} AND lock = ? AND done < ? LIMIT ?"


def position_from(row: tuple[str, str, int, int, str, str]) -> JournalPosition:
    """Of the columns POSITION."""
    return JournalPosition(*row[:5], tuple(row[5].split()))


def keep_ids(tx: Tx, ids: Iterable[str], now_ms: int) -> None:
    """Of jobs that were deleted just now."""
    positions = _positions(tx.conn)
    kept = [DeletedRecord(job_id, now_ms) for job_id in ids if may_be_read_again(job_id, positions)]
    if kept:
        put_deleted(tx, kept)


def put_deleted(tx: Tx, records: Iterable[DeletedRecord]) -> None:
    tx.conn.executemany(_KEEP, [(job_id, source_of(job_id), deleted_ms) for job_id, deleted_ms in records])


def expire_ids(tx: Tx, now_ms: int, limit: int) -> int:
    """Those whose lines were read, and those of journals that will not come back. Returns how many."""
    before, positions = tx.conn.total_changes(), _positions(tx.conn)
    for (source,) in fetch(tx.conn, _SOURCES):
        for which, value in ((_READ, passed_of(source, positions)), (_OLD, now_ms - FORGOTTEN_AFTER_MS)):
            left = limit - (tx.conn.total_changes() - before)
            tx.conn.execute(f"DELETE FROM jobs WHERE n IN ({which})", (source, value, left))
    return tx.conn.total_changes() - before


def _positions(conn: apsw.Connection) -> list[JournalPosition]:
    return [position_from(row) for row in fetch(conn, f"SELECT {POSITION} FROM positions WHERE sources <> ''")]
