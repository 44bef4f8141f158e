"""Taking over records of another store as they are.

Everything but a job is one document that is replaced by its key. Jobs are inserted and counted through the ledger, as
new ones are, so that what a crash interrupts is found out and counted once; the next begin_import sees to it.
"""

from collections.abc import Sequence

from store.errors import InvalidValue
from store.mongo.queue.add import insert_new, note_domains
from store.mongo.queue.documents import history_documents, job_document, outcome_document
from store.mongo.queue.turns import hold_places, note_turns
from store.mongo.records.import_documents import WRITES
from store.mongo.server import schema
from store.mongo.server.bulk import Write, update_one, write_each
from store.mongo.server.core import Core
from store.mongo.server.driver import Document, retried, upserted
from store.mongo.server.tally import Effect, entering
from store.names import DONE_LOCK, PAUSED_LOCK, number_key
from store.values.jobs import NewJob
from store.values.schedules import schedule_fields
from store.values.transfer import (
    AuditRecord,
    JobCopy,
    Part,
    Record,
    SeriesRecord,
)
from vocabulary.names import tenant_of
from vocabulary.states import Code


async def put_records(db: Core, part: Part, records: Sequence[Record], now_ms: int) -> None:
    if part is Part.JOBS:
        await _put_jobs(db, [record for record in records if isinstance(record, JobCopy)], now_ms)
    else:
        await _put_documents(db, part, records)
    numbers = [record.number for record in records if isinstance(record, AuditRecord)]
    if numbers:
        await _put_documents(db, Part.SERIES, [SeriesRecord("audit", max(numbers))])


async def _put_documents(db: Core, part: Part, records: Sequence[Record]) -> None:
    by_collection: dict[str, list[Write]] = {}
    for record in records:
        for collection, write in WRITES[part](record):
            by_collection.setdefault(collection, []).append(write)
    for collection, writes in by_collection.items():
        await _write_all(db, collection, writes)


async def _write_all(db: Core, collection: str, writes: list[Write]) -> None:
    target = db.collections.database[collection]
    await retried(lambda: upserted(lambda: write_each(target, writes)))


async def _put_jobs(db: Core, copies: Sequence[JobCopy], now_ms: int) -> None:
    there = await db.collections.jobs.find({"_id": {"$in": [copy.job.id for copy in copies]}}, {"_id": 1}).to_list(None)
    known = {row["_id"] for row in there}
    missing = [copy for copy in copies if copy.job.id not in known]
    await note_domains(db, [_as_new(copy) for copy in missing])
    await note_turns(db, [_as_new(copy) for copy in missing])
    documents = [await _document(db, copy, now_ms) for copy in missing]
    effects = [_effect(document) for document in documents]
    if documents:
        async with db.ledger.change(effects, now_ms) as change:
            for document in documents:
                document["ops"] = [change.mark]
            refused = await insert_new(db, documents, change.mark)
            change.applied = [effect for place, effect in enumerate(effects) if place not in refused]
    # Those that were in as well: the import that brought them may have died before this.
    await hold_places(db, [copy.job for copy in copies if _has_place(copy)])
    names = [write for copy in copies if (write := _name_write(copy)) is not None]
    if names:
        await _write_all(db, "names", names)


async def _document(db: Core, copy: JobCopy, now_ms: int) -> Document:
    job, outcome = copy.job, copy.outcome
    state = _state(copy)
    document = job_document(
        _as_new(copy),
        await db.blobs.put(job.id, job.data),
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
    moments: Document = {"begun": job.begun_ms, "planned": job.planned_ms, "next": copy.next_ms}
    document |= {field: value for field, value in moments.items() if value is not None}
    if state == schema.RUNNING:
        document["lock"] = job.lock
    if job.parent:
        document["pend"] = not copy.settled
    if outcome is not None:
        result = None if outcome.result is None else await db.blobs.put(job.id, outcome.result)
        document["out"] = outcome_document(outcome, result)
    if copy.number is not None:
        document["no"] = number_key(tenant_of(job.jobtype), copy.number)
    if copy.history:
        document["past"] = history_documents(copy.history)
    if fields := schedule_fields(copy.schedule):
        document["sched"] = fields
    if copy.schedule.pause is not None:
        document["repeat"] = copy.job.repeat
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


def _has_place(copy: JobCopy) -> bool:
    """Whether the job has a place in the turn of its key: it runs, or is between two attempts."""
    state = _state(copy)
    return state == schema.RUNNING or (state == schema.QUEUED and copy.job.begun_ms is not None)


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
        key=job.key,
    )


def _effect(document: Document) -> Effect:
    state, last = document["s"], document.get("out", {})
    effect = Effect(
        document["type"],
        document["_id"],
        live=int(state in schema.LIVE_STATES),
        deferred=int(document.get("d", False)),
        blocked=int(state in {schema.PAUSED, schema.HELD}),
        jobs=1,
        size_bytes=document["size"] + last.get("size", 0) + last.get("log_size", 0),
        key=document.get("key", ""),
    )
    return entering(effect, document, document["due"]) if state == schema.QUEUED else effect


def _name_write(copy: JobCopy) -> Write | None:
    """The unique name of a live job is its own."""
    job = copy.job
    if not job.unique or job.lock == DONE_LOCK:
        return None
    holder = {"$setOnInsert": {"type": job.jobtype, "job": job.id, "version": 1}}
    return update_one({"_id": f"{job.jobtype}|{job.unique}"}, holder, upsert=True)
