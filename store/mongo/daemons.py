"""Daemons and their sysids, numbered by a series that only grows."""

from store.checks import MAX_TIME_MS, check_range, check_text, check_time
from store.errors import Conflict, NotFound
from store.mongo.core import Core, once, repeatable
from store.mongo.driver import Document
from store.mongo.schema import IMPORT_NOTE, next_number
from store.names import FORGOTTEN_AFTER_MS, MAX_SYSIDS_SKIPPED, check_owner
from store.values.records import Daemon

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Daemons(Core):
    @once
    async def reserve_sysid(self, *, info: str, lease_ms: int, now_ms: int) -> Daemon:
        _check_lease(info, lease_ms, now_ms)
        note = await self.collections.meta.find_one({"_id": IMPORT_NOTE})
        if note is not None:
            raise Conflict(
                f"the store is being filled from {note['source']}: let `functory migrate` finish before a daemon starts"
            )
        number = await next_number(self.collections, "sysids")
        document = {
            "_id": _base36(number),
            "number": number,
            "reserved": now_ms,
            "until": now_ms + lease_ms,
            "info": info,
            "paused": False,
        }
        await self.collections.daemons.delete_many({"until": {"$lt": now_ms - FORGOTTEN_AFTER_MS}})
        await self.collections.daemons.insert_one(document)
        return _daemon(document)

    @repeatable
    async def renew_sysid(self, sysid: str, *, info: str, lease_ms: int, now_ms: int) -> Daemon:
        check_owner(sysid)
        _check_lease(info, lease_ms, now_ms)
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
        await self.collections.daemons.delete_one({"_id": check_owner(sysid)})

    @once
    async def forget_daemons(self, *, skip: int) -> int:
        check_range("skip", skip, 0, MAX_SYSIDS_SKIPPED)
        await self.collections.meta.update_one({"_id": "sysids"}, {"$inc": {"n": skip}})
        return (await self.collections.daemons.delete_many({})).deleted_count

    @repeatable
    async def list_daemons(self, *, now_ms: int) -> list[Daemon]:
        found = self.collections.daemons.find({"until": {"$gt": now_ms}}).sort("number", 1)
        return [_daemon(row) for row in await found.to_list(None)]

    @repeatable
    async def set_daemon_paused(self, sysid: str, *, paused: bool) -> None:
        done = await self.collections.daemons.update_one({"_id": check_owner(sysid)}, {"$set": {"paused": paused}})
        if done.matched_count == 0:
            raise NotFound(f"no daemon has the sysid {sysid}")


def _check_lease(info: str, lease_ms: int, now_ms: int) -> None:
    check_text("info", info)
    check_range("lease_ms", lease_ms, 1, MAX_TIME_MS)
    check_time("now_ms", now_ms)


def _daemon(row: Document) -> Daemon:
    return Daemon(row["_id"], row["reserved"], row["until"], row["info"], paused=row["paused"])


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits
