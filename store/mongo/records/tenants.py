"""Tenants, keys, audit events and values written once."""

from typing import Final

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from store.errors import Conflict, NotFound
from store.mongo.server import schema
from store.mongo.server.blobs import kept_by
from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import Collection, Document
from store.values.records import ApiKey, AuditEvent, AuditPage, DeleteReport, Tenant

_BLOBS: Final = {"blob": 1, "out.blob": 1}


class MongoTenants(Core):
    @once
    async def create_tenant(self, tenant: Tenant) -> None:
        try:
            await self.collections.tenants.insert_one(tenant_document(tenant))
        except DuplicateKeyError:
            raise Conflict(f"the name {tenant.name} is already taken") from None

    @repeatable
    async def get_tenant(self, name: str) -> Tenant | None:
        found = await self.collections.tenants.find_one({"_id": name})
        return None if found is None else tenant_from(found)

    @repeatable
    async def list_tenants(self) -> list[Tenant]:
        return [tenant_from(row) for row in await self.collections.tenants.find().sort("_id", 1).to_list(None)]

    @repeatable
    async def update_tenant(
        self,
        name: str,
        *,
        weight: int | None = None,
        limits: str | None = None,
        suspended: bool | None = None,
    ) -> Tenant:
        fields: Document = {}
        if weight is not None:
            fields["weight"] = weight
        if limits is not None:
            fields["limits"] = limits
        if suspended is not None:
            fields["suspended"] = suspended
        tenants = self.collections.tenants
        found = await tenants.find_one({"_id": name})
        if found is not None and fields:
            if found["deleting"]:
                fields.pop("suspended", None)  # it stays suspended to its end
            found = await tenants.find_one_and_update(
                {"_id": name, "deleting": found["deleting"]},
                {"$set": {"weight": found["weight"], **fields}},
                return_document=ReturnDocument.AFTER,
            )
        if found is None:
            raise NotFound(f"there is no tenant {name}")
        return tenant_from(found)

    @once
    async def delete_tenant(self, name: str, *, limit: int = 1000, only_leftovers: bool = False) -> DeleteReport:
        if only_leftovers and await self.get_tenant(name) is not None:
            return DeleteReport(0, more=False)
        await self.collections.tenants.update_one({"_id": name}, {"$set": {"suspended": True, "deleting": True}})
        await self.collections.keys.delete_many({"tenant": name})
        removed = 0
        for collection, which in self._belongings(name):
            rows = await collection.find(which, _BLOBS).limit(limit - removed).to_list(limit - removed)
            if rows:
                await self.blobs.remove(file_id for row in rows for file_id in kept_by(row))
                await collection.delete_many({"_id": {"$in": [row["_id"] for row in rows]}})
            removed += len(rows)
            if removed >= limit:
                return DeleteReport(removed, more=True)
        return DeleteReport(removed, more=False)

    def _belongings(self, name: str) -> list[tuple[Collection, Document]]:
        """All that a tenant has, in the order in which it goes; the record is last."""
        of_types = schema.types_of(name)
        by_name = {"_id": {"$gte": f"{name}|", "$lt": f"{name}}}"}}
        everything = self.collections
        return [
            (everything.jobs, {"s": {"$in": list(schema.ALL_STATES)}, "type": of_types}),
            (everything.counters, {"type": of_types}),
            (everything.versions, {"type": of_types}),
            (everything.names, {"type": of_types}),
            (everything.shelf, {"_id": of_types}),
            (everything.turns, {"type": of_types}),
            (everything.lanes, {"type": of_types}),
            (everything.types, {"_id": of_types}),
            (everything.consumers, by_name),
            (everything.rates, by_name),
            (everything.rate_buckets, by_name),
            (everything.once, by_name),
            (everything.numbers, {"_id": name}),
            (everything.secrets, by_name),
            (everything.contents, by_name),
            (everything.tenants, {"_id": name}),
        ]

    @once
    async def add_key(self, key: ApiKey) -> None:
        if key.tenant and await self.collections.tenants.find_one({"_id": key.tenant}) is None:
            raise NotFound(f"there is no tenant {key.tenant} to give a key to")
        try:
            await self.collections.keys.insert_one(key_document(key))
        except DuplicateKeyError:
            raise Conflict(f"the key id {key.key_id} is already taken") from None

    @repeatable
    async def get_key(self, key_id: str) -> ApiKey | None:
        found = await self.collections.keys.find_one({"_id": key_id})
        return None if found is None else key_from(found)

    @repeatable
    async def list_keys(self, tenant: str) -> list[ApiKey]:
        found = self.collections.keys.find({"tenant": tenant}).sort([("created", 1), ("_id", 1)])
        return [key_from(row) for row in await found.to_list(None)]

    @repeatable
    async def set_key_expiry(self, tenant: str, key_id: str, expires_ms: int | None) -> ApiKey:
        found = await self.collections.keys.find_one_and_update(
            {"_id": key_id, "tenant": tenant},
            {"$set": {"expires": expires_ms}},
            return_document=ReturnDocument.AFTER,
        )
        if found is None:
            raise NotFound(f"there is no key {key_id!r:.80} of that tenant")
        return key_from(found)

    @once
    async def delete_key(self, tenant: str, key_id: str) -> bool:
        done = await self.collections.keys.delete_one({"_id": key_id, "tenant": tenant})
        return done.deleted_count == 1

    @once
    async def append_audit(self, event: AuditEvent) -> None:
        number = await schema.next_number(self.collections, "audit")
        await self.collections.audit.insert_one(audit_document(number, event))

    @repeatable
    async def list_audit(self, *, tenant: str | None = None, cursor: str | None = None, limit: int = 100) -> AuditPage:
        which: Document = {} if tenant is None else {"tenant": tenant}
        if cursor is not None:
            which["_id"] = {"$lt": int(cursor)}
        rows = await self.collections.audit.find(which).sort("_id", -1).limit(limit + 1).to_list(limit + 1)
        events = tuple(audit_from(row) for row in rows[:limit])
        return AuditPage(events, str(rows[limit - 1]["_id"]) if len(rows) > limit else None)

    @repeatable
    async def get_once(self, tenant: str, key: str, *, now_ms: int) -> bytes | None:
        standing = await self.collections.once.find_one({"_id": f"{tenant}|{key}", "expires": {"$gt": now_ms}})
        return None if standing is None else bytes(standing["value"])

    @once
    async def put_once(self, tenant: str, key: str, value: bytes, *, expires_ms: int, now_ms: int) -> bytes:
        once = self.collections.once
        name = f"{tenant}|{key}"
        while True:
            standing = await once.find_one({"_id": name})
            if standing is None:
                try:
                    await once.insert_one({"_id": name, "value": value, "expires": expires_ms})
                except DuplicateKeyError:
                    continue
                return value
            if standing["expires"] > now_ms:
                return bytes(standing["value"])
            same = {"_id": name, "expires": standing["expires"], "value": standing["value"]}
            lapsed = await once.update_one(same, {"$set": {"value": value, "expires": expires_ms}})
            if lapsed.matched_count:
                return value

    @once
    async def delete_once(self, tenant: str, key: str, value: bytes) -> None:
        await self.collections.once.delete_one({"_id": f"{tenant}|{key}", "value": value})


def tenant_document(tenant: Tenant) -> Document:
    return {
        "_id": tenant.name,
        "created": tenant.created_ms,
        "weight": tenant.weight,
        "limits": tenant.limits,
        "suspended": tenant.suspended,
        "deleting": tenant.deleting,
    }


def key_document(key: ApiKey) -> Document:
    return {
        "_id": key.key_id,
        "tenant": key.tenant,
        "hash": key.hash,
        "scopes": list(key.scopes),
        "created": key.created_ms,
        "expires": key.expires_ms,
        "label": key.label,
    }


def audit_document(number: int, event: AuditEvent) -> Document:
    return {
        "_id": number,
        "at": event.at_ms,
        "actor": event.actor,
        "action": event.action,
        "tenant": event.tenant,
        "detail": event.detail,
    }


def audit_from(row: Document) -> AuditEvent:
    return AuditEvent(row["at"], row["actor"], row["action"], row["tenant"], row["detail"])


def tenant_from(row: Document) -> Tenant:
    return Tenant(row["_id"], row["created"], row["weight"], row["limits"], row["suspended"], row["deleting"])


def key_from(row: Document) -> ApiKey:
    return ApiKey(
        row["_id"],
        row["tenant"],
        bytes(row["hash"]),
        tuple(row["scopes"]),
        row["created"],
        row["expires"],
        row["label"],
    )
