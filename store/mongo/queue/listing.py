"""Reading jobs: one by one, and in pages that follow an index, whatever the number of jobs.

A page of a tenant is merged from one index range per type and state: here, as long as they are few. Of more, types are
asked for in groups, because MongoDB merges ranges in order up to a number, and the groups are merged here.
"""

import asyncio
import heapq
from collections.abc import Sequence
from typing import Final

from store.errors import InvalidValue, StoreCorrupt
from store.mongo.queue.documents import (
    HEAD_FROM_BYTES,
    WITH_HEADS,
    WITH_ROUNDS,
    WITHOUT_BYTES,
    job_state,
    kept_data,
    kept_result,
    record_from,
)
from store.mongo.server import schema
from store.mongo.server.blobs import Kept, kept_by
from store.mongo.server.core import Core, repeatable
from store.mongo.server.driver import Document, aggregate
from store.names import check_job_id
from store.values.jobs import JobFilter, JobPage, JobRecord, time_window
from store.values.repeating import RepeatingPlace, place_of
from store.values.schedules import LISTED_ROUNDS, latest
from vocabulary.names import tenant_of
from vocabulary.states import FINAL_CODES, Code, JobState

_RANGES: Final = 150
"""Index ranges in one query: MongoDB merges up to 200 in the order of the index, and sorts beyond that."""

_APART: Final = 8
"""Up to this many ranges are read each by itself: every server reads a single one in order and ends at the limit."""

_STATES: Final = {
    JobState.WAITING: (schema.QUEUED,),
    JobState.DEFERRED: (schema.QUEUED,),
    JobState.RUNNING: (schema.RUNNING,),
    JobState.LAPSED: (schema.RUNNING,),
    JobState.PAUSED: (schema.PAUSED, schema.HELD),
}

_REPEATS: Final = {"$or": [{"repeat": {"$gt": ""}}, {"s": schema.HELD}]}
"""Or did, and is paused."""


