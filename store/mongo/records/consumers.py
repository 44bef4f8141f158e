"""Consumers: their records, their leaders, and moves of their windows.

The record of a consumer is written before its type is marked as one with a consumer, and goes after the mark: a crash
in between leaves a consumer whose window the next move, or the next step of its end, puts right.
"""

from collections.abc import Sequence

from pymongo.errors import DuplicateKeyError

from store.errors import Conflict, NotFound
from store.mongo.queue.append import append
from store.mongo.queue.window import advanced, ends, hold, let_go, let_in, numbered
from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import Document, find_and_update, upserted
from store.refusals import check_append
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
            try:
                await self.collections.consumers.insert_one(consumer_document(consumer))
            except DuplicateKeyError:
                other = await self.collections.consumers.find_one({"type": consumer.jobtype})
                name = "" if other is None else f": {other['name']}"
                raise Conflict(f"{consumer.jobtype} has a consumer already{name}") from None
            start = None if start_index is None else start_index - 1
            await _open_window(self, consumer.jobtype, start, is_pulled=consumer.is_pulled)
            return True
        if there["ending"]:
            raise Conflict(f"consumer {consumer.name} is being deleted: repeat the call when that is done")
        if there["type"] != consumer.jobtype:
            raise Conflict(f"consumer {consumer.name} works on {there['type']}: delete it first, or choose a new name")
        if there["pulled"] != consumer.is_pulled:
            raise Conflict(f"consumer {consumer.name} cannot change whether its jobs are pulled: delete it first")
        await self.collections.consumers.update_one({"_id": key}, {"$set": {"settings": consumer.settings}})
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
    async def end_consumer(self, tenant: str, name: str, *, now_ms: int, limit: int = 1000) -> EndReport:
        change = {"$set": {"ending": True, "running": False, "leader": "", "until": 0}, "$inc": {"token": 1}}
        found = await find_and_update(self.collections.consumers, {"_id": _key(tenant, name)}, change)
        if found is None:
            raise NotFound(f"tenant {tenant} has no consumer {name}")
        await self.collections.types.update_one({"_id": found["type"]}, {"$unset": {"released": "", "pulled": ""}})
        freed = await let_go(self, found["type"], limit, now_ms)
        if freed < limit:
            await self.collections.consumers.delete_one({"_id": found["_id"]})
        return EndReport(freed, more=freed >= limit)

    @once
    async def lead_consumers(self, owner: str, *, lease_ms: int, now_ms: int, limit: int = 100) -> list[ConsumerRecord]:
        consumers, lease = self.collections.consumers, {"$set": {"leader": owner, "until": now_ms + lease_ms}}
        await consumers.update_many({"running": True, "leader": owner}, lease)
        free = {"running": True, "leader": {"$ne": owner}, "until": {"$lte": now_ms}}
        for row in (
            await consumers.find(free, {"token": 1}).sort("until", 1).limit(limit).to_list(None) if limit else ()
        ):
            same = {"_id": row["_id"], "token": row["token"], **free}
            await consumers.update_one(same, {**lease, "$inc": {"token": 1}})
        led = consumers.find({"running": True, "leader": owner}).sort([("tenant", 1), ("name", 1)])
        return [consumer_from(row) for row in await led.to_list(None)]

    @once
    async def resign_consumers(self, owner: str) -> None:
        await self.collections.consumers.update_many({"leader": owner}, {"$set": {"until": 0}})

    @once
    async def move_window(self, move: WindowMove, *, now_ms: int) -> WindowReport:
        jobtype = await _jobtype_led(self, move.tenant, move.name, move.token)
        head, processed, before = await numbered(self, jobtype)
        if before is None:
            record = await self.get_consumer(move.tenant, move.name)
            await _open_window(self, jobtype, None, is_pulled=record is not None and record.is_pulled)
        released = max(before or 0, min(move.released, head))
        until = min(move.processed, released, processed + MAX_WINDOW)
        if until > processed:
            processed, _ = await advanced(self, jobtype, processed, until, skip_failed=move.skip_failed)
        if processed < move.processed:  # who asks is wrong about an index, so it may not start others either
            released = max(before or 0, processed)
        # On condition that the type still has a consumer.
        raised = {"$max": {"processed": processed, "released": released}}
        await self.collections.types.update_one({"_id": jobtype, "released": {"$gte": 0}}, raised)
        await let_in(self, jobtype, move.after, released, now_ms)
        same = {"_id": _key(move.tenant, move.name), "token": move.token}
        await self.collections.consumers.update_one(same, {"$set": {"note": move.note}})
        seen = await ends(self, jobtype, move.after, min(move.released, released))
        return WindowReport(head, processed, released, seen)

    @once
    async def append_job(self, tenant: str, name: str, token: int, seq: int, job: NewJob, *, now_ms: int) -> bool:
        jobtype = await _jobtype_led(self, tenant, name, token)
        consumer = await self.get_consumer(tenant, name)
        state = await numbered(self, jobtype)
        assert consumer is not None
        check_append(consumer, job, seq, max(state.head, state.processed))
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
        jobtype = await _jobtype_led(self, tenant, name, token)
        head, _, released = await numbered(self, jobtype)
        first = max(after, released or 0)
        until = min(first + limit, head)
        return HoldReport(await hold(self, jobtype, first, until, now_ms), until if until < head else None)


async def _open_window(db: Core, jobtype: str, start: int | None, *, is_pulled: bool) -> None:
    """From now on jobs of the type are numbered and held. start: where progress is put; None: where it stands."""
    if start is None:
        start = (await numbered(db, jobtype)).processed
    change = {"$set": {"processed": start, "released": start, "pulled": is_pulled}}
    await upserted(lambda: db.collections.types.update_one({"_id": jobtype}, change, upsert=True))


async def _jobtype_led(db: Core, tenant: str, name: str, token: int) -> str:
    found = await db.collections.consumers.find_one({"_id": _key(tenant, name), "token": token})
    if found is None or not found["leader"]:
        raise Conflict(f"consumer {name} has another leader by now, or was stopped")
    jobtype: str = found["type"]
    return jobtype


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
