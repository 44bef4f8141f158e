"""The job at the next number of a pulled consumer, without a transaction.

The number is taken by compare and swap, in the write that notes which job will have it; then the job is inserted; then
the note goes. What a crash interrupts is completed by whoever asks for the same number next, with the id in the note:
so a number has one job, and never none.
"""

from store.mongo.queue.add import add_effect, insert_new, note_domains
from store.mongo.queue.documents import job_document
from store.mongo.queue.window import HeldJob, look_again
from store.mongo.server.core import Core
from store.mongo.server.schema import HELD, QUEUED
from store.values.jobs import NewJob


async def append(db: Core, job: NewJob, seq: int, released: int, now_ms: int) -> bool:
    """Returns whether this call has added a job."""
    job_id = await _take_number(db, job, seq, now_ms)
    if not job_id:
        return False
    job = job._replace(id=job_id)
    await note_domains(db, [job])
    is_held = seq > released
    data = await db.blobs.put(job.id, job.data)
    state, deferred = HELD if is_held else QUEUED, not is_held and job.dt_ms > now_ms
    document = job_document(job, data, state=state, deferred=deferred, seq=seq)
    effect = add_effect(job, now_ms, is_held=is_held)
    async with db.ledger.change([effect], now_ms) as change:
        document["ops"] = [change.mark]
        refused = await insert_new(db, [document], change.mark)
        change.applied = [] if refused else [effect]
    if refused:
        await db.blobs.remove([document["blob"]])
    await db.collections.types.update_one({"_id": job.jobtype}, {"$pull": {"open": {"first": seq}}})
    if is_held:
        await look_again(db, [HeldJob(job.jobtype, job.id, seq)], now_ms)
    return not refused


async def _take_number(db: Core, job: NewJob, seq: int, now_ms: int) -> str:
    """The id of the job that gets the number; "" if it is there."""
    types = db.collections.types
    while True:
        found = await types.find_one({"_id": job.jobtype}, {"head": 1, "open": 1}) or {}
        head: int = found.get("head", 0)
        if head >= seq:
            notes = [part["job"] for part in found.get("open", ()) if part["first"] == seq and "job" in part]
            return notes[0] if notes else ""
        same = {"_id": job.jobtype, "head": head} if head else {"_id": job.jobtype, "head": {"$in": [0, None]}}
        note = {"first": seq, "at": now_ms, "job": job.id}
        if (await types.update_one(same, {"$set": {"head": seq}, "$push": {"open": note}})).modified_count == 1:
            return job.id