class MongoListing(Core):
    @repeatable
    async def get_job(self, tenant: str, job_id: str, *, now_ms: int, max_bytes: int | None = None) -> JobRecord | None:
        return await _whole(self, {"_id": job_id, "type": schema.types_of(tenant)}, now_ms, max_bytes)

    @repeatable
    async def read_result(self, tenant: str, job_id: str, *, done_ms: int, start: int, length: int) -> bytes | None:
        which = {"_id": job_id, "type": schema.types_of(tenant), "done": done_ms} | _visible()
        kept = await self._kept_result(which)
        try:
            return None if kept is None else await self.blobs.get(kept, start, length)
        except StoreCorrupt:
            if kept == await self._kept_result(which):
                raise
            return None  # it has ended again just now

    async def _kept_result(self, which: Document) -> Kept | None:
        found = await self.collections.jobs.find_one(which, {"out.result": 1, "out.blob": 1})
        return None if found is None else kept_result(found)

    @repeatable
    async def get_job_at(
        self, tenant: str, jobtype: str, seq: int, *, now_ms: int, max_bytes: int | None = None
    ) -> JobRecord | None:
        return await _whole(self, {"type": jobtype, "seq": seq}, now_ms, max_bytes)

    @repeatable
    async def get_states(self, tenant: str, job_ids: Sequence[str], *, now_ms: int) -> dict[str, JobState]:
        which = {"_id": {"$in": list(job_ids)}, "type": schema.types_of(tenant)} | _visible()
        rows = await self.collections.jobs.find(which, {"s": 1, "at": 1}).to_list(None)
        states = {row["_id"]: job_state(row, now_ms) for row in rows}
        return {job_id: states[job_id] for job_id in job_ids if job_id in states}

    @repeatable
    async def get_codes(self, tenant: str, job_ids: Sequence[str]) -> dict[str, Code]:
        which = {"_id": {"$in": list(job_ids)}, "type": schema.types_of(tenant), "s": {"$in": schema.ARCHIVED_STATES}}
        rows = await self.collections.jobs.find(which, {"s": 1}).to_list(None)
        codes = {row["_id"]: schema.CODE_OF[row["s"]] for row in rows}
        return {job_id: codes[job_id] for job_id in job_ids if job_id in codes}

    @repeatable
    async def list_jobs(
        self,
        tenant: str,
        where: JobFilter,
        *,
        now_ms: int,
        cursor: str | None = None,
        limit: int = 100,
        max_bytes: int = 0,
    ) -> JobPage:
        newest_first = where.state == JobState.ARCHIVED
        since_ms, until_ms = time_window(where, now_ms)
        window = {"$gte": since_ms, "$lt": until_ms}
        after: Document = {}
        if cursor is not None:
            time_ms, job_id = _decode(cursor, where.state)
            beyond = "$lt" if newest_first else "$gt"
            after = {"$or": [{"at": {beyond: time_ms}}, {"at": time_ms, "_id": {beyond: job_id}}]}
            # The index is entered where the page begins; a server need not see that in the alternatives.
            if newest_first:
                window["$lt"] = min(window["$lt"], time_ms + 1)
            else:
                window["$gte"] = max(window["$gte"], time_ms)
        states = _STATES.get(where.state) or _archived_states(where)
        types = await _types_of(self, tenant) if where.names is None else list(where.names)
        order = -1 if newest_first else 1
        named, hint = _named(where)
        shown = WITH_HEADS if max_bytes else WITHOUT_BYTES
        pages = [
            self.collections.jobs.find(part | named | {"at": window} | after, shown, hint=hint).sort(
                [("at", order), ("_id", order)]
            )
            for part in _parts(types, states)
        ]
        found = await asyncio.gather(*(page.limit(limit + 1).to_list(limit + 1) for page in pages))
        merged = list(heapq.merge(*found, key=_place, reverse=newest_first))
        rows = merged[:limit]
        more = f"{where.state}.{rows[-1]['at']}.{rows[-1]['_id']}" if len(merged) > limit else None
        records = await _records(self, rows, now_ms)
        return JobPage(await _with_data(self, rows, records, max_bytes) if max_bytes else records, more)

    @repeatable
    async def list_repeating(self, tenant: str, *, now_ms: int, cursor: str | None = None, limit: int = 100) -> JobPage:
        jobtype, job_id = place_of(cursor, tenant)
        later = schema.types_of(tenant) | {"$gt": jobtype}
        parts: list[Document] = [{"type": jobtype, "_id": {"$gt": job_id}}, {"type": later}]
        rows: list[Document] = []
        for part in parts if cursor is not None else parts[1:]:
            which = part | {"repeat": {"$exists": True}, "s": schema.LIVE_RANGE} | _REPEATS
            found = self.collections.jobs.find(which, WITH_ROUNDS, hint=schema.REPEATING)
            count = limit + 1 - len(rows)
            if count:
                rows += await found.sort([("type", 1), ("_id", 1)]).limit(count).to_list(count)
        more = RepeatingPlace(rows[limit - 1]["type"], rows[limit - 1]["_id"]).cursor if len(rows) > limit else None
        records = await _records(self, rows[:limit], now_ms)
        shown = [it._replace(schedule=latest(it.schedule, LISTED_ROUNDS)) for it in records]
        return JobPage(tuple(shown), more)

    @repeatable
    async def list_children(
        self,
        tenant: str,
        parent_id: str,
        *,
        now_ms: int,
        cursor: str | None = None,
        limit: int = 100,
        max_bytes: int = 0,
    ) -> JobPage:
        which: Document = {"parent": parent_id, "type": schema.types_of(tenant)} | _visible()
        which["pend"] = {"$in": [True, False]}  # all of them: two ranges of the index, merged in order of id
        which["_id"] = {"$gt": "" if cursor is None else cursor}
        page = self.collections.jobs.find(which, WITHOUT_BYTES).sort("_id", 1).limit(limit + 1)
        rows = await page.to_list(limit + 1)
        more = rows[limit - 1]["_id"] if len(rows) > limit else None
        records = await _records(self, rows[:limit], now_ms)
        if max_bytes:
            records = tuple([await self._with_result(record, max_bytes) for record in records])
        return JobPage(records, more)

    async def _with_result(self, record: JobRecord, max_bytes: int) -> JobRecord:
        """The record of a listing, with the beginning of its result."""
        if record.outcome is None or not record.result_bytes:
            return record
        tenant, done_ms = tenant_of(record.job.jobtype), record.done_ms
        result = await self.read_result(tenant, record.job.id, done_ms=done_ms, start=0, length=max_bytes)
        return record._replace(outcome=record.outcome._replace(result=result))

    @repeatable
    async def get_position(self, tenant: str, job_id: str, *, now_ms: int, cap: int = 10_000) -> int | None:
        job = await self.collections.jobs.find_one(
            {
                "_id": job_id,
                "type": schema.types_of(tenant),
                "s": schema.QUEUED,
                "at": {"$lte": now_ms},
            },
            {"type": 1, "prio": 1, "at": 1},
        )
        if job is None:
            return None
        queue: Document = {"type": job["type"], "s": schema.QUEUED}
        before: list[Document] = [
            {"prio": {"$gt": job["prio"]}, "at": {"$lte": now_ms}},
            {"prio": job["prio"], "at": {"$lt": job["at"]}},
            {"prio": job["prio"], "at": job["at"], "_id": {"$lt": job_id}},
        ]
        ahead = 0
        for part in before:
            if ahead < cap:
                ahead += await self.collections.jobs.count_documents(queue | part, limit=cap - ahead)
        return ahead


