"""Handlers by type and version. `types.handler` is the version in force, `types.last_handler` the last one given."""

from typing import Any, Final

import apsw

from store import handler_rules
from store.errors import NotFound
from store.sqlite.file.connection import fetch
from store.sqlite.file.writer import Tx
from store.values.records import Handler, HandlerSummary, NewHandler

_COLUMNS: Final = "h.version, h.created, h.lang, h.data, h.author, h.restored_from, h.tree"
_SUMMARY: Final = "h.version, h.created, h.lang, h.author, h.restored_from, length(h.data), h.version = t.handler"


def set_handler(tx: Tx, new: NewHandler, after: int | None = None, *, exactly: bool = False) -> Handler:
    handler = _put_in_force(tx, new, after, exactly=exactly)
    tx.conn.execute(
        "DELETE FROM handlers WHERE type = ?1 AND version NOT IN"
        " (SELECT version FROM handlers WHERE type = ?1 ORDER BY version DESC LIMIT ?2)"
        " AND version <> (SELECT handler FROM types WHERE type = ?1)",
        (tx.catalog.make_type(new.jobtype), handler_rules.VERSIONS_KEPT),
    )
    return handler


def _put_in_force(tx: Tx, new: NewHandler, after: int | None, *, exactly: bool) -> Handler:
    number = tx.catalog.make_type(new.jobtype)
    current = get_handler(tx.conn, new.jobtype, None)
    if current is not None and (current.lang, current.data) == (new.lang, new.data):
        return current
    if after is not None:
        handler_rules.check_still_wanted(current, after, new.created_ms, exactly=exactly)
    sql = "UPDATE types SET last_handler = last_handler + 1, handler = last_handler + 1 WHERE type = ?"
    tx.conn.execute(sql, (number,))
    version = tx.conn.execute("SELECT handler FROM types WHERE type = ?", (number,)).get
    tx.conn.execute(
        "INSERT INTO handlers (type, version, created, lang, author, restored_from, data, tree)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (number, version, new.created_ms, new.lang, new.author, new.restored_from, new.data, new.tree),
    )
    return new.numbered(version)


def get_handler(conn: apsw.Connection, jobtype: str, version: int | None) -> Handler | None:
    row = conn.execute(
        f"SELECT {_COLUMNS} FROM handlers h JOIN types t ON t.type = h.type"
        " WHERE t.jobtype = ? AND h.version = coalesce(?, t.handler)",
        (jobtype, version),
    ).get
    return None if row is None else Handler(jobtype, *row)


def delete_handler(tx: Tx, jobtype: str) -> bool:
    sql = "UPDATE types SET handler = 0 WHERE jobtype = ? AND handler <> 0 RETURNING 1"
    return tx.conn.execute(sql, (jobtype,)).get is not None


def roll_back_handler(tx: Tx, jobtype: str, version: int, now_ms: int, author: str) -> Handler:
    old = get_handler(tx.conn, jobtype, version)
    if old is None:
        raise NotFound(f"{jobtype} has no version {version} of its handler (any more)")
    new = NewHandler(jobtype, old.lang, old.data, now_ms, author, old.tree, restored_from=version)
    return set_handler(tx, new)


def list_handlers(conn: apsw.Connection, tenant: str) -> list[HandlerSummary]:
    rows = fetch(
        conn,
        f"SELECT t.jobtype, {_SUMMARY} FROM types t"
        " JOIN handlers h ON h.type = t.type AND h.version = t.handler WHERE t.tenant = ? ORDER BY t.jobtype",
        (tenant,),
    )
    return [_summary(row) for row in rows]


def list_handled_types(conn: apsw.Connection, tenant: str) -> list[str]:
    sql = "SELECT jobtype FROM types WHERE tenant = ? AND handler <> 0 ORDER BY jobtype"
    return [jobtype for (jobtype,) in fetch(conn, sql, (tenant,))]


def list_handler_versions(conn: apsw.Connection, jobtype: str) -> list[HandlerSummary]:
    rows = fetch(
        conn,
        f"SELECT t.jobtype, {_SUMMARY} FROM types t JOIN handlers h ON h.type = t.type"
        " WHERE t.jobtype = ? ORDER BY h.version DESC",
        (jobtype,),
    )
    return [_summary(row) for row in rows]


def _summary(row: tuple[Any, ...]) -> HandlerSummary:
    *values, current = row
    return HandlerSummary._make((*values, bool(current)))
