"""Notes on MongoDB. They stand among the values written once, under a name that no tenant can have."""

from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import upserted


class MongoNotes(Core):
    @once
    async def put_note(self, key: str, value: bytes, *, expires_ms: int) -> None:
        change = {"$set": {"value": value, "expires": expires_ms}}
        await upserted(lambda: self.collections.once.update_one({"_id": f"|{key}"}, change, upsert=True))

    @repeatable
    async def get_note(self, key: str, *, now_ms: int) -> bytes | None:
        found = await self.collections.once.find_one({"_id": f"|{key}", "expires": {"$gt": now_ms}})
        return None if found is None else bytes(found["value"])

    @once
    async def drop_note(self, key: str) -> bool:
        done = await self.collections.once.delete_one({"_id": f"|{key}"})
        return done.deleted_count == 1