async def _whole(db: Core, which: Document, now_ms: int, max_bytes: int | None = None) -> JobRecord | None:
    """Again, if it was changed before all of it was read."""
    while True:
        found = await db.collections.jobs.find_one(which | _visible())
        if found is None:
            return None
        try:
            data = await db.blobs.get(kept_data(found), 0, max_bytes)
            kept = kept_result(found)
            result = None if kept is None else await db.blobs.get(kept, 0, max_bytes)
        except StoreCorrupt:
            again = await db.collections.jobs.find_one({"_id": found["_id"]}, {"blob": 1, "out.blob": 1})
            if again is not None and kept_by(again) == kept_by(found):
                raise
            continue
        children = await count_children(db, [found])
        return record_from(found, data, result, children.get(found["_id"], (0, 0)), now_ms)


async def _types_of(db: Core, tenant: str) -> list[str]:
    cursor = db.collections.counters.find({"k": "t", "type": schema.types_of(tenant)}, {"type": 1})
    return sorted([row["type"] for row in await cursor.to_list(None)])


async def _records(db: Core, rows: Sequence[Document], now_ms: int) -> tuple[JobRecord, ...]:
    children = await count_children(db, rows)
    return tuple(record_from(row, b"", None, children.get(row["_id"], (0, 0)), now_ms) for row in rows)


async def _with_data(
    db: Core, rows: Sequence[Document], records: tuple[JobRecord, ...], max_bytes: int
) -> tuple[JobRecord, ...]:
    """The records of a listing, with the beginnings of their payloads: the small ones are read together, and of a large
    one only what is kept apart. One that an older version wrote has nothing apart, and is read alone."""
    begins: dict[str, bytes] = {row["_id"]: row["head"] for row in rows if row.get("head")}
    small = [row["_id"] for row in rows if 0 < row["size"] <= HEAD_FROM_BYTES]
    if small:
        found = db.collections.jobs.find({"_id": {"$in": small}}, {"data": 1, "blob": 1})
        begins |= {row["_id"]: bytes(row["data"]) for row in await found.to_list(None)}
    for row in rows:
        if row["size"] > HEAD_FROM_BYTES and row["_id"] not in begins:
            alone = await db.collections.jobs.find_one({"_id": row["_id"]}, {"data": 1, "blob": 1})
            begins[row["_id"]] = b"" if alone is None else await db.blobs.get(kept_data(alone), 0, max_bytes)
    return tuple(
        record._replace(job=record.job._replace(data=begins.get(record.job.id, b"")[:max_bytes])) for record in records
    )


async def count_children(db: Core, rows: Sequence[Document]) -> dict[str, tuple[int, int]]:
    """Of those that have any: how many there were, and how many are not terminal."""
    parents = {row["_id"]: row["kids"] for row in rows if row.get("kids")}
    if not parents:
        return {}
    groups = await aggregate(
        db.collections.jobs,
        [
            {"$match": {"parent": {"$in": list(parents)}, "pend": True}},
            {"$group": {"_id": "$parent", "n": {"$sum": 1}}},
        ],
    )
    pending = {group["_id"]: group["n"] for group in groups}
    return {parent: (kids, pending.get(parent, 0)) for parent, kids in parents.items()}


def _visible() -> Document:
    return {"s": {"$in": list(schema.VISIBLE_STATES)}}


def _place(document: Document) -> tuple[int, str]:
    return document["at"], document["_id"]


def _archived_states(where: JobFilter) -> tuple[str, ...]:
    codes = FINAL_CODES if where.codes is None else where.codes & FINAL_CODES
    return tuple(schema.ARCHIVED[code] for code in sorted(codes))


def _named(where: JobFilter) -> tuple[Document, str | None]:
    """What is looked for, and the index that has it."""
    if where.unique is not None:
        return {"unique": where.unique}, schema.NAMED
    if where.key is not None:
        return {"key": where.key}, schema.OF_KEY
    if where.failure is not None:
        return {"out.fingerprint": where.failure}, schema.FAILED
    return {}, None


def _parts(types: Sequence[str], states: Sequence[str]) -> list[Document]:
    """The conditions that together name all types in all states, of as few queries as are read in order."""
    if len(types) * len(states) <= _APART:
        return [{"type": jobtype, "s": state} for jobtype in types for state in states]
    step = max(_RANGES // len(states), 1)
    groups = [list(types[start : start + step]) for start in range(0, len(types), step)]
    return [{"type": {"$in": group}, "s": {"$in": list(states)}} for group in groups]


def _decode(cursor: str, state: JobState) -> tuple[int, str]:
    kind, _, rest = cursor.partition(".")
    time_text, _, job_id = rest.partition(".")
    if kind == state and time_text.isdecimal() and len(time_text) < 18:
        return int(time_text), check_job_id(job_id, "cursor")
    raise InvalidValue(f"cursor {cursor!r:.80} is not one of a listing of {state} jobs", field="cursor")
