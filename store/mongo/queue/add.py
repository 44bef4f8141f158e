"""Adding jobs in bulk."""

from collections.abc import Sequence

from pymongo.errors import BulkWriteError

from store.errors import StoreUnavailable
from store.mongo.queue.deleted import position_fields, position_from
from store.mongo.queue.documents import job_document
from store.mongo.queue.seqs import close_seqs, give_seqs, is_beyond, numbered_types
from store.mongo.queue.turns import note_turns
from store.mongo.queue.window import HeldJob, look_again
from store.mongo.server.bulk import places_in_order, update_one, write_each
from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import DUPLICATE_KEY, Document, retried, upserted
from store.mongo.server.schema import HELD, QUEUED
from store.mongo.server.tally import Effect
from store.values.jobs import AddReport, NewJob
from store.values.positions import JournalPosition


class MongoAdd(Core):
    @once
    async def add_jobs(
        self, jobs: Sequence[NewJob], *, now_ms: int, position: JournalPosition | None = None
    ) -> AddReport:
        added = await add_batch(self, jobs, now_ms)
        if position is not None:
            await keep_position(self, position)
        return AddReport(added, len(jobs) - added)

    @repeatable
    async def get_journal_position(self, reader: str) -> JournalPosition | None:
        found = await self.collections.positions.find_one({"_id": reader})
        return None if found is None else position_from(found)


async def add_batch(db: Core, jobs: Sequence[NewJob], now_ms: int) -> int:
    """How many of them are new."""
    distinct = {job.id: job for job in reversed(jobs)}  # of two with one id the first stands
    first = [job for job in jobs if distinct.pop(job.id, None) is not None]
    return await insert_jobs(db, first, now_ms) if first else 0


async def keep_position(db: Core, position: JournalPosition) -> None:
    """Unless one that was read later was faster."""
    place, positions = position_fields(position), db.collections.positions
    later = {"passed": {"$gt": position.passed}, "sources": list(position.sources)}
    found = await retried(lambda: positions.update_one({"_id": position.reader, "$nor": [later]}, {"$set": place}))
    if not found.matched_count:
        there = {"_id": position.reader}
        await retried(lambda: upserted(lambda: positions.update_one(there, {"$setOnInsert": place}, upsert=True)))


async def insert_jobs(db: Core, jobs: Sequence[NewJob], now_ms: int) -> int:
    """Insert jobs with distinct ids into the queue, and count them. Returns how many were new."""
    numbered = await numbered_types(db, jobs)
    seqs = await give_seqs(db, jobs, numbered, now_ms)
    jobs = [job for job in jobs if job.id not in seqs.old]
    if not jobs:
        return 0
    await note_domains(db, jobs)
    await note_turns(db, jobs)
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
    await look_again(db, [HeldJob(job.jobtype, job.id, seqs.by_id[job.id]) for job in jobs if job.id in held], now_ms)
    return len(jobs) - len(refused)


async def insert_new(db: Core, documents: list[Document], mark: int) -> set[int]:
    """The places of those that were there already."""
    tries, order = 0, places_in_order(documents)

    async def insert() -> None:
        nonlocal tries
        tries += 1
        await db.collections.jobs.insert_many([documents[place] for place in order], ordered=False)

    try:
        await retried(insert)
    except BulkWriteError as error:
        refused = {order[place] for place in places_taken(error)}
        if tries > 1:  # some may be there because the first try put them there
            ours = await db.ledger.marked([documents[place]["_id"] for place in refused], mark)
            refused = {place for place in refused if documents[place]["_id"] not in ours}
        return refused
    return set()


def places_taken(error: BulkWriteError) -> set[int]:
    """Of documents that were sent, the places of those whose ids were there. Raises the error if it is about anything
    else."""
    problems = error.details["writeErrors"]
    if any(problem["code"] != DUPLICATE_KEY for problem in problems):
        raise error
    if error.details.get("writeConcernErrors"):
        raise StoreUnavailable("new jobs: the write was not confirmed by a majority in time") from error
    return {problem["index"] for problem in problems}


async def note_domains(db: Core, jobs: Sequence[NewJob]) -> None:
    """A type that has had a job of a rate domain is claimed from with an eye on domains from then on."""
    marks = [
        update_one({"_id": jobtype}, {"$set": {"domains": True}}, upsert=True)
        for jobtype in {job.jobtype for job in jobs if job.domain}
    ]
    if marks:
        types = db.collections.types
        await retried(lambda: upserted(lambda: write_each(types, marks)))


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
        domain="" if job.key or is_held else job.domain,
        priority=job.priority,
        due_ms=job.dt_ms,
    )
