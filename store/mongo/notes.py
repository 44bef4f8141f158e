"""Notes on MongoDB. They stand among the values written once, under a name that no tenant can have."""

from store.checks import check_note
from store.mongo.core import Core, once, repeatable
from store.mongo.driver import upserted


class Notes(Core):
    @once
    async def put_note(self, key: str, value: bytes, *, expires_ms: int) -> None:
        check_note(key, value)
        change = {"$set": {"value": value, "expires": expires_ms}}
        await upserted(lambda: self.collections.once.update_one({"_id": f"|{key}"}, change, upsert=True))

    @repeatable
    async def get_note(self, key: str, *, now_ms: int) -> bytes | None:
        check_note(key)
        found = await self.collections.once.find_one({"_id": f"|{key}", "expires": {"$gt": now_ms}})
        return None if found is None else bytes(found["value"])

    @once
    async def drop_note(self, key: str) -> bool:
        check_note(key)
        done = await self.collections.once.delete_one({"_id": f"|{key}"})
        return done.deleted_count == 1
