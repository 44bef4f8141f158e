"""Sealed values by tenant and name: one document each, whose version is the condition of every change."""

from pymongo.errors import DuplicateKeyError

from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import Document
from store.values.records import Secret


class MongoSecrets(Core):
    @once
    async def put_secret(self, secret: Secret) -> bool:
        document = secret_document(secret)
        if secret.version == 1:
            try:
                await self.collections.secrets.insert_one(document)
            except DuplicateKeyError:
                return False
            return True
        before = {"_id": document["_id"], "version": secret.version - 1}
        return (await self.collections.secrets.replace_one(before, document)).matched_count == 1

    @repeatable
    async def reseal_secret(self, secret: Secret) -> bool:
        fields = secret_document(secret)
        same = {name: fields[name] for name in ("_id", "version", "created", "author")} | {"data": {"$ne": b""}}
        change = {"$set": {"key": secret.key_id, "data": secret.data}}
        return (await self.collections.secrets.update_one(same, change)).matched_count == 1

    @repeatable
    async def list_secrets(self, tenant: str) -> list[Secret]:
        found = self.collections.secrets.find({"_id": {"$gte": f"{tenant}|", "$lt": f"{tenant}}}"}}).sort("_id", 1)
        return [secret_from(row) for row in await found.to_list(None)]

    @repeatable
    async def list_secret_tenants(self) -> list[str]:
        found = await self.collections.secrets.find({}, {"_id": 1}).to_list(None)
        return sorted({row["_id"].partition("|")[0] for row in found})

    @repeatable
    async def list_secret_keys(self) -> list[str]:
        return sorted(await self.collections.secrets.distinct("key", {"data": {"$ne": b""}}))

    @once
    async def delete_secret(self, tenant: str, name: str, *, now_ms: int) -> bool:
        there = {"_id": _key(tenant, name), "data": {"$ne": b""}}
        gone: Document = {"created": now_ms, "author": "", "key": "", "data": b""}
        done = await self.collections.secrets.update_one(there, {"$set": gone, "$inc": {"version": 1}})
        return done.modified_count == 1


def _key(tenant: str, name: str) -> str:
    return f"{tenant}|{name}"


def secret_document(secret: Secret) -> Document:
    return {
        "_id": _key(secret.tenant, secret.name),
        "version": secret.version,
        "created": secret.created_ms,
        "author": secret.author,
        "key": secret.key_id,
        "data": secret.data,
    }


def secret_from(row: Document) -> Secret:
    tenant, _, name = row["_id"].partition("|")
    return Secret(tenant, name, row["version"], row["created"], row["author"], row["key"], bytes(row["data"]))
