"""Sealed values by tenant and name. A row without data is a secret that was deleted."""

from typing import Final

import apsw

from store.sqlite.file.connection import fetch
from store.sqlite.file.writer import Tx
from store.values.records import Secret

SECRET_COLUMNS: Final = "tenant, name, version, created, author, key_id, data"  # noqa: S105  # columns, no value


def put_secret(tx: Tx, secret: Secret) -> bool:
    sql = "SELECT version FROM secrets WHERE tenant = ? AND name = ?"
    last = tx.conn.execute(sql, (secret.tenant, secret.name)).get or 0
    if last != secret.version - 1:
        return False
    tx.conn.execute(f"INSERT OR REPLACE INTO secrets ({SECRET_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", secret)
    return True


def reseal_secret(tx: Tx, secret: Secret) -> bool:
    sql = (
        "UPDATE secrets SET key_id = ?, data = ?"
        " WHERE tenant = ? AND name = ? AND version = ? AND created = ? AND author = ? AND data <> x'' RETURNING 1"
    )
    values = (secret.key_id, secret.data, *secret[:5])
    return tx.conn.execute(sql, values).get is not None


def list_secrets(conn: apsw.Connection, tenant: str) -> list[Secret]:
    rows = fetch(conn, f"SELECT {SECRET_COLUMNS} FROM secrets WHERE tenant = ? ORDER BY name", (tenant,))
    return [Secret(*row) for row in rows]


def list_secret_tenants(conn: apsw.Connection) -> list[str]:
    return [tenant for (tenant,) in fetch(conn, "SELECT DISTINCT tenant FROM secrets ORDER BY tenant", ())]


def list_secret_keys(conn: apsw.Connection) -> list[str]:
    sql = "SELECT DISTINCT key_id FROM secrets WHERE data <> x'' ORDER BY key_id"
    return [key_id for (key_id,) in fetch(conn, sql, ())]


def delete_secret(tx: Tx, tenant: str, name: str, now_ms: int) -> bool:
    sql = (
        "UPDATE secrets SET version = version + 1, created = ?, author = '', key_id = '', data = x''"
        " WHERE tenant = ? AND name = ? AND data <> x'' RETURNING 1"
    )
    return tx.conn.execute(sql, (now_ms, tenant, name)).get is not None
