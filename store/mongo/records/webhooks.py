"""Webhooks by tenant and name: one document each."""

from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import Document, upserted
from store.values.webhooks import WebhookRecord


class MongoWebhooks(Core):
    @once
    async def put_webhook(self, webhook: WebhookRecord) -> bool:
        document = webhook_document(webhook)
        which = {"_id": document["_id"]}
        done = await upserted(lambda: self.collections.webhooks.replace_one(which, document, upsert=True))
        return done.matched_count == 0

    @repeatable
    async def get_webhook(self, tenant: str, name: str) -> WebhookRecord | None:
        row = await self.collections.webhooks.find_one({"_id": f"{tenant}|{name}"})
        return None if row is None else webhook_from(row)

    @repeatable
    async def list_webhooks(self, tenant: str) -> list[WebhookRecord]:
        found = self.collections.webhooks.find({"_id": {"$gte": f"{tenant}|", "$lt": f"{tenant}}}"}}).sort("_id", 1)
        return [webhook_from(row) for row in await found.to_list(None)]

    @once
    async def delete_webhook(self, tenant: str, name: str) -> bool:
        return (await self.collections.webhooks.delete_one({"_id": f"{tenant}|{name}"})).deleted_count == 1


def webhook_document(webhook: WebhookRecord) -> Document:
    return {
        "_id": f"{webhook.tenant}|{webhook.name}",
        "created": webhook.created_ms,
        "author": webhook.author,
        "settings": webhook.settings,
    }


def webhook_from(row: Document) -> WebhookRecord:
    tenant, _, name = row["_id"].partition("|")
    return WebhookRecord(tenant, name, row["created"], row["author"], row["settings"])
