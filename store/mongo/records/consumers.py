"""Consumers: their records, their leaders, and moves of their windows.

The record of a consumer is written before its type is marked as one with a consumer (`released`), and goes after the
mark. A crash in between leaves a consumer whose window whoever works with it next opens, where it was to start.

A window has a name, in the document of the type and in the record. It goes when the consumer ends, and a window is
opened and closed only under its name: who is late opens none of a consumer that has ended, and closes none of the next.
"""

import uuid
from collections.abc import Sequence
from contextlib import suppress

from pymongo.errors import DuplicateKeyError

from store.errors import Conflict, NotFound
from store.mongo.queue.append import append
from store.mongo.queue.window import Numbered, advanced, ends, hold, let_go, let_in, numbered
from store.mongo.server.bulk import update_found
from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import Document, find_and_update
from store.names import AHEAD_MS
from store.refusals import check_append, check_start
from store.values.consumers import (
    MAX_WINDOW,
    ConsumerRecord,
    EndReport,
    HoldReport,
    WindowMove,
    WindowReport,
)
from store.values.jobs import NewJob


class MongoConsumers(Core):
    @once
    async def set_consumer(self, consumer: ConsumerRecord, *, start_index: int | None = None) -> bool:
        key = _key(consumer.tenant, consumer.name)
        there = await self.collections.consumers.find_one({"_id": key})
        if there is None:
            check_start(consumer, start_index, (await numbered(self, consumer.jobtype)).head)
            start = None if start_index is None else start_index - 1
            window = await _name_window(self, consumer.jobtype)
            made = consumer_document(consumer) | {"window": window, "start": start}
            try:
                await self.collections.consumers.insert_one(made)
            except DuplicateKeyError:
                other = await self.collections.consumers.find_one({"type": consumer.jobtype})
                name = "" if other is None else f": {other['name']}"
                raise Conflict(f"{consumer.jobtype} has a consumer already{name}") from None
            try:
                await _open_window(self, made)
            except Conflict:
                await self.collections.consumers.delete_one({"_id": key, "window": window, "ending": False})
                raise
            return True
        if there["ending"]:
            raise Conflict(f"consumer {consumer.name} is being deleted: repeat the call when that is done")
        if there["type"] != consumer.jobtype:
            raise Conflict(f"consumer {consumer.name} works on {there['type']}: delete it first, or choose a new name")
        if there["pulled"] != consumer.is_pulled:
            raise Conflict(f"consumer {consumer.name} cannot change whether its jobs are pulled: delete it first")
        await self.collections.consumers.update_one({"_id": key}, {"$set": {"settings": consumer.settings}})
        await _window_of(self, there)
        return False

    @repeatable
    async def get_consumer(self, tenant: str, name: str) -> ConsumerRecord | None:
        found = await self.collections.consumers.find_one({"_id": _key(tenant, name)})
        return None if found is None else consumer_from(found)

    @repeatable
    async def list_consumers(self, tenant: str | None = None) -> list[ConsumerRecord]:
        which: Document = {} if tenant is None else {"tenant": tenant}
        found = self.collections.consumers.find(which).sort([("tenant", 1), ("name", 1)])
        return [consumer_from(row) for row in await found.to_list(None)]

    @once
    async def set_consumer_running(self, tenant: str, name: str, *, running: bool) -> None:
        change: Document = {"$set": {"running": running}}
        if not running:
            change = {"$set": {"running": False, "leader": "", "until": 0}, "$inc": {"token": 1}}
        done = await self.collections.consumers.update_one({"_id": _key(tenant, name)}, change)
        if done.matched_count == 0:
            raise NotFound(f"tenant {tenant} has no consumer {name}")

    @once
    async def end_consumer(
        self, tenant: str, name: str, *, now_ms: int, limit: int = 1000, only_ending: bool = False
    ) -> EndReport:
        change = {"$set": {"ending": True, "running": False, "leader": "", "until": 0}, "$inc": {"token": 1}}
        which = {"_id": _key(tenant, name)} | ({"ending": True} if only_ending else {})
        found = await find_and_update(self.collections.consumers, which, change)
        if found is None:
            raise NotFound(f"tenant {tenant} has no consumer {name}")
        closed = {"$unset": {"released": "", "pulled": "", "window": ""}}
        await self.collections.types.update_one(_type_of(found), closed)
        freed = await let_go(self, found["type"], limit, now_ms)
        if freed < limit:
            # Not the next one of the name, if somebody else was faster.
            same = {"_id": found["_id"], "ending": True, "window": found.get("window")}
            await self.collections.consumers.delete_one(same)
        return EndReport(freed, more=freed >= limit)

    @once
    async def lead_consumers(self, owner: str, *, lease_ms: int, now_ms: int, limit: int = 100) -> list[ConsumerRecord]:
        consumers, lease = self.collections.consumers, {"$set": {"leader": owner, "until": now_ms + lease_ms}}
        await update_found(consumers, {"running": True, "leader": owner}, lease)
        lapsed = [{"until": {"$lte": now_ms}}, {"until": {"$gt": now_ms + lease_ms + AHEAD_MS}}]
        free = {"running": True, "leader": {"$ne": owner}, "$or": lapsed}
        for row in (
            await consumers.find(free, {"token": 1}).sort("until", 1).limit(limit).to_list(None) if limit else ()
        ):
            same = {"_id": row["_id"], "token": row["token"], **free}
            await consumers.update_one(same, {**lease, "$inc": {"token": 1}})
        led = consumers.find({"running": True, "leader": owner}).sort([("tenant", 1), ("name", 1)])
        return [consumer_from(row) for row in await led.to_list(None)]

    @once
    async def resign_consumers(self, owner: str) -> None:
        await update_found(self.collections.consumers, {"leader": owner}, {"$set": {"until": 0}})

    @once
    async def move_window(self, move: WindowMove, *, now_ms: int) -> WindowReport:
        consumer = await _find_led(self, move.tenant, move.name, move.token)
        jobtype: str = consumer["type"]
        head, processed, before = await _window_of(self, consumer)
        released = max(before or 0, min(move.released, head))
        until = min(move.processed, released, processed + MAX_WINDOW)
        if until > processed:
            processed, _ = await advanced(self, jobtype, processed, until, skip_failed=move.skip_failed)
        if processed < move.processed:  # who asks is wrong about an index, so it may not start others either
            released = max(before or 0, processed)
        raised = {"$max": {"processed": processed, "released": released}}
        still_open = _type_of(consumer) | {"released": {"$gte": 0}}
        if not (await self.collections.types.update_one(still_open, raised)).matched_count:
            raise _was_deleted(consumer)
        await let_in(self, jobtype, move.after, released, now_ms)
        same = {"_id": _key(move.tenant, move.name), "token": move.token}
        await self.collections.consumers.update_one(same, {"$set": {"note": move.note}})
        seen = await ends(self, jobtype, move.after, min(move.released, released))
        return WindowReport(head, processed, released, seen)

    @once
    async def append_job(self, tenant: str, name: str, token: int, seq: int, job: NewJob, *, now_ms: int) -> bool:
        consumer = await _find_led(self, tenant, name, token)
        state = await _window_of(self, consumer)
        check_append(consumer_from(consumer), job, seq, max(state.head, state.processed))
        return await append(self, job, seq, state.released or 0, now_ms)

    @repeatable
    async def look_at_window(self, tenant: str, jobtype: str, *, after: int, until: int) -> WindowReport:
        head, processed, released = await numbered(self, jobtype)
        return WindowReport(head, processed, released or 0, await ends(self, jobtype, after, min(until, head)))

    @repeatable
    async def get_last_numbers(self, jobtypes: Sequence[str]) -> list[int]:
        found = self.collections.types.find({"_id": {"$in": list(jobtypes)}}, {"head": 1})
        heads = {document["_id"]: document.get("head", 0) async for document in found}
        return [heads.get(jobtype, 0) for jobtype in jobtypes]

    @once
    async def hold_jobs(
        self, tenant: str, name: str, token: int, *, after: int, now_ms: int, limit: int = 1000
    ) -> HoldReport:
        consumer = await _find_led(self, tenant, name, token)
        head, _, released = await _window_of(self, consumer)
        first = max(after, released or 0)
        until = min(first + limit, head)
        return HoldReport(await hold(self, consumer["type"], first, until, now_ms), until if until < head else None)


