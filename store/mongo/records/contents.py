"""Pieces of files by tenant and digest: one document each, well below the size that a document may have."""

from collections.abc import Sequence

from store.mongo.server import schema
from store.mongo.server.bulk import update_one, write_each
from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import Document, upserted
from store.values.records import Content, ContentSummary


class MongoContents(Core):
    @repeatable
    async def put_contents(self, tenant: str, contents: Sequence[Content]) -> None:
        steps = [
            update_one(
                {"_id": _key(tenant, content.digest)},
                {
                    "$setOnInsert": {"size": len(content.data), "data": content.data},
                    "$max": {"touched": content.touched_ms},
                },
                upsert=True,
            )
            for content in contents
        ]
        await upserted(lambda: write_each(self.collections.contents, steps))

    @repeatable
    async def touch_contents(self, tenant: str, digests: Sequence[str], *, now_ms: int) -> list[str]:
        which = {"_id": {"$in": [_key(tenant, digest) for digest in digests]}}
        await self.collections.contents.update_many(which, {"$max": {"touched": now_ms}})
        rows = await self.collections.contents.find(which, {"_id": 1}).sort("_id", 1).to_list(None)
        return [_digest(row) for row in rows]

    @repeatable
    async def get_contents(self, tenant: str, digests: Sequence[str]) -> list[Content]:
        which = {"_id": {"$in": [_key(tenant, digest) for digest in digests]}}
        rows = await self.collections.contents.find(which).sort("_id", 1).to_list(None)
        return [content_from(row) for row in rows]

    @repeatable
    async def list_contents(self, tenant: str, *, after: str = "", limit: int = 1000) -> list[ContentSummary]:
        which = {"_id": {"$gt": _key(tenant, after), "$lt": f"{tenant}}}"}}
        found = self.collections.contents.find(which, {"data": 0}).sort("_id", 1).limit(limit)
        return [ContentSummary(_digest(row), row["size"], row["touched"]) for row in await found.to_list(limit)]

    @repeatable
    async def list_content_tenants(self) -> list[str]:
        """One seek for each tenant: there are many pieces of each."""
        tenants: list[str] = []
        while True:
            after = {"_id": {"$gt": f"{tenants[-1]}}}"}} if tenants else {}
            row = await self.collections.contents.find_one(after, {"_id": 1}, sort=[("_id", 1)])
            if row is None:
                return sorted(tenants)
            tenants.append(row["_id"].partition("|")[0])

    @once
    async def remove_contents(self, tenant: str, digests: Sequence[str], *, before_ms: int) -> int:
        keys = [_key(tenant, digest) for digest in digests]
        which = {"_id": {"$in": keys}, "touched": {"$lt": before_ms}}
        return int((await self.collections.contents.delete_many(which)).deleted_count)

    @repeatable
    async def list_trees(self, tenant: str) -> list[str]:
        which = {"type": schema.types_of(tenant), "tree": {"$gt": ""}}
        rows = await self.collections.versions.find(which, {"tree": 1}).to_list(None)
        return sorted({row["tree"] for row in rows})


def _key(tenant: str, digest: str) -> str:
    return f"{tenant}|{digest}"


def _digest(row: Document) -> str:
    digest: str = row["_id"].partition("|")[2]
    return digest


def content_document(content: Content) -> Document:
    return {
        "_id": _key(content.tenant, content.digest),
        "touched": content.touched_ms,
        "size": len(content.data),
        "data": content.data,
    }


def content_from(row: Document) -> Content:
    return Content(row["_id"].partition("|")[0], _digest(row), row["touched"], bytes(row["data"]))
