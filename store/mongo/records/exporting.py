"""The content as values, page by page in order of `_id`."""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, NamedTuple

from store.mongo.queue.deleted import position_from
from store.mongo.queue.documents import kept_data, kept_result, record_from
from store.mongo.queue.listing import count_children
from store.mongo.records.alerts import alert_from
from store.mongo.records.consumers import consumer_from
from store.mongo.records.contents import content_from
from store.mongo.records.handlers import handler_from
from store.mongo.records.scoreboard import EVENTS, bucket_from, failures_from
from store.mongo.records.secrets import secret_from
from store.mongo.records.tenants import audit_from, key_from, tenant_from
from store.mongo.records.webhooks import webhook_from
from store.mongo.server import schema
from store.mongo.server.core import Core
from store.mongo.server.driver import Collection, Document
from store.transfers import decode_cursor, encode_cursor, size_of
from store.values.records import RateDomain
from store.values.transfer import (
    SYSIDS,
    AuditRecord,
    DeletedRecord,
    ExportPage,
    JobCopy,
    NumberRecord,
    OnceRecord,
    Part,
    RateBucketRecord,
    RateRecord,
    Record,
    SeriesRecord,
    TypeRecord,
)


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


def _rate_bucket_from(row: Document) -> RateBucketRecord:
    tenant, _, domain = row["_id"].partition("|")
    return RateBucketRecord(
        RateDomain(tenant, domain, row["rate"], row["burst"]), row["tokens"], row["updated"], row["full"]
    )


_PARTS: Final = {
    Part.TENANTS: _Documents("tenants", {}, tenant_from),
    Part.KEYS: _Documents("keys", {}, key_from),
    Part.HANDLERS: _Documents("versions", {}, handler_from),
    Part.CONTENTS: _Documents("contents", {}, content_from),
    Part.CONSUMERS: _Documents("consumers", {}, consumer_from),
    Part.RATES: _Documents("rates", {}, _rate_from),
    Part.RATE_BUCKETS: _Documents("rate_buckets", {}, _rate_bucket_from),
    Part.ONCE: _Documents("once", {}, _once_from),
    Part.NUMBERS: _Documents("numbers", {}, lambda row: NumberRecord(row["_id"], row["n"])),
    Part.SECRETS: _Documents("secrets", {}, secret_from),
    Part.ALERTS: _Documents("alerts", {}, alert_from),
    Part.WEBHOOKS: _Documents("webhooks", {}, webhook_from),
    Part.BUCKETS: _Documents("counters", {"k": "b"}, bucket_from),
    Part.FAILURES: _Documents("counters", {"k": "f"}, failures_from),
    Part.AUDIT: _Documents("audit", {}, lambda row: AuditRecord(row["_id"], audit_from(row))),
    Part.POSITIONS: _Documents("positions", {}, position_from),
    Part.DELETED: _Documents("jobs", {"s": schema.DELETED}, lambda row: DeletedRecord(row["_id"], row["at"])),
}


async def export_part(db: Core, part: Part, cursor: str | None, limit: int, max_bytes: int) -> ExportPage:
    after = decode_cursor(part, cursor)
    last = None if after is None else after[0]
    if part is Part.SERIES:
        found = await db.collections.meta.find_one({"_id": SYSIDS})
        return ExportPage((SeriesRecord(SYSIDS, 0 if found is None else found["n"]),), None)
    if part is Part.TYPES:
        return await _types(db, last, limit)
    records: list[Record] = []
    async for document in _documents(db, part, last, limit + 1):
        record = await _job(db, document) if part is Part.JOBS else _PARTS[part].make(document)
        max_bytes -= size_of(record)
        if records and (len(records) == limit or max_bytes < 0):
            return ExportPage(tuple(records), encode_cursor(part, [last]))
        records.append(record)
        last = document["_id"]
    return ExportPage(tuple(records), None)


async def _documents(db: Core, part: Part, last: Any, limit: int) -> AsyncIterator[Document]:
    if part is Part.JOBS:
        collection, which = db.collections.jobs, {"s": {"$in": list(schema.VISIBLE_STATES)}}
    else:
        collection, which = db.collections.database[_PARTS[part].collection], dict(_PARTS[part].which)
    if last is not None:
        which["_id"] = {"$gt": last}
    async for document in collection.find(which).sort("_id", 1).limit(limit):
        yield document


async def _job(db: Core, document: Document) -> JobCopy:
    kept = kept_result(document)
    result = None if kept is None else await db.blobs.get(kept)
    children = (await count_children(db, [document])).get(document["_id"], (0, 0))
    record = record_from(document, await db.blobs.get(kept_data(document)), result, children, 0)
    return JobCopy(
        record.job,
        record.outcome,
        record.claimed_ms,
        record.done_ms,
        held=document["s"] == schema.HELD,
        settled="parent" in document and not document.get("pend", False),
        children=record.children,
        pending=record.pending_children,
        history=record.history,
        number=record.number,
        next_ms=document.get("next") if document["s"] == schema.PAUSED else None,
        schedule=record.schedule,
    )


async def _types(db: Core, last: str | None, limit: int) -> ExportPage:
    """A jobtype is known by its counters, its flags or its handler: whichever of them there are."""
    after = {"$gt": last or ""}
    counters = await _first(db.collections.counters, {"k": "t", "type": after}, "type", limit)
    flags = await _first(db.collections.types, {"_id": after}, "_id", limit)
    shelf = await _first(db.collections.shelf, {"_id": after}, "_id", limit)
    known = sorted(counters.keys() | flags.keys() | shelf.keys())
    records = tuple(
        _type_from(jobtype, counters.get(jobtype, {}), flags.get(jobtype, {}), shelf.get(jobtype, {}))
        for jobtype in known[:limit]
    )
    is_full = len(records) == limit
    return ExportPage(records, encode_cursor(Part.TYPES, [known[limit - 1]]) if is_full else None)


async def _first(collection: Collection, which: Document, key: str, limit: int) -> dict[str, Document]:
    rows = await collection.find(which, {"seen": 0}).sort(key, 1).limit(limit).to_list(limit)
    return {row[key]: row for row in rows}


def _type_from(jobtype: str, counters: Document, flags: Document, shelf: Document) -> TypeRecord:
    events = [counters.get(event, 0) for event in EVENTS]
    queue = [flags.get("head", 0), flags.get("processed", 0)]
    versions = [shelf.get("current", 0), shelf.get("last", 0)]
    return TypeRecord._make(
        [jobtype, bool(flags.get("paused", False)), *events, *queue, *versions, flags.get("released")]
    )
