"""Adding jobs in bulk, and the numbers of indexed queues."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from store.errors import StoreUnavailable
from store.mongo.queue.documents import job_document
from store.mongo.queue.turns import note_turns
from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import DUPLICATE_KEY, Document, retried, upserted
from store.mongo.server.schema import HELD, QUEUED
from store.mongo.server.tally import Effect
from store.values.jobs import AddReport, JournalPosition, NewJob


class MongoAdd(Core):
    @once
    async def add_jobs(
        self, jobs: Sequence[NewJob], *, now_ms: int, position: JournalPosition | None = None
    ) -> AddReport:
        distinct = {job.id: job for job in reversed(jobs)}  # of two with one id the first stands
        first = [job for job in jobs if distinct.pop(job.id, None) is not None]
        added = await insert_jobs(self, first, now_ms) if first else 0
        if position is not None:
            await keep_position(self, position)
        return AddReport(added, len(jobs) - added)

    @repeatable
    async def get_journal_position(self, reader: str) -> JournalPosition | None:
        found = await self.collections.positions.find_one({"_id": reader})
        if found is None:
            return None
        return JournalPosition(reader, found["segment"], found["offset"], found["line"])


async def keep_position(db: Core, position: JournalPosition) -> None:
    place = {"segment": position.segment, "offset": position.offset, "line": position.line}
    positions = db.collections.positions
    await retried(lambda: upserted(lambda: positions.replace_one({"_id": position.reader}, place, upsert=True)))


async def insert_jobs(db: Core, jobs: Sequence[NewJob], now_ms: int) -> int:
    """Insert jobs with distinct ids into the queue, and count them. Returns how many were new."""
    numbered = await numbered_types(db, jobs)
    if numbered:
        jobs = await _new_ones(db, jobs, numbered)  # a number given to a duplicate would be a gap
        if not jobs:
            return 0
    await note_domains(db, jobs)
    await note_turns(db, jobs)
    seqs = await give_seqs(db, jobs, numbered, now_ms)
    held = {job.id for job in jobs if is_beyond(numbered.get(job.jobtype), job, seqs.by_id.get(job.id))}
    documents = [
        job_document(
            job,
            await db.blobs.put(job.id, job.data),
            state=HELD if job.id in held else QUEUED,
            deferred=job.id not in held and job.dt_ms > now_ms,
            seq=seqs.by_id.get(job.id),
        )
        for job in jobs
    ]
    effects = [add_effect(job, now_ms, is_held=job.id in held) for job in jobs]
    async with db.ledger.change(effects, now_ms) as change:
        for document in documents:
            document["ops"] = [change.mark]
        refused = await insert_new(db, documents, change.mark)
        change.applied = [effect for i, effect in enumerate(effects) if i not in refused]
    await db.blobs.remove(documents[i]["blob"] for i in refused)
    await close_seqs(db, seqs)
    return len(jobs) - len(refused)


async def insert_new(db: Core, documents: list[Document], mark: int) -> set[int]:
    """The places of those that were there already."""
    tries = 0

    async def insert() -> None:
        nonlocal tries
        tries += 1
        await db.collections.jobs.insert_many(documents, ordered=False)

    try:
        await retried(insert)
    except BulkWriteError as error:
        problems = error.details["writeErrors"]
        if any(problem["code"] != DUPLICATE_KEY for problem in problems):
            raise
        if error.details.get("writeConcernErrors"):
            raise StoreUnavailable("add_jobs: the write was not confirmed by a majority in time") from error
        refused = {problem["index"] for problem in problems}
        if tries > 1:  # some may be there because the first try put them there
            ours = await db.ledger.marked([documents[place]["_id"] for place in refused], mark)
            refused = {place for place in refused if documents[place]["_id"] not in ours}
        return refused
    return set()


async def _new_ones(db: Core, jobs: Sequence[NewJob], jobtypes: Iterable[str]) -> list[NewJob]:
    """Those that are not there. Who added the others may have died before it could say so: their ranges are closed."""
    old = await _ids_of(db, [job.id for job in jobs])
    for jobtype in jobtypes if old else ():
        found = await db.collections.types.find_one({"_id": jobtype}, {"open": 1}) or {}
        known = [Range(jobtype, part["first"], part.get("ids", ())) for part in found.get("open", ())]
        await close_seqs(db, Seqs({}, [part for part in known if not old.isdisjoint(part.ids)]))
    return [job for job in jobs if job.id not in old]


async def _ids_of(db: Core, ids: Sequence[str]) -> set[str]:
    """Those that there are."""
    rows = await db.collections.jobs.find({"_id": {"$in": ids}}, {"_id": 1}).to_list(None)
    return {row["_id"] for row in rows}


async def note_domains(db: Core, jobs: Sequence[NewJob]) -> None:
    """A type that has had a job of a rate domain is claimed from with an eye on domains from then on."""
    marks = [
        UpdateOne({"_id": jobtype}, {"$set": {"domains": True}}, upsert=True)
        for jobtype in {job.jobtype for job in jobs if job.domain}
    ]
    if marks:
        types = db.collections.types
        await retried(lambda: upserted(lambda: types.bulk_write(marks, ordered=False)))


async def numbered_types(db: Core, jobs: Sequence[NewJob]) -> dict[str, int | None]:
    """Types of which jobs are to be numbered: those with a consumer, with the last number that it let into the queue,
    and those of jobs that ask for a number, with None."""
    types: dict[str, int | None] = {job.jobtype: None for job in jobs if job.indexed}
    which = {"_id": {"$in": list({job.jobtype for job in jobs})}, "released": {"$gte": 0}}
    for row in await db.collections.types.find(which, {"released": 1, "pulled": 1}).to_list(None):
        if row.get("pulled"):
            types.pop(row["_id"], None)
        else:
            types[row["_id"]] = row["released"]
    return types


def is_beyond(released: int | None, job: NewJob, seq: int | None) -> bool:
    """Whether a consumer holds the job. The next look at its window finds out if it was let in meanwhile."""
    return released is not None and seq is not None and seq > released and not job.parent


class Range(NamedTuple):
    """Consecutive numbers that were given to jobs of a type, and are open until all of these are in."""

    jobtype: str
    first: int
    ids: Sequence[str]


class Seqs(NamedTuple):
    by_id: dict[str, int]
    ranges: list[Range]
    """Those that the numbers are from."""


async def give_seqs(db: Core, jobs: Sequence[NewJob], numbered: dict[str, int | None], now_ms: int) -> Seqs:
    """The next numbers of their types, in the order of the batch: for jobs that ask for one, and for all of a type with
    a consumer. A job that was given one by a process that died before the job was in gets the same again.

    A range is noted as open until `close_seqs`, so that nobody takes jobs that are not in yet for purged.
    """
    queues: dict[str, list[str]] = {}
    for job in jobs:
        if numbered.get(job.jobtype) is not None or (job.indexed and job.jobtype in numbered):
            queues.setdefault(job.jobtype, []).append(job.id)
    seqs = Seqs({}, [])
    for jobtype, ids in queues.items():
        wanted = set(ids)
        for part in await _open_ranges(db, jobtype, ids, now_ms):
            seqs.by_id.update({job_id: seq for seq, job_id in enumerate(part.ids, part.first) if job_id in wanted})
            seqs.ranges.append(part)
    return seqs


async def _open_ranges(db: Core, jobtype: str, ids: Sequence[str], now_ms: int) -> list[Range]:
    """Those that have some of these, and a new one for the others."""
    types = db.collections.types
    made = {"$setOnInsert": {"head": 0}}
    wanted = set(ids)
    while True:
        found = await types.find_one({"_id": jobtype}, {"head": 1, "open": 1})
        head: int = (found or {}).get("head", 0)
        parts = [Range(jobtype, part["first"], part.get("ids", ())) for part in (found or {}).get("open", ())]
        known = [part for part in parts if not wanted.isdisjoint(part.ids)]
        numbered = {job_id for part in known for job_id in part.ids}
        new = [job_id for job_id in ids if job_id not in numbered]
        if not new:
            return known
        moved: Document = {
            "$set": {"head": head + len(new)},
            "$push": {"open": {"first": head + 1, "at": now_ms, "ids": new}},
        }
        if found is None:
            await upserted(lambda: types.update_one({"_id": jobtype}, made, upsert=True))
        same = {"_id": jobtype, "head": head} if head else {"_id": jobtype, "head": {"$in": [0, None]}}
        if (await types.update_one(same, moved)).modified_count == 1:
            return [*known, Range(jobtype, head + 1, new)]


async def close_seqs(db: Core, seqs: Seqs) -> None:
    """The jobs with these numbers are in, or never will be. A range of which others are still missing stays open."""
    for jobtype, first, ids in seqs.ranges:
        others = [job_id for job_id in ids if job_id not in seqs.by_id]
        if not others or len(await _ids_of(db, others)) == len(others):
            await db.collections.types.update_one({"_id": jobtype}, {"$pull": {"open": {"first": first}}})


def add_effect(job: NewJob, now_ms: int, *, is_held: bool = False) -> Effect:
    return Effect(
        job.jobtype,
        job.id,
        live=1,
        deferred=int(not is_held and job.dt_ms > now_ms),
        blocked=int(is_held),
        jobs=1,
        size_bytes=len(job.data),
        key=job.key,
    )
