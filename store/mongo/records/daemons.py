"""Daemons and their sysids, numbered by a series that only grows."""

from store.errors import NotFound
from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import Document
from store.mongo.server.schema import IMPORT_NOTE, Collections, next_number
from store.names import FORGOTTEN_AFTER_MS, NEWEST_DAEMONS, sysid_of
from store.transfers import refuse_daemon
from store.values.records import Daemon


class MongoDaemons(Core):
    @once
    async def reserve_sysid(self, *, info: str, lease_ms: int, now_ms: int) -> Daemon:
        note = await self.collections.meta.find_one({"_id": IMPORT_NOTE})
        if note is not None:
            refuse_daemon(note["source"])
        number = await next_number(self.collections, "sysids")
        document = {
            "_id": sysid_of(number),
            "number": number,
            "reserved": now_ms,
            "until": now_ms + lease_ms,
            "info": info,
            "paused": False,
        }
        await self.collections.daemons.delete_many(await forgotten(self.collections, now_ms))
        await self.collections.daemons.insert_one(document)
        return _daemon(document)

    @repeatable
    async def renew_sysid(self, sysid: str, *, info: str, lease_ms: int, now_ms: int) -> Daemon:
        found = await self.collections.daemons.find_one_and_update(
            {"_id": sysid},
            {"$set": {"until": now_ms + lease_ms, "info": info}},
            return_document=True,
        )
        if found is None:
            raise NotFound(f"sysid {sysid} was released: stop using it and reserve another")
        return _daemon(found)

    @repeatable
    async def release_sysid(self, sysid: str) -> None:
        await self.collections.daemons.delete_one({"_id": sysid})

    @once
    async def forget_daemons(self, *, skip: int) -> int:
        await self.collections.meta.update_one({"_id": "sysids"}, {"$inc": {"n": skip}})
        return (await self.collections.daemons.delete_many({})).deleted_count

    @repeatable
    async def list_daemons(self, *, now_ms: int) -> list[Daemon]:
        found = self.collections.daemons.find({"until": {"$gt": now_ms}}).sort("number", 1)
        return [_daemon(row) for row in await found.to_list(None)]

    @repeatable
    async def set_daemon_paused(self, sysid: str, *, paused: bool) -> None:
        done = await self.collections.daemons.update_one({"_id": sysid}, {"$set": {"paused": paused}})
        if done.matched_count == 0:
            raise NotFound(f"no daemon has the sysid {sysid}")


async def forgotten(collections: Collections, now_ms: int) -> Document:
    """Which records say nothing any more."""
    last = await collections.meta.find_one({"_id": "sysids"}) or {"n": 0}
    return {"until": {"$lt": now_ms - FORGOTTEN_AFTER_MS}, "number": {"$lte": last["n"] - NEWEST_DAEMONS}}


def _daemon(row: Document) -> Daemon:
    return Daemon(row["_id"], row["reserved"], row["until"], row["info"], paused=row["paused"])
