"""Tenants, keys and audit events.

A name is held while what is under it is removed: by the tenant's record, marked as deleting, or by one that only says
so (`leftovers`) if there is no tenant. It has a mark of its own (`going`). Whoever removes looks for that mark before
each step and takes the record away under it, so one who is late finds the next tenant of the name and leaves it alone.
Only if all that happens between a look and its step, rows of the new tenant go that have the ids of old ones.
"""

import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from store.errors import Conflict, NotFound
from store.mongo.server import schema
from store.mongo.server.blobs import kept_by
from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import Collection, Document, find_and_update
from store.values.records import ApiKey, AuditEvent, AuditPage, DeleteReport, Tenant

_BLOBS: Final = {"blob": 1, "out.blob": 1}
_NOBODY: Final = Tenant("", 0, suspended=True, deleting=True)
"""Holds a name while what was left under it is removed."""


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
            if fields:
                same = {"_id": name, "deleting": found["deleting"]}
                found = await find_and_update(tenants, same, {"$set": fields})
        if found is None:
            raise NotFound(f"there is no tenant {name}")
        return tenant_from(found)

    @once
    async def delete_tenant(
        self, name: str, *, limit: int = 1000, only_leftovers: bool = False, only_deleting: bool = False
    ) -> DeleteReport:
        held = await self._hold_name(name, only_leftovers=only_leftovers, only_deleting=only_deleting)
        if held is None:
            return DeleteReport(0, more=False)
        keys = self.collections.keys
        rows = await keys.find({"tenant": name}, {"_id": 1}).to_list(None)
        if not await self._remove(held, keys, rows):
            return DeleteReport(0, more=False)
        removed = 0
        for collection, which in self._belongings(name):
            rows = await collection.find(which, _BLOBS).limit(limit - removed).to_list(limit - removed)
            if not await self._remove(held, collection, rows):
                return DeleteReport(removed, more=False)
            removed += len(rows)
            if removed >= limit:
                return DeleteReport(removed, more=True)
        gone: Document | None = await self.collections.tenants.find_one_and_delete(held)
        is_tenant = gone is not None and not gone.get("leftovers")
        return DeleteReport(removed + is_tenant, more=False)

    async def _remove(self, held: Document, collection: Collection, rows: Sequence[Document]) -> bool:
        """False, and nothing removed: the name is no longer held, so the rows may be those of the next tenant."""
        if rows:
            if await self.collections.tenants.find_one(held, {"_id": 1}) is None:
                return False
            await self.blobs.remove(file_id for row in rows for file_id in kept_by(row))
            await collection.delete_many({"_id": {"$in": [row["_id"] for row in rows]}})
        return True

    async def _hold_name(self, name: str, *, only_leftovers: bool, only_deleting: bool) -> Document | None:
        """The condition under which the record of the name is the one that holds it now. None: it is a tenant that is
        not to be touched."""
        tenants, mark = self.collections.tenants, {"going": uuid.uuid4().hex}
        while True:
            found = await tenants.find_one({"_id": name})
            if found is None:
                with suppress(DuplicateKeyError):
                    await tenants.insert_one(tenant_document(_NOBODY._replace(name=name)) | mark | {"leftovers": True})
                    return {"_id": name, **mark}
            elif (only_leftovers and not found.get("leftovers")) or (only_deleting and not found["deleting"]):
                return None
            elif found.get("going"):
                return {"_id": name, "going": found["going"]}
            else:
                same = {"_id": name, "going": None, "deleting": found["deleting"]}
                change = {"$set": {"suspended": True, "deleting": True, **mark}}
                if (await tenants.update_one(same, change)).matched_count:
                    return {"_id": name, **mark}

    def _belongings(self, name: str) -> list[tuple[Collection, Document]]:
        """All that a tenant has beside its keys and its record, in the order in which it goes."""
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
            (everything.alerts, by_name),
            (everything.webhooks, by_name),
            (everything.contents, by_name),
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
