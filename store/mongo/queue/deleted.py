"""Ids of deleted jobs whose lines may be read again (values/positions.py): documents of no jobtype, whose `type` is the
source of the id, so that the listing index finds them by it."""

from collections.abc import Sequence

from store.mongo.server import schema
from store.mongo.server.bulk import replace_one, write_each
from store.mongo.server.core import Core
from store.mongo.server.driver import Document, retried
from store.names import FORGOTTEN_AFTER_MS
from store.values.positions import JournalPosition, may_be_read_again, passed_of, source_of


def position_from(row: Document) -> JournalPosition:
    sources = tuple(row.get("sources", ()))
    return JournalPosition(row["_id"], row["segment"], row["offset"], row["line"], row.get("passed", ""), sources)


def position_fields(position: JournalPosition) -> Document:
    """Without its reader, which is the document's id."""
    place: Document = {"segment": position.segment, "offset": position.offset, "line": position.line}
    return place | {"passed": position.passed, "sources": list(position.sources)}


def deleted_document(job_id: str, deleted_ms: int) -> Document:
    return {"_id": job_id, "s": schema.DELETED, "type": source_of(job_id), "at": deleted_ms}


async def keep_ids(db: Core, ids: Sequence[str], now_ms: int) -> None:
    """Of jobs that are being purged. Safe to repeat, and whoever finds them purged does the same."""
    positions = await _positions(db)
    kept = [deleted_document(job_id, now_ms) for job_id in ids if may_be_read_again(job_id, positions)]
    if kept:
        requests = [replace_one({"_id": document["_id"], "s": schema.PURGED}, document) for document in kept]
        await retried(lambda: write_each(db.collections.jobs, requests))


async def expire_ids(db: Core, now_ms: int, limit: int) -> int:
    """Those whose lines were read, and those of journals that will not come back. Returns how many."""
    removed, positions = 0, await _positions(db)
    source = await _next_source(db, None)
    while source is not None and removed < limit:
        for which in ({"_id": {"$lte": passed_of(source, positions)}}, {"at": {"$lt": now_ms - FORGOTTEN_AFTER_MS}}):
            mine = {"s": schema.DELETED, "type": source}
            found = db.collections.jobs.find(mine | which, {"_id": 1}, hint=schema.LISTING).limit(limit - removed)
            ids = [row["_id"] for row in await found.to_list(None)] if removed < limit else []
            if ids:
                gone = await db.collections.jobs.delete_many({"_id": {"$in": ids}, "s": schema.DELETED})
                removed += gone.deleted_count
        source = await _next_source(db, source)
    return removed


async def _next_source(db: Core, after: str | None) -> str | None:
    which: Document = {"s": schema.DELETED} | ({} if after is None else {"type": {"$gt": after}})
    found = db.collections.jobs.find(which, {"type": 1}, hint=schema.LISTING).sort("type", 1).limit(1)
    return next((row["type"] for row in await found.to_list(1)), None)


async def _positions(db: Core) -> list[JournalPosition]:
    rows = await db.collections.positions.find({}).to_list(None)
    return [position_from(row) for row in rows]
