"""The end of a run that made new jobs, without a transaction.

The jobs are inserted hidden, and each notes in `by` whose delivery made it. The write that ends this delivery notes
`make.<token>` in its `todo`; the hidden jobs appear only after it. So an end that is not recorded leaves nothing that a
reader or a claim could find, and expire_locks removes it. Children of the job that ends are counted in the write that
ends it: hidden or not, it waits for them.
"""

from collections.abc import Sequence
from typing import Final

from pymongo.errors import DuplicateKeyError

from store.errors import Conflict
from store.mongo.queue.add import add_effect, note_domains
from store.mongo.queue.changes import apply
from store.mongo.queue.create import change_holder, check_creation, drop_hidden, find_holder, find_name, take_name
from store.mongo.queue.documents import job_document, job_from, kept_data
from store.mongo.queue.endings import MAKE, NEEDED, Step, held_by, makings, queue_again_step
from store.mongo.queue.relatives import (
    Budget,
    Carried,
    Made,
    end_with_relatives,
    follow,
    rearm_with_children,
    with_made,
)
from store.mongo.queue.release import MongoRelease, drop_bytes, keep_bytes, read_held
from store.mongo.queue.seqs import close_seqs, give_seqs, is_beyond, numbered_types
from store.mongo.queue.turns import note_turns
from store.mongo.queue.window import HeldJob, look_again
from store.mongo.server import schema
from store.mongo.server.core import Core, once
from store.mongo.server.driver import Document, find_and_update
from store.values.jobs import Archive, Creation, EndOfRun, Finish, NewJob, Rearm, ReleaseReport

_ATTEMPTS: Final = 20


class MongoMaking(MongoRelease):
    @once
    async def release_with_jobs(
        self, owner: str, release: EndOfRun, new_jobs: Sequence[Creation], *, now_ms: int
    ) -> ReleaseReport:
        stale = ReleaseReport(0, (release.id,), ())
        held = await read_held(self, owner, {release.id: release.token})
        if not held:
            return stale
        for job, keeps in new_jobs:
            await check_creation(self, job, now_ms, keeps)
        maker = _maker(release.id, release.token)
        inserted = [await _insert_hidden(self, creation, maker, now_ms) for creation in new_jobs]
        hidden = [document for document in inserted if document is not None]
        made = Made(release.token, [document.get("parent") for document in hidden].count(release.id))
        ended = await _end(self, owner, release, held[release.id], made, now_ms)
        if ended is None:
            for document in hidden:
                await drop_hidden(self, document, now_ms)
            return stale
        await follow_made(self, release.id, now_ms)
        return ReleaseReport(1, (), (release.id,) if ended["s"] == schema.PAUSED else ())


async def _end(db: Core, owner: str, release: EndOfRun, document: Document, made: Made, now_ms: int) -> Document | None:
    """The document as it was when it ended, with its new state; None if it is not the owner's any more."""
    ending = await keep_bytes(db, release, document)
    ended: Document | None
    if isinstance(release, Archive | Finish):
        carried = Carried(release.data, ending.data) if isinstance(release, Finish) else None
        ended = await end_with_relatives(
            db, document, release.outcome, ending.result, owner=owner, now_ms=now_ms, made=made, carried=carried
        )
    elif isinstance(release, Rearm):
        ended = await rearm_with_children(
            db, document, release, ending.result, ending.data, owner=owner, now_ms=now_ms, made=made
        )
    else:
        step = queue_again_step(document, release, ending.result, ending.data, held_by(document, owner), owner, now_ms)
        is_done = bool(await apply(db, [with_made(step, document, made)], now_ms))
        ended = {**document, "s": schema.QUEUED} if is_done else None
    is_paused = ended is not None and ended["s"] == schema.PAUSED
    await drop_bytes(db, ending, applied=ended is not None, is_paused=is_paused)
    return ended


async def _insert_hidden(db: Core, creation: Creation, maker: str, now_ms: int) -> Document | None:
    """None if there is a job with this id, which stays as it is."""
    job = creation.job
    await note_domains(db, [job])
    await note_turns(db, [job])
    data = await db.blobs.put(job.id, job.data)
    document = job_document(job, data, state=schema.HIDDEN, deferred=False, seq=None)
    document |= {"at": now_ms, "by": maker, "keeps": sorted(creation.keeps)}
    try:
        await db.collections.jobs.insert_one(document)
    except DuplicateKeyError:  # this call was made before, and came as far as here
        await db.blobs.remove([data])
        return await db.collections.jobs.find_one({"_id": job.id, "s": schema.HIDDEN, "by": maker}, NEEDED)
    return document


