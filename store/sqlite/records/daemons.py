"""Daemons and their sysids. AUTOINCREMENT never gives a number twice, also when its row is gone."""

from typing import Final

import apsw

from store.errors import NotFound
from store.names import FORGOTTEN_AFTER_MS, NEWEST_DAEMONS, sysid_of
from store.sqlite.file.connection import fetch
from store.sqlite.file.writer import Tx
from store.sqlite.records.import_note import refuse_half_a_store
from store.values.records import Daemon

_COLUMNS: Final = "sysid, reserved, until, info, paused"
_LAST: Final = "SELECT seq FROM sqlite_sequence WHERE name = 'daemons'"
FORGOTTEN: Final = f"until < ? AND number <= ({_LAST}) - {NEWEST_DAEMONS}"
"""Which records say nothing any more, with now - FORGOTTEN_AFTER_MS."""


def reserve_sysid(tx: Tx, info: str, lease_ms: int, now_ms: int) -> Daemon:
    refuse_half_a_store(tx.conn)
    tx.conn.execute(f"DELETE FROM daemons WHERE {FORGOTTEN}", (now_ms - FORGOTTEN_AFTER_MS,))
    sql = "INSERT INTO daemons (sysid, reserved, until, info) VALUES ('', ?, ?, ?)"
    tx.conn.execute(sql, (now_ms, now_ms + lease_ms, info))
    number = tx.conn.last_insert_rowid()
    sysid = sysid_of(number)
    tx.conn.execute("UPDATE daemons SET sysid = ? WHERE number = ?", (sysid, number))
    return Daemon(sysid, now_ms, now_ms + lease_ms, info, paused=False)


def renew_sysid(tx: Tx, sysid: str, info: str, lease_ms: int, now_ms: int) -> Daemon:
    row = tx.conn.execute(
        f"UPDATE daemons SET until = ?, info = ? WHERE sysid = ? RETURNING {_COLUMNS}",
        (now_ms + lease_ms, info, sysid),
    ).get
    if row is None:
        raise NotFound(f"sysid {sysid} was released: stop using it and reserve another")
    return _daemon(row)


def release_sysid(tx: Tx, sysid: str) -> None:
    tx.conn.execute("DELETE FROM daemons WHERE sysid = ?", (sysid,))


def forget_daemons(tx: Tx, skip: int) -> int:
    forgotten = fetch(tx.conn, "DELETE FROM daemons RETURNING number")
    raise_sysids(tx, last_sysid(tx.conn) + skip)
    return len(forgotten)


def last_sysid(conn: apsw.Connection) -> int:
    """The number of the last sysid given, which SQLite keeps for AUTOINCREMENT; 0 if there was none."""
    return conn.execute(_LAST).get or 0


def raise_sysids(tx: Tx, number: int) -> None:
    """Give only sysids above this one from now on."""
    if number > last_sysid(tx.conn):
        tx.conn.execute("DELETE FROM sqlite_sequence WHERE name = 'daemons'")
        tx.conn.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('daemons', ?)", (number,))


def list_daemons(conn: apsw.Connection, now_ms: int) -> list[Daemon]:
    sql = f"SELECT {_COLUMNS} FROM daemons WHERE until > ? ORDER BY number"
    return [_daemon(row) for row in conn.execute(sql, (now_ms,))]


def set_daemon_paused(tx: Tx, sysid: str, *, paused: bool) -> None:
    sql = "UPDATE daemons SET paused = ? WHERE sysid = ? RETURNING 1"
    if tx.conn.execute(sql, (paused, sysid)).get is None:
        raise NotFound(f"no daemon has the sysid {sysid}")


def _daemon(row: tuple[str, int, int, str, int]) -> Daemon:
    return Daemon(*row[:-1], paused=bool(row[-1]))
