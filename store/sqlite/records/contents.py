"""Pieces of files by tenant and digest, each once."""

from collections.abc import Sequence
from typing import Final

import apsw

from store.sqlite.file.connection import fetch
from store.sqlite.file.writer import Tx
from store.values.records import Content, ContentSummary

CONTENT_COLUMNS: Final = "tenant, digest, touched, data"


def put_contents(tx: Tx, contents: Sequence[Content]) -> None:
    sql = (
        "INSERT INTO contents (tenant, digest, touched, data, size) VALUES (?1, ?2, ?3, ?4, length(?4))"
        " ON CONFLICT (tenant, digest) DO UPDATE SET touched = max(touched, excluded.touched)"
    )
    tx.conn.executemany(sql, contents)


def touch_contents(tx: Tx, tenant: str, digests: Sequence[str], now_ms: int) -> list[str]:
    found = []
    sql = "UPDATE contents SET touched = max(touched, ?) WHERE tenant = ? AND digest = ? RETURNING digest"
    for digest in sorted(set(digests)):
        found += [it for (it,) in tx.conn.execute(sql, (now_ms, tenant, digest))]
    return found


def get_contents(conn: apsw.Connection, tenant: str, digests: Sequence[str]) -> list[Content]:
    sql = f"SELECT {CONTENT_COLUMNS} FROM contents WHERE tenant = ? AND digest = ?"
    return [Content(*row) for digest in sorted(set(digests)) for row in fetch(conn, sql, (tenant, digest))]


def list_contents(conn: apsw.Connection, tenant: str, after: str, limit: int) -> list[ContentSummary]:
    sql = "SELECT digest, size, touched FROM contents WHERE tenant = ? AND digest > ? ORDER BY digest LIMIT ?"
    return [ContentSummary(*row) for row in fetch(conn, sql, (tenant, after, limit))]


def list_content_tenants(conn: apsw.Connection) -> list[str]:
    return [tenant for (tenant,) in fetch(conn, "SELECT DISTINCT tenant FROM contents ORDER BY tenant", ())]


def remove_contents(tx: Tx, tenant: str, digests: Sequence[str], before_ms: int) -> int:
    sql = "DELETE FROM contents WHERE tenant = ? AND digest = ? AND touched < ? RETURNING 1"
    return sum(len(list(tx.conn.execute(sql, (tenant, digest, before_ms)))) for digest in digests)


def list_trees(conn: apsw.Connection, tenant: str) -> list[str]:
    sql = (
        "SELECT DISTINCT h.tree FROM types t JOIN handlers h ON h.type = t.type WHERE t.tenant = ? AND h.tree <> ''"
        " ORDER BY h.tree"
    )
    return [tree for (tree,) in fetch(conn, sql, (tenant,))]


def content_bytes(conn: apsw.Connection, tenant: str) -> int:
    size_bytes: int = conn.execute("SELECT coalesce(sum(size), 0) FROM contents WHERE tenant = ?", (tenant,)).get
    return size_bytes
