"""Values that are written once, and the jobs of a request that are added with one."""

from collections.abc import Sequence
from contextlib import suppress

from pymongo.errors import DuplicateKeyError, PyMongoError

from store.mongo.queue.add import add_batch
from store.mongo.server.core import Core, once, repeatable
from store.values.again import Binding
from store.values.jobs import NewJob


class MongoOnce(Core):
    @repeatable
    async def get_once(self, tenant: str, key: str, *, now_ms: int) -> bytes | None:
        standing = await self.collections.once.find_one({"_id": f"{tenant}|{key}", "expires": {"$gt": now_ms}})
        return None if standing is None else bytes(standing["value"])

    @once
    async def put_once(self, tenant: str, key: str, value: bytes, *, expires_ms: int, now_ms: int) -> bytes:
        return await put_once(self, tenant, key, value, expires_ms, now_ms)

    @once
    async def add_jobs_once(self, binding: Binding, jobs: Sequence[NewJob], *, now_ms: int) -> bytes:
        tenant, end_ms = binding.tenant, binding.expires_ms
        if binding.more is not None:
            await put_once(self, tenant, *binding.more, end_ms, now_ms)
        standing = await put_once(self, tenant, binding.key, binding.value, end_ms, now_ms)
        if standing == binding.value:
            await add_batch(self, jobs, now_ms)
            with suppress(PyMongoError):  # it only spares a repeat the search for its jobs
                await put_once(self, tenant, binding.done, b"", binding.done_until_ms, now_ms)
        return standing

    @once
    async def delete_once(self, tenant: str, key: str, value: bytes) -> None:
        await self.collections.once.delete_one({"_id": f"{tenant}|{key}", "value": value})


async def put_once(db: Core, tenant: str, key: str, value: bytes, expires_ms: int, now_ms: int) -> bytes:
    rows, name = db.collections.once, f"{tenant}|{key}"
    while True:
        standing = await rows.find_one({"_id": name})
        if standing is None:
            try:
                await rows.insert_one({"_id": name, "value": value, "expires": expires_ms})
            except DuplicateKeyError:
                continue
            return value
        if standing["expires"] > now_ms:
            return bytes(standing["value"])
        same = {"_id": name, "expires": standing["expires"], "value": standing["value"]}
        lapsed = await rows.update_one(same, {"$set": {"value": value, "expires": expires_ms}})
        if lapsed.matched_count:
            return value
