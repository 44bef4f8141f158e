"""Alert rules by tenant and name: one document each, whose version is the condition of every change."""

from pymongo.errors import DuplicateKeyError

from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import Document
from store.values.alerts import AlertRecord


class MongoAlerts(Core):
    @once
    async def put_alert(self, alert: AlertRecord) -> bool:
        document = alert_document(alert)
        if alert.version == 1:
            try:
                await self.collections.alerts.insert_one(document)
            except DuplicateKeyError:
                return False
            return True
        before = {"_id": document["_id"], "version": alert.version - 1, "created": alert.created_ms}
        return (await self.collections.alerts.replace_one(before, document)).matched_count == 1

    @repeatable
    async def list_alerts(self, tenant: str) -> list[AlertRecord]:
        found = self.collections.alerts.find({"_id": {"$gte": f"{tenant}|", "$lt": f"{tenant}}}"}}).sort("_id", 1)
        return [alert_from(row) for row in await found.to_list(None)]

    @repeatable
    async def list_alert_tenants(self) -> list[str]:
        found = await self.collections.alerts.find({}, {"_id": 1}).to_list(None)
        return sorted({row["_id"].partition("|")[0] for row in found})

    @once
    async def delete_alert(self, tenant: str, name: str) -> bool:
        return (await self.collections.alerts.delete_one({"_id": f"{tenant}|{name}"})).deleted_count == 1


def alert_document(alert: AlertRecord) -> Document:
    return {
        "_id": f"{alert.tenant}|{alert.name}",
        "version": alert.version,
        "created": alert.created_ms,
        "author": alert.author,
        "settings": alert.settings,
        "state": alert.state,
    }


def alert_from(row: Document) -> AlertRecord:
    tenant, _, name = row["_id"].partition("|")
    return AlertRecord(tenant, name, row["version"], row["created"], row["author"], row["settings"], row["state"])
