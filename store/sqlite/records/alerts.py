"""Alert rules by tenant and name: one row each, whose version is the condition of every change."""

from typing import Final

import apsw

from store.sqlite.file.connection import fetch
from store.sqlite.file.writer import Tx
from store.values.alerts import AlertRecord

ALERT_COLUMNS: Final = "tenant, name, version, created, author, settings, state"


def put_alert(tx: Tx, alert: AlertRecord) -> bool:
    if alert.version == 1:
        sql = (
            f"INSERT INTO alerts ({ALERT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, name) DO NOTHING"
            " RETURNING 1"
        )
        return tx.conn.execute(sql, alert).get is not None
    sql = (
        "UPDATE alerts SET version = ?3, author = ?5, settings = ?6, state = ?7"
        " WHERE tenant = ?1 AND name = ?2 AND version = ?3 - 1 AND created = ?4 RETURNING 1"
    )
    return tx.conn.execute(sql, alert).get is not None


def list_alerts(conn: apsw.Connection, tenant: str) -> list[AlertRecord]:
    rows = fetch(conn, f"SELECT {ALERT_COLUMNS} FROM alerts WHERE tenant = ? ORDER BY name", (tenant,))
    return [AlertRecord(*row) for row in rows]


def list_alert_tenants(conn: apsw.Connection) -> list[str]:
    return [tenant for (tenant,) in fetch(conn, "SELECT DISTINCT tenant FROM alerts ORDER BY tenant", ())]


def delete_alert(tx: Tx, tenant: str, name: str) -> bool:
    sql = "DELETE FROM alerts WHERE tenant = ? AND name = ? RETURNING 1"
    return tx.conn.execute(sql, (tenant, name)).get is not None