async def _find_led(db: Core, tenant: str, name: str, token: int) -> Document:
    found = await db.collections.consumers.find_one({"_id": _key(tenant, name), "token": token})
    if found is None or not found["leader"]:
        raise Conflict(f"consumer {name} has another leader by now, or was stopped")
    return found


async def _window_of(db: Core, consumer: Document) -> Numbered:
    """The numbers of its type. The window is opened if its creation was interrupted before that. Raises Conflict."""
    state = await numbered(db, consumer["type"])
    if state.released is None:
        await _open_window(db, consumer)
        state = await numbered(db, consumer["type"])
    return state


async def _open_window(db: Core, consumer: Document) -> None:
    """From now on jobs of the type are numbered and held. Raises Conflict if the consumer has ended."""
    if "window" not in consumer:
        consumer = consumer | {"window": await _give_window(db, consumer)}
    start = consumer.get("start")  # None: where progress stands
    if start is None:
        start = (await numbered(db, consumer["type"])).processed
    change = {"$set": {"processed": start, "released": start, "pulled": consumer["pulled"]}}
    types, mine = db.collections.types, _type_of(consumer)
    opened = await types.update_one(mine | {"released": None}, change)
    if not opened.matched_count and await types.find_one(mine, {"_id": 1}) is None:  # or somebody else has opened it
        raise _was_deleted(consumer)


