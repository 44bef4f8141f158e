"""Webhooks by tenant and name: one row each."""

from typing import Final

import apsw

from store.sqlite.file.connection import fetch
from store.sqlite.file.writer import Tx
from store.values.webhooks import WebhookRecord

WEBHOOK_COLUMNS: Final = "tenant, name, created, author, settings"


def put_webhook(tx: Tx, webhook: WebhookRecord) -> bool:
    is_new = get_webhook(tx.conn, webhook.tenant, webhook.name) is None
    tx.conn.execute(f"INSERT OR REPLACE INTO webhooks ({WEBHOOK_COLUMNS}) VALUES (?, ?, ?, ?, ?)", webhook)
    return is_new


def get_webhook(conn: apsw.Connection, tenant: str, name: str) -> WebhookRecord | None:
    rows = fetch(conn, f"SELECT {WEBHOOK_COLUMNS} FROM webhooks WHERE tenant = ? AND name = ?", (tenant, name))
    return next((WebhookRecord(*row) for row in rows), None)


def list_webhooks(conn: apsw.Connection, tenant: str) -> list[WebhookRecord]:
    rows = fetch(conn, f"SELECT {WEBHOOK_COLUMNS} FROM webhooks WHERE tenant = ? ORDER BY name", (tenant,))
    return [WebhookRecord(*row) for row in rows]


def delete_webhook(tx: Tx, tenant: str, name: str) -> bool:
    sql = "DELETE FROM webhooks WHERE tenant = ? AND name = ? RETURNING 1"
    return tx.conn.execute(sql, (tenant, name)).get is not None
