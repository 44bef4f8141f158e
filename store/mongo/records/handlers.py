"""Handlers by jobtype and version.

`shelf` has one document per jobtype: the last version given and the version in force. A version is
numbered there first, then written, then put in force, unless a later one is already: so a reader finds a
whole version or the one before it. One that may replace only what was looked at goes if that has changed.
"""

from typing import Final

from store import handler_rules
from store.errors import Conflict, NotFound
from store.mongo.server import schema
from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import Document, find_and_update, upserted
from store.values.records import Handler, HandlerSummary, NewHandler

_TRIES: Final = 5


class MongoHandlers(Core):
    @once
    async def set_handler(
        self, tenant: str, new: NewHandler, *, after: int | None = None, exactly: bool = False
    ) -> Handler:
        handler = await self._put_in_force(new, after, exactly=exactly)
        await self._drop_old(new.jobtype)
        return handler

    @repeatable
    async def get_handler(self, tenant: str, jobtype: str, version: int | None = None) -> Handler | None:
        return await self._handler(jobtype, version)

    @once
    async def delete_handler(self, tenant: str, jobtype: str) -> bool:
        done = await self.collections.shelf.update_one(
            {"_id": jobtype, "current": {"$gt": 0}}, {"$set": {"current": 0}}
        )
        return done.modified_count == 1

    @once
    async def roll_back_handler(
        self, tenant: str, jobtype: str, version: int, *, now_ms: int, author: str = ""
    ) -> Handler:
        old = await self._handler(jobtype, version)
        if old is None:
            raise NotFound(f"{jobtype} has no version {version} of its handler (any more)")
        handler = await self._put_in_force(
            NewHandler(jobtype, old.lang, old.data, now_ms, author, old.tree, restored_from=version)
        )
        await self._drop_old(jobtype)
        return handler

    @repeatable
    async def list_handlers(self, tenant: str) -> list[HandlerSummary]:
        which = {"_id": schema.types_of(tenant), "current": {"$gt": 0}}
        shelf = await self.collections.shelf.find(which).sort("_id", 1).to_list(None)
        keys = [_key(row["_id"], row["current"]) for row in shelf]
        rows = await self.collections.versions.find({"_id": {"$in": keys}}, {"data": 0}).sort("type", 1).to_list(None)
        return [_summary(row, row["version"]) for row in rows]

    @repeatable
    async def list_handled_types(self, tenant: str) -> list[str]:
        which = {"_id": schema.types_of(tenant), "current": {"$gt": 0}}
        return [row["_id"] for row in await self.collections.shelf.find(which, {"_id": 1}).sort("_id", 1).to_list(None)]

    @repeatable
    async def list_handler_versions(self, tenant: str, jobtype: str) -> list[HandlerSummary]:
        current = (await self.collections.shelf.find_one({"_id": jobtype}) or {}).get("current", 0)
        found = self.collections.versions.find({"type": jobtype}, {"data": 0}).sort("version", -1)
        return [_summary(row, current) for row in await found.to_list(None)]

    async def _handler(self, jobtype: str, version: int | None) -> Handler | None:
        if version is None:
            version = (await self.collections.shelf.find_one({"_id": jobtype}) or {}).get("current", 0)
        found = await self.collections.versions.find_one({"_id": _key(jobtype, version or 0)})
        return None if found is None else handler_from(found)

    async def _put_in_force(self, new: NewHandler, after: int | None = None, *, exactly: bool = False) -> Handler:
        for _ in range(_TRIES):
            current = await self._handler(new.jobtype, None)
            if current is not None and (current.lang, current.data) == (new.lang, new.data):
                return current
            if after is not None:
                handler_rules.check_still_wanted(current, after, new.created_ms, exactly=exactly)
            made = await self._add_version(new)
            version = 0 if current is None else current.version
            replaced = {"$lt": made.version} if after is None else version
            done = await self.collections.shelf.update_one(
                {"_id": new.jobtype, "current": replaced}, {"$set": {"current": made.version}}
            )
            if after is None or done.modified_count:
                return made
            await self.collections.versions.delete_one({"_id": _key(made.jobtype, made.version)})
        raise Conflict(f"the handler of {new.jobtype} is being changed by somebody else: try again")

    async def _add_version(self, new: NewHandler) -> Handler:
        """The handler with its number."""
        shelf = self.collections.shelf
        made = {"$setOnInsert": {"last": 0, "current": 0}}
        await upserted(lambda: shelf.update_one({"_id": new.jobtype}, made, upsert=True))
        numbered = await find_and_update(shelf, {"_id": new.jobtype}, {"$inc": {"last": 1}})
        if numbered is None:
            raise Conflict(f"the tenant of {new.jobtype} is being deleted")
        handler = new.numbered(numbered["last"])
        await self.collections.versions.insert_one(handler_document(handler))
        return handler

    async def _drop_old(self, jobtype: str) -> None:
        current = (await self.collections.shelf.find_one({"_id": jobtype}) or {}).get("current", 0)
        page = self.collections.versions.find({"type": jobtype, "version": {"$ne": current}}, {"_id": 1})
        # the one in force is among the newest but for a moment; it is never dropped
        rows = await page.sort("version", -1).skip(handler_rules.VERSIONS_KEPT - 1).to_list(None)
        if rows:
            await self.collections.versions.delete_many({"_id": {"$in": [row["_id"] for row in rows]}})


def _key(jobtype: str, version: int) -> str:
    return f"{jobtype}|{version}"


def handler_document(handler: Handler) -> Document:
    document: Document = {
        "_id": _key(handler.jobtype, handler.version),
        "type": handler.jobtype,
        "version": handler.version,
        "created": handler.created_ms,
        "lang": handler.lang,
        "data": handler.data,
        "size": len(handler.data),
        "author": handler.author,
        "restored_from": handler.restored_from,
    }
    return document | {"tree": handler.tree} if handler.tree else document


def handler_from(row: Document) -> Handler:
    return Handler(
        row["type"],
        row["version"],
        row["created"],
        row["lang"],
        bytes(row["data"]),
        row["author"],
        row["restored_from"],
        row.get("tree", ""),
    )


def _summary(row: Document, current: int) -> HandlerSummary:
    return HandlerSummary(
        row["type"],
        row["version"],
        row["created"],
        row["lang"],
        row["author"],
        row["restored_from"],
        row["size"],
        current=row["version"] == current,
    )