def _type_of(consumer: Document) -> Document:
    """Its type, on condition that the window is the consumer's. Some were made before windows had names."""
    which: Document = {"_id": consumer["type"]}
    return which | ({"window": consumer["window"]} if "window" in consumer else {})


async def _name_window(db: Core, jobtype: str) -> str:
    """The name of the window that the next consumer of the type opens, or that its consumer has."""
    types = db.collections.types
    while True:
        found = await types.find_one({"_id": jobtype}, {"window": 1}) or {}
        if "window" in found:
            name: str = found["window"]
            return name
        change = {"$set": {"window": uuid.uuid4().hex}}
        with suppress(DuplicateKeyError):  # somebody else has named it
            await types.update_one({"_id": jobtype, "window": None}, change, upsert=True)


async def _give_window(db: Core, consumer: Document) -> str:
    """Of a consumer that was imported, or made by a version that did not name windows."""
    window = await _name_window(db, consumer["type"])
    same = {"_id": consumer["_id"], "ending": False}
    if not (await db.collections.consumers.update_one(same, {"$set": {"window": window}})).matched_count:
        raise _was_deleted(consumer)
    return window


def _was_deleted(consumer: Document) -> Conflict:
    return Conflict(f"consumer {consumer['name']}, or the one before it, was deleted meanwhile")


def _key(tenant: str, name: str) -> str:
    return f"{tenant}|{name}"


def consumer_document(consumer: ConsumerRecord) -> Document:
    tenant, name, jobtype, settings, created_ms, is_running, is_ending, note, leader, token, until_ms, pulled = consumer
    return {
        "_id": _key(tenant, name),
        "tenant": tenant,
        "name": name,
        "type": jobtype,
        "settings": settings,
        "created": created_ms,
        "running": is_running,
        "ending": is_ending,
        "note": note,
        "leader": leader,
        "token": token,
        "until": until_ms,
        "pulled": pulled,
    }


def consumer_from(row: Document) -> ConsumerRecord:
    return ConsumerRecord(
        row["tenant"],
        row["name"],
        row["type"],
        row["settings"],
        row["created"],
        row["running"],
        row["ending"],
        row["note"],
        row["leader"],
        row["token"],
        row["until"],
        row["pulled"],
    )
