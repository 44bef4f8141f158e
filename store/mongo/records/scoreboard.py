"""Reading counters and buckets, pausing types, removing old records.

What the counters do not hold is counted from an index that has nothing else in it: running jobs, of which there are
never more than daemons have places for, and deferred jobs that came due since the last expire_locks.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from store.mongo.queue.deleted import expire_ids
from store.mongo.queue.old_names import sweep_names
from store.mongo.records.daemons import forgotten
from store.mongo.server import schema
from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import Collection, Document, aggregate, upserted
from store.names import PRIORITIES
from store.values.histogram import Histogram
from store.values.jobs import WaitingType
from store.values.scoreboard import (
    DUE_CAP,
    FAILURES_KEPT_MS,
    RESOLUTIONS,
    Bucket,
    FailureGroup,
    TypeCounters,
    Usage,
)
from vocabulary.names import tenant_of
from vocabulary.states import COUNTED_CODES

_SINCE: Final = ("at", "create", "done")
"""Of a queued job: the last of these is since when it could run."""
_MOST_LATER: Final = 20
"""Deferred jobs that are looked at for one whose type can run."""
EVENTS: Final = tuple(code.value for code in COUNTED_CODES)


class MongoScoreboard(Core):
    @repeatable
    async def get_waiting_jobtypes(self, *, now_ms: int, runnable: bool = False) -> list[WaitingType]:
        heads = await aggregate(
            self.collections.jobs,
            [
                {"$match": {"s": schema.QUEUED}},
                {"$sort": {"type": 1, "at": 1}},
                {"$group": {"_id": "$type", **{name: {"$first": f"${name}"} for name in _SINCE}}},
            ],
            hint=schema.LISTING,
        )
        oldest = {head["_id"]: max(head[name] or 0 for name in _SINCE) for head in heads if head["at"] <= now_ms}
        if not oldest:
            return []
        shelf = await self.collections.shelf.find({"_id": {"$in": list(oldest)}}, {"current": 1}).to_list(None)
        versions = {row["_id"]: row["current"] for row in shelf}
        types = [jobtype for jobtype in oldest if versions.get(jobtype)] if runnable else list(oldest)
        if not types:
            return []
        tenants = sorted({tenant_of(jobtype) for jobtype in types})
        closed, owners, live, urgent = await asyncio.gather(
            _ids(self.collections.types, {"_id": {"$in": types}, "paused": True}),
            self.collections.tenants.find({"_id": {"$in": tenants}}, {"created": 1, "suspended": 1}).to_list(None),
            self._live({"$in": types}, now_ms),
            self._urgent(now_ms),
        )
        suspended = {row["_id"] for row in owners if row["suspended"]}
        created_ms = {row["_id"]: row["created"] for row in owners}
        return [
            WaitingType(
                jobtype,
                max(_waiting(live, jobtype), 1),
                oldest[jobtype],
                versions.get(jobtype, 0),
                PRIORITIES[0] if jobtype in urgent else 500,
                created_ms.get(tenant_of(jobtype), 0),
            )
            for jobtype in sorted(types)
            if jobtype not in closed and tenant_of(jobtype) not in suspended
        ]

    @repeatable
    async def get_next_due(self, *, after_ms: int) -> int | None:
        later = {"d": True, "due": {"$gt": after_ms}}
        found = self.collections.jobs.find(later, {"due": 1, "type": 1}, hint=schema.DEFERRED).sort("due", 1)
        rows = await found.limit(_MOST_LATER).to_list(_MOST_LATER)
        able = await self._able(sorted({row["type"] for row in rows}))
        last_ms = rows[-1]["due"] if len(rows) == _MOST_LATER else None  # nothing before it can run
        return next((row["due"] for row in rows if row["type"] in able), last_ms)

    async def _able(self, types: list[str]) -> set[str]:
        """Those that have a handler, are not paused, and whose tenant is not suspended."""
        if not types:
            return set()
        tenants = sorted({tenant_of(jobtype) for jobtype in types})
        handled, closed, suspended = await asyncio.gather(
            _ids(self.collections.shelf, {"_id": {"$in": types}, "current": {"$gt": 0}}),
            _ids(self.collections.types, {"_id": {"$in": types}, "paused": True}),
            _ids(self.collections.tenants, {"_id": {"$in": tenants}, "suspended": True}),
        )
        return {jobtype for jobtype in handled - closed if tenant_of(jobtype) not in suspended}

    async def _urgent(self, now_ms: int) -> set[str]:
        """The types that have waiting jobs of the highest priority. An index has only such jobs, so this is quick."""
        heads = await aggregate(
            self.collections.jobs,
            [
                {"$match": {"s": schema.QUEUED, "prio": PRIORITIES[0]}},
                {"$sort": {"type": 1, "at": 1}},
                {"$group": {"_id": "$type", "at": {"$first": "$at"}}},
            ],
            hint=schema.URGENT,
        )
        return {head["_id"] for head in heads if head["at"] <= now_ms}

    @repeatable
    async def get_counters(self, tenant: str | None, *, now_ms: int) -> list[TypeCounters]:
        which = {"$gt": ""} if tenant is None else schema.types_of(tenant)
        live, paused = await asyncio.gather(
            self._live(which, now_ms), _ids(self.collections.types, {"_id": which, "paused": True})
        )
        rows = []
        for jobtype in sorted(live.keys() | paused):
            counts = live.get(jobtype, {})
            row = (
                jobtype,
                _waiting(live, jobtype),
                counts.get("deferred", 0),
                counts.get("running", 0),
                counts.get("blocked", 0),
                *(counts.get(event, 0) for event in EVENTS),
                jobtype in paused,
            )
            rows.append(TypeCounters._make(row))
        return [row for row in rows if any(row[1:])]

    async def _live(self, which: Document, now_ms: int) -> dict[str, Document]:
        """The counters by type, with running counted and with those that came due counted as not deferred."""
        await self.ledger.settle()
        counters, running, due = await asyncio.gather(
            self.collections.counters.find({"k": "t", "type": which}, {"seen": 0}).to_list(None),
            aggregate(
                self.collections.jobs,
                [
                    {"$match": {"s": schema.RUNNING, "type": which}},
                    {"$group": {"_id": "$type", "n": {"$sum": 1}}},
                ],
                hint=schema.LISTING,
            ),
            aggregate(
                self.collections.jobs,
                [
                    {"$match": {"d": True, "due": {"$lte": now_ms}, "type": which}},
                    {"$limit": DUE_CAP},
                    {"$group": {"_id": "$type", "n": {"$sum": 1}}},
                ],
                hint=schema.DEFERRED,
            ),
        )
        types: dict[str, Document] = {row["type"]: row for row in counters}
        for group in running:
            types.setdefault(group["_id"], {})["running"] = group["n"]
        for group in due:
            row = types.setdefault(group["_id"], {})
            row["deferred"] = max(row.get("deferred", 0) - group["n"], 0)
        return types

    @repeatable
    async def get_buckets(
        self, tenant: str | None, *, width_ms: int, since_ms: int, until_ms: int, jobtype: str | None = None
    ) -> list[Bucket]:
        which: Document = {"k": "b", "width": width_ms, "start": {"$gte": since_ms, "$lt": until_ms}}
        if jobtype is not None:
            which["type"] = jobtype
        elif tenant is not None:
            which["type"] = schema.types_of(tenant)
        rows = await self.collections.counters.find(which, {"seen": 0}).sort([("start", 1), ("type", 1)]).to_list(None)
        return [bucket_from(row) for row in rows]

    @repeatable
    async def list_failure_groups(
        self, tenant: str, *, jobtypes: Sequence[str] | None = None, since_ms: int = 0, limit: int = 100
    ) -> list[FailureGroup]:
        of_types = schema.types_of(tenant)
        which: Document = {"k": "f", "type": of_types, "last": {"$gte": since_ms}}
        if jobtypes is not None:
            which["type"] = {"$in": list(jobtypes)}
        found = self.collections.counters.find(which, {"seen": 0})
        rows = await found.sort([("last", -1), ("type", 1), ("fingerprint", 1)]).limit(limit).to_list(limit)
        return [failures_from(row) for row in rows]

    @repeatable
    async def get_usage(self, tenant: str) -> Usage:
        await self.ledger.settle()
        of_types = schema.types_of(tenant)
        of_name = {"_id": {"$gte": f"{tenant}|", "$lt": f"{tenant}}}"}}
        rows, handlers, versions, contents = await asyncio.gather(
            self.collections.counters.find({"k": "t", "type": of_types}, {"jobs": 1, "size_bytes": 1}).to_list(None),
            self.collections.shelf.count_documents({"_id": of_types, "current": {"$gt": 0}}),
            self.collections.versions.find({"type": of_types}, {"size": 1}).to_list(None),
            self.collections.contents.find(of_name, {"size": 1}).to_list(None),
        )
        jobs = sum(row.get("jobs", 0) for row in rows)
        size_bytes = sum(row.get("size_bytes", 0) for row in rows) + sum(row["size"] for row in [*versions, *contents])
        return Usage(jobs, size_bytes, handlers)

    @once
    async def set_type_paused(self, tenant: str, jobtype: str, *, paused: bool) -> bool:
        types = self.collections.types
        change = {"$set": {"paused": paused}}
        if not paused:
            return (await types.update_one({"_id": jobtype, "paused": True}, change)).modified_count > 0
        done = await upserted(lambda: types.update_one({"_id": jobtype}, change, upsert=True))
        return done.modified_count > 0 or done.upserted_id is not None

    @once
    async def expire_records(self, *, now_ms: int, audit_before_ms: int, limit: int = 1000) -> int:
        counters = self.collections.counters
        in_turn: list[tuple[Collection, Document]] = [
            *(
                (counters, {"k": "b", "width": width_ms, "start": {"$lt": now_ms - kept_ms}})
                for width_ms, kept_ms in RESOLUTIONS.items()
            ),
            (counters, {"k": "f", "last": {"$lt": now_ms - FAILURES_KEPT_MS}}),
            (self.collections.audit, {"at": {"$lt": audit_before_ms}}),
            (self.collections.once, {"expires": {"$lte": now_ms}}),
            (self.collections.daemons, await forgotten(self.collections, now_ms)),
        ]
        removed = 0
        for collection, old in in_turn:
            if removed < limit:
                rows = await collection.find(old, {"_id": 1}).limit(limit - removed).to_list(limit - removed)
                if rows:
                    ids = [row["_id"] for row in rows]
                    removed += (await collection.delete_many({"_id": {"$in": ids}, **old})).deleted_count
        removed += await expire_ids(self, now_ms, limit - removed)
        await self.blobs.sweep(self.collections.jobs, now_ms=now_ms, limit=limit)
        await sweep_names(self, limit)
        return removed


async def _ids(collection: Collection, which: Document) -> set[str]:
    return {row["_id"] for row in await collection.find(which, {"_id": 1}).to_list(None)}


def _waiting(live: dict[str, Document], jobtype: str) -> int:
    """Those that are live and neither deferred nor running nor paused."""
    counts = live.get(jobtype, {})
    elsewhere: int = sum(counts.get(field, 0) for field in ("deferred", "running", "blocked"))
    return max(int(counts.get("live", 0)) - elsewhere, 0)


def _histogram(cells: dict[str, Any]) -> Histogram:
    return Histogram({int(cell): count for cell, count in cells.items()})


def bucket_from(row: Document) -> Bucket:
    return Bucket._make(
        (
            row["type"],
            row["start"],
            row["width"],
            *(row.get(event, 0) for event in EVENTS),
            row.get("runner_us", 0),
            _histogram(row.get("duration", {})),
            _histogram(row.get("wait", {})),
        )
    )


def failures_from(row: Document) -> FailureGroup:
    fields = ("type", "fingerprint", "message", "runs", "first", "last", "example")
    return FailureGroup._make(row[field] for field in fields)
