"""The verbs on webhooks on SQLite."""

from store.protocol.webhooks import WebhookShelf
from store.sqlite.file.core import SqliteCore
from store.sqlite.records import webhooks
from store.values.webhooks import WebhookRecord


class SqliteWebhooks(SqliteCore, WebhookShelf):
    async def put_webhook(self, webhook: WebhookRecord) -> bool:
        return await self._write(lambda tx: webhooks.put_webhook(tx, webhook))

    async def get_webhook(self, tenant: str, name: str) -> WebhookRecord | None:
        return await self._read(lambda conn: webhooks.get_webhook(conn, tenant, name))

    async def list_webhooks(self, tenant: str) -> list[WebhookRecord]:
        return await self._read(lambda conn: webhooks.list_webhooks(conn, tenant))

    async def delete_webhook(self, tenant: str, name: str) -> bool:
        return await self._write(lambda tx: webhooks.delete_webhook(tx, tenant, name))
