"""Taking over records of another store as they are.

Everything but a job is one document that is replaced by its key. Jobs are inserted and counted through the ledger, as
new ones are, so that what a crash interrupts is found out and counted once; the next begin_import sees to it.
"""

from collections.abc import Sequence
from typing import Any

from pymongo import UpdateOne

from store.checks import check_time
from store.errors import Conflict, InvalidValue
from store.mongo import schema
from store.mongo.core import once, repeatable
from store.mongo.documents import job_document, outcome_document
from store.mongo.driver import Document, retried, upserted
from store.mongo.exporting import Exporting
from store.mongo.importdocuments import REQUESTS
from store.mongo.tally import Effect
from store.names import DONE_LOCK, PAUSED_LOCK, check_label
from store.protocol.transfer import StoreTransfer
from store.transfers import check_records, require_empty
from store.values.jobs import Code, NewJob
from store.values.transfer import (
    PARTS,
    AuditRecord,
    ImportPlace,
    JobCopy,
    Part,
    Record,
    SeriesRecord,
)


class Importing(Exporting, StoreTransfer):
    @repeatable
    async def begin_import(self, source: str) -> ImportPlace:
        check_label("source", source)
        # No daemon uses the store: whoever has a change under way here is a process of an import that died.
        await self.ledger.settle()
        await self.ledger.settle_lapsed(gone_before_ms=1 << 62, limit=1000)
        note = await self.collections.meta.find_one({"_id": schema.IMPORT_NOTE})
        if note is None:
            await require_empty(self)
            fresh = {"$setOnInsert": {"source": source, "part": PARTS[0].value, "cursor": None}}
            await upserted(lambda: self.collections.meta.update_one({"_id": schema.IMPORT_NOTE}, fresh, upsert=True))
            return ImportPlace(PARTS[0], None)
        if note["source"] != source:
            raise Conflict(f"the store is being filled from {note['source']}: finish that, or name one that is empty")
        return ImportPlace(Part(note["part"]), note["cursor"])

    @once
    async def import_records(self, part: Part, records: Sequence[Record], *, after: ImportPlace, now_ms: int) -> None:
        check_time("now_ms", now_ms)
        check_records(part, records)
        if await self.collections.meta.find_one({"_id": schema.IMPORT_NOTE}) is None:
            raise Conflict("no import was begun")
        if part is Part.JOBS:
            await self._put_jobs([record for record in records if isinstance(record, JobCopy)], now_ms)
        else:
            await self._put_documents(part, records)
        numbers = [record.number for record in records if isinstance(record, AuditRecord)]
        if numbers:
            await self._put_documents(Part.SERIES, [SeriesRecord("audit", max(numbers))])
        place = {"$set": {"part": after.part.value, "cursor": after.cursor}}
        await retried(lambda: self.collections.meta.update_one({"_id": schema.IMPORT_NOTE}, place))

    @repeatable
    async def end_import(self) -> None:
        await self.collections.meta.delete_one({"_id": schema.IMPORT_NOTE})

    async def _put_documents(self, part: Part, records: Sequence[Record]) -> None:
        by_collection: dict[str, list[Any]] = {}
        for record in records:
            for collection, request in REQUESTS[part](record):
                by_collection.setdefault(collection, []).append(request)
        for collection, requests in by_collection.items():
            await self._write_all(collection, requests)

    async def _write_all(self, collection: str, requests: list[Any]) -> None:
        target = self.collections.database[collection]
        await retried(lambda: upserted(lambda: target.bulk_write(requests, ordered=False)))

    # --- jobs -------------------------------------------------------------------------------------------

    async def _put_jobs(self, copies: Sequence[JobCopy], now_ms: int) -> None:
        there = await self.collections.jobs.find(
            {"_id": {"$in": [copy.job.id for copy in copies]}}, {"_id": 1}
        ).to_list(None)
        known = {row["_id"] for row in there}
        missing = [copy for copy in copies if copy.job.id not in known]
        await self.note_domains([_as_new(copy) for copy in missing])
        documents = [await self._document(copy, now_ms) for copy in missing]
        effects = [_effect(document) for document in documents]
        if documents:
            async with self.ledger.change(effects, now_ms) as change:
                for document in documents:
                    document["ops"] = [change.mark]
                refused = await self.insert_new(documents, change.mark)
                change.applied = [effect for place, effect in enumerate(effects) if place not in refused]
        names = [request for copy in copies if (request := _name_request(copy)) is not None]
        if names:
            await self._write_all("names", names)

    async def _document(self, copy: JobCopy, now_ms: int) -> Document:
        job, outcome = copy.job, copy.outcome
        state = _state(copy)
        document = job_document(
            _as_new(copy),
            await self.blobs.put(job.id, job.data),
            state=state,
            deferred=state == schema.QUEUED and job.due_ms > now_ms,
            seq=job.seq,
        )
        document |= {
            "at": copy.done_ms if state in schema.ARCHIVED_STATES else job.dt_ms,
            "due": job.due_ms,
            "token": job.token,
            "attempts": job.attempts,
            "kin": bool(job.parent or copy.children),
        }
        optional: Document = {"claimed": copy.claimed_ms, "done": copy.done_ms, "kids": copy.children}
        document |= {field: value for field, value in optional.items() if value}
        if state == schema.RUNNING:
            document["lock"] = job.lock
        if job.parent:
            document["pend"] = not copy.settled
        if outcome is not None:
            result = None if outcome.result is None else await self.blobs.put(job.id, outcome.result)
            document["out"] = outcome_document(outcome, result)
        return document


def _state(copy: JobCopy) -> str:
    lock = copy.job.lock
    if lock == "":
        return schema.QUEUED
    if lock == PAUSED_LOCK:
        return schema.HELD if copy.held else schema.PAUSED
    if lock != DONE_LOCK:
        return schema.RUNNING
    state = schema.ARCHIVED.get(Code.RETRY if copy.outcome is None else copy.outcome.code)
    if state is None:
        raise InvalidValue(f"job {copy.job.id} is archived without a final outcome")
    return state


def _as_new(copy: JobCopy) -> NewJob:
    job = copy.job
    return NewJob(
        job.id,
        job.jobtype,
        job.data,
        job.due_ms,
        job.create_ms,
        job.priority,
        job.domain,
        job.options,
        job.retry_after_ms,
        indexed=job.seq is not None,
        repeat=job.repeat,
        unique=job.unique,
        parent=job.parent,
    )


def _effect(document: Document) -> Effect:
    state, last = document["s"], document.get("out", {})
    return Effect(
        document["type"],
        document["_id"],
        live=int(state in schema.LIVE_STATES),
        deferred=int(document.get("d", False)),
        blocked=int(state in {schema.PAUSED, schema.HELD}),
        jobs=1,
        size_bytes=document["size"] + last.get("size", 0) + last.get("log_size", 0),
    )


def _name_request(copy: JobCopy) -> UpdateOne | None:
    """The unique name of a live job is its own."""
    job = copy.job
    if not job.unique or job.lock == DONE_LOCK:
        return None
    holder = {"$setOnInsert": {"type": job.jobtype, "job": job.id, "version": 1}}
    return UpdateOne({"_id": f"{job.jobtype}|{job.unique}"}, holder, upsert=True)