async def follow_made(db: Core, job_id: str, now_ms: int, budget: Budget | None = None) -> None:
    """As `follow`, for a job that may have made others: those come first. Idempotent."""
    ended = await db.collections.jobs.find_one({"_id": job_id, "todo": {"$exists": True}}, {"todo": 1})
    for mark in makings(ended or {}):
        await _show_made(db, job_id, mark, now_ms)
        await db.collections.jobs.update_one({"_id": job_id}, {"$pull": {"todo": mark}})
    if ended is not None:
        await follow(db, job_id, now_ms, budget)


async def _show_made(db: Core, maker_id: str, mark: str, now_ms: int) -> None:
    """Have the jobs appear that a recorded delivery made. Those that have are not hidden any more."""
    by = _maker(maker_id, int(mark.removeprefix(MAKE)))
    rows = db.collections.jobs.find({"s": schema.HIDDEN, "by": by}, hint=schema.UPKEEP).sort("_id", 1)
    for document in await rows.to_list(None):
        if not await _show(db, document, maker_id, now_ms):
            await drop_hidden(db, document, now_ms)


async def is_waiting_to_appear(db: Core, document: Document) -> bool:
    """Whether a hidden job was made by a delivery whose end is recorded: then it is not a trace of a crash."""
    by = document.get("by")
    if by is None:
        return False
    maker_id, _, token = by.rpartition(".")
    return await db.collections.jobs.find_one({"_id": maker_id, "todo": f"{MAKE}{token}"}, {"_id": 1}) is not None


async def _show(db: Core, document: Document, maker_id: str, now_ms: int) -> bool:
    """False: it has no place any more. A job with a unique name that is taken changes the one that has it."""
    job = _new_job(document, await db.blobs.get(kept_data(document)))
    if job.unique and not await _take_name(db, job, frozenset(document["keeps"]), now_ms):
        return False
    held = job.parent == maker_id
    if job.parent and not held:
        live = {"_id": job.parent, "s": {"$in": [schema.RUNNING, schema.PAUSED, schema.HELD]}}
        counted: Document = {"$inc": {"kids": 1}, "$set": {"kin": True}}
        parent = await find_and_update(db.collections.jobs, live, counted, fields={"s": 1})
        if parent is None:
            return False
        held = parent["s"] == schema.RUNNING
    beyond = await _number(db, document, job, now_ms)  # also a child, which no window holds
    held = held or beyond is not None
    deferred = not held and job.dt_ms > now_ms
    shown: Document = {"s": schema.HELD if held else schema.QUEUED, "at": job.dt_ms}
    shown |= {"d": True} if deferred else {}
    effect = add_effect(job, now_ms)._replace(deferred=int(deferred), blocked=int(held))
    update = {"$set": shown, "$unset": {"by": "", "keeps": ""}}
    is_shown = await apply(db, [Step({"_id": job.id, "s": schema.HIDDEN}, update, effect)], now_ms)
    if not is_shown and job.unique:  # another job got the name first, and removed this one
        await _take_name(db, job, frozenset(document["keeps"]), now_ms)
    if beyond is not None:
        await look_again(db, [beyond], now_ms)
    return True


async def _number(db: Core, document: Document, job: NewJob, now_ms: int) -> HeldJob | None:
    """Give it the next number of its type if that has a consumer. Returns the job if the consumer holds it."""
    numbered = await numbered_types(db, [job])
    if not numbered:
        return None
    seq: int | None = document.get("seq")
    if seq is None:
        seqs = await give_seqs(db, [job], numbered, now_ms, are_stored=True)
        seq = seqs.by_id[job.id]
        await db.collections.jobs.update_one({"_id": job.id, "s": schema.HIDDEN}, {"$set": {"seq": seq}})
        await close_seqs(db, seqs)
    return HeldJob(job.jobtype, job.id, seq) if is_beyond(numbered.get(job.jobtype), job, seq) else None


async def _take_name(db: Core, job: NewJob, keeps: frozenset[str], now_ms: int) -> bool:
    for _ in range(_ATTEMPTS):
        name = await find_name(db, job.jobtype, job.unique)
        if name["job"] == job.id:
            return True
        holder = await find_holder(db, name, now_ms)
        if holder is None:
            if await take_name(db, job.jobtype, job.unique, name, job.id):
                return True
            continue
        try:
            if await change_holder(db, holder, job, keeps, now_ms) is not None:
                return False
        except Conflict:  # it has begun to run since it was looked at
            return False
    return False


def _new_job(document: Document, data: bytes) -> NewJob:
    job = job_from(document, data)
    return NewJob(
        job.id, job.jobtype, data, job.due_ms, job.create_ms, job.priority, job.domain, job.options,
        job.retry_after_ms, False, job.repeat, job.unique, job.parent, job.key,
    )  # fmt: skip


def _maker(job_id: str, token: int) -> str:
    return f"{job_id}.{token}"
