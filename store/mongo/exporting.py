"""The content as values, page by page in order of `_id`."""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, NamedTuple

from store.checks import check_time
from store.mongo import schema
from store.mongo.core import once, repeatable
from store.mongo.documents import kept_data, kept_result, record_from
from store.mongo.driver import Collection, Document
from store.mongo.handlers import handler_from
from store.mongo.listing import Listing
from store.mongo.scoreboard import EVENTS, bucket_from, failures_from
from store.mongo.tenants import audit_from, key_from, tenant_from
from store.mongo.upkeep import Upkeep
from store.transfers import check_export, decode_cursor, encode_cursor, size_of
from store.values.jobs import JournalPosition
from store.values.records import RateDomain
from store.values.transfer import (
    SYSIDS,
    AuditRecord,
    ExportPage,
    JobCopy,
    OnceRecord,
    Part,
    RateRecord,
    Record,
    SeriesRecord,
    TypeRecord,
)

_MEND_LIMIT: Final = 10_000


class _Documents(NamedTuple):
    """Where the records of a part are, and what is made of a document."""

    collection: str
    which: Document
    make: Callable[[Document], Record]


def _once_from(row: Document) -> OnceRecord:
    tenant, _, key = row["_id"].partition("|")
    return OnceRecord(tenant, key, bytes(row["value"]), row["expires"])


def _rate_from(row: Document) -> RateRecord:
    domain = RateDomain(row["tenant"], row["domain"], row["rate"], row["burst"])
    return RateRecord(domain, row["tokens"], row["updated"])


_PARTS: Final = {
    Part.TENANTS: _Documents("tenants", {}, tenant_from),
    Part.KEYS: _Documents("keys", {}, key_from),
    Part.HANDLERS: _Documents("versions", {}, handler_from),
    Part.RATES: _Documents("rates", {}, _rate_from),
    Part.ONCE: _Documents("once", {}, _once_from),
    Part.BUCKETS: _Documents("counters", {"k": "b"}, bucket_from),
    Part.FAILURES: _Documents("counters", {"k": "f"}, failures_from),
    Part.AUDIT: _Documents("audit", {}, lambda row: AuditRecord(row["_id"], audit_from(row))),
    Part.POSITIONS: _Documents(
        "positions", {}, lambda row: JournalPosition(row["_id"], row["segment"], row["offset"], row["line"])
    ),
}


class Exporting(Upkeep, Listing):
    @once
    async def begin_export(self, *, now_ms: int) -> None:
        check_time("now_ms", now_ms)
        await self.mend(now_ms, _MEND_LIMIT, gone_before_ms=now_ms + 1)

    @repeatable
    async def export(
        self, part: Part, *, cursor: str | None = None, limit: int = 500, max_bytes: int = 32 * 1024 * 1024
    ) -> ExportPage:
        check_export(limit, max_bytes)
        after = decode_cursor(part, cursor)
        last = None if after is None else after[0]
        if part is Part.SERIES:
            found = await self.collections.meta.find_one({"_id": SYSIDS})
            return ExportPage((SeriesRecord(SYSIDS, 0 if found is None else found["n"]),), None)
        if part is Part.TYPES:
            return await self._types(last, limit)
        records: list[Record] = []
        async for document in self._documents(part, last, limit + 1):
            record = await self._job(document) if part is Part.JOBS else _PARTS[part].make(document)
            max_bytes -= size_of(record)
            if records and (len(records) == limit or max_bytes < 0):
                return ExportPage(tuple(records), encode_cursor(part, [last]))
            records.append(record)
            last = document["_id"]
        return ExportPage(tuple(records), None)

    async def _documents(self, part: Part, last: Any, limit: int) -> AsyncIterator[Document]:
        if part is Part.JOBS:
            collection, which = self.collections.jobs, {"s": {"$in": list(schema.VISIBLE_STATES)}}
        else:
            collection, which = self.collections.database[_PARTS[part].collection], dict(_PARTS[part].which)
        if last is not None:
            which["_id"] = {"$gt": last}
        async for document in collection.find(which).sort("_id", 1).limit(limit):
            yield document

    async def _job(self, document: Document) -> JobCopy:
        kept = kept_result(document)
        result = None if kept is None else await self.blobs.get(kept)
        children = (await self.count_children([document])).get(document["_id"], (0, 0))
        record = record_from(document, await self.blobs.get(kept_data(document)), result, children, 0)
        return JobCopy(
            record.job,
            record.outcome,
            record.claimed_ms,
            record.done_ms,
            held=document["s"] == schema.HELD,
            settled="parent" in document and not document.get("pend", False),
            children=record.children,
            pending=record.pending_children,
        )

    async def _types(self, last: str | None, limit: int) -> ExportPage:
        """A jobtype is known by its counters, its flags or its handler: whichever of them there are."""
        after = {"$gt": last or ""}
        counters = await self._first(self.collections.counters, {"k": "t", "type": after}, "type", limit)
        flags = await self._first(self.collections.types, {"_id": after}, "_id", limit)
        shelf = await self._first(self.collections.shelf, {"_id": after}, "_id", limit)
        known = sorted(counters.keys() | flags.keys() | shelf.keys())
        records = tuple(
            _type_from(jobtype, counters.get(jobtype, {}), flags.get(jobtype, {}), shelf.get(jobtype, {}))
            for jobtype in known[:limit]
        )
        is_full = len(records) == limit
        return ExportPage(records, encode_cursor(Part.TYPES, [known[limit - 1]]) if is_full else None)

    async def _first(self, collection: Collection, which: Document, key: str, limit: int) -> dict[str, Document]:
        rows = await collection.find(which, {"seen": 0}).sort(key, 1).limit(limit).to_list(limit)
        return {row[key]: row for row in rows}


def _type_from(jobtype: str, counters: Document, flags: Document, shelf: Document) -> TypeRecord:
    events = [counters.get(event, 0) for event in EVENTS]
    queue = [flags.get("head", 0), flags.get("processed", 0)]
    versions = [shelf.get("current", 0), shelf.get("last", 0)]
    return TypeRecord._make([jobtype, bool(flags.get("paused", False)), *events, *queue, *versions])
