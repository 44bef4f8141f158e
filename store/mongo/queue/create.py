"""Creating one job that may have a unique name or a parent, and changing one in place.

The job is inserted hidden, takes its name and its place with its parent, and then appears, in one write of
its own: until then it is nobody's, and a crash leaves a hidden document that expire_locks removes.

A unique name is one document that says which job has it. The name is taken while that job is live. Whoever
wants it takes it over by compare and swap, so of two creators one gets it and the other finds that job.
"""

import secrets
from collections.abc import Sequence
from math import inf
from typing import Final

from pymongo.errors import DuplicateKeyError

from store.errors import Conflict, NotFound, StoreCorrupt, StoreUnavailable
from store.mongo.queue.add import add_effect, insert_jobs, note_domains
from store.mongo.queue.changes import apply
from store.mongo.queue.documents import data_fields, job_document, job_state, kept_data
from store.mongo.queue.endings import NEEDED, Step, as_read, key_of
from store.mongo.queue.old_names import name_key
from store.mongo.queue.relatives import (
    HOLD,
    follow,
    join_parent,
    leave_parent,
    new_join,
    wake_parent,
)
from store.mongo.queue.schedules import placed
from store.mongo.queue.seqs import close_seqs, give_seqs, is_beyond, numbered_types
from store.mongo.queue.turns import note_turns
from store.mongo.queue.window import HeldJob, look_again
from store.mongo.server import schema
from store.mongo.server.blobs import kept_by
from store.mongo.server.core import Core, once
from store.mongo.server.driver import Document
from store.mongo.server.tally import Effect, entering
from store.refusals import check_holder
from store.values.again import says_it_again, takes_time
from store.values.job_changes import JobChange, Timing
from store.values.jobs import CreateReport, Creation, NewJob
from store.values.schedules import schedule_from
from vocabulary.names import tenant_of
from vocabulary.states import JobState

ATTEMPTS: Final = 20


class MongoCreate(Core):
    @once
    async def create_jobs(self, creations: Sequence[Creation], *, now_ms: int) -> list[CreateReport]:
        if len(creations) > 1:  # one is checked as it is created
            for job, keeps in creations:
                await check_creation(self, job, now_ms, keeps)
        return [await _create_one(self, job, keeps, now_ms) for job, keeps in creations]


async def _create_one(db: Core, job: NewJob, keeps: frozenset[str], now_ms: int) -> CreateReport:
    for _ in range(ATTEMPTS):
        report = await _create(db, job, keeps, now_ms)
        if report is not None:
            return report
    raise StoreUnavailable(f"create_jobs {job.id}: others keep changing the same name or parent; try again")


async def check_creation(db: Core, job: NewJob, now_ms: int, keeps: frozenset[str]) -> None:
    """Raise what `_create` would."""
    taken = [*schema.VISIBLE_STATES, schema.DELETED]
    if await db.collections.jobs.find_one({"_id": job.id, "s": {"$in": taken}}, {"_id": 1}):
        return
    if job.unique:
        holder = await find_holder(db, await find_name(db, job.jobtype, job.unique), now_ms)
        if holder is not None:
            await _check_holder(db, holder, job, keeps, now_ms)
            return
    if job.parent:
        await _check_parent(db, job)


async def _check_holder(db: Core, holder: Document, job: NewJob, keeps: frozenset[str], now_ms: int) -> bool:
    """Whether it is running. Raises Conflict."""
    is_running = bool(holder["s"] == schema.RUNNING)
    is_same = is_running and await _says_it_again(db, holder, job, keeps)
    is_busy, is_ending = is_running and not is_same, schedule_from(holder.get("sched")).ending_ms > now_ms
    check_holder(job, holder["_id"], holder.get("parent", ""), is_running=is_busy, is_ending=is_ending)
    return is_running


async def _says_it_again(db: Core, holder: Document, job: NewJob, keeps: frozenset[str]) -> bool:
    found = await db.collections.jobs.find_one({"_id": holder["_id"]}, {"prio": 1, "data": 1, "blob": 1})
    if found is None or not job.repeat:
        return False
    try:
        data = await db.blobs.get(kept_data(found))
    except StoreCorrupt:  # its run has ended meanwhile, and carried other data on
        return False
    return says_it_again(job, keeps, str(holder.get("repeat", "")), int(found["prio"]), data)


async def _create(db: Core, job: NewJob, keeps: frozenset[str], now_ms: int) -> CreateReport | None:
    """None: somebody else was quicker somewhere, look again."""
    older = await db.collections.jobs.find_one({"_id": job.id}, NEEDED)
    if older is not None:
        if older["s"] in {*schema.VISIBLE_STATES, schema.DELETED}:
            state = JobState.ARCHIVED if older["s"] == schema.DELETED else job_state(older, now_ms)
            return CreateReport(job.id, created=False, state=state)
        await drop_hidden(db, older, now_ms)
    if not job.unique and not job.parent:
        return await _insert_plain(db, job, now_ms)
    name = await find_name(db, job.jobtype, job.unique) if job.unique else None
    if name is not None:
        holder = await find_holder(db, name, now_ms)
        if holder is not None:
            return await change_holder(db, holder, job, keeps, now_ms)
    if job.parent:
        await _check_parent(db, job)
    hidden = await _insert_hidden(db, job, now_ms)
    if hidden is None:
        return None
    if job.unique and not await take_name(db, job.jobtype, job.unique, name, job.id):
        await drop_hidden(db, hidden, now_ms)
        return None
    return await _appear(db, job, hidden, now_ms)


async def _insert_plain(db: Core, job: NewJob, now_ms: int) -> CreateReport | None:
    if not await insert_jobs(db, [job], now_ms):
        return None
    document = await db.collections.jobs.find_one({"_id": job.id}, {"s": 1, "at": 1})
    state = job_state(document or {"s": schema.QUEUED, "at": job.dt_ms}, now_ms)
    return CreateReport(job.id, created=True, state=state)


async def _insert_hidden(db: Core, job: NewJob, now_ms: int) -> Document | None:
    """None: one with its id is there."""
    await note_domains(db, [job])
    await note_turns(db, [job])
    seqs = await give_seqs(db, [job], await numbered_types(db, [job]), now_ms)
    data = await db.blobs.put(job.id, job.data)
    document = job_document(job, data, state=schema.HIDDEN, deferred=False, seq=seqs.by_id.get(job.id))
    document |= {"at": now_ms} | ({"join": new_join()} if job.parent else {})
    try:
        await db.collections.jobs.insert_one(document)
    except DuplicateKeyError:
        await db.blobs.remove([data])
        return None
    finally:
        await close_seqs(db, seqs)
    return document


async def _appear(db: Core, job: NewJob, hidden: Document, now_ms: int) -> CreateReport | None:
    """Join the parent, if there is one, and become visible in the state that follows from it."""
    beyond = None if job.parent else await _find_beyond_window(db, job)
    held = beyond is not None
    if job.parent:
        runs = await join_parent(db, job.parent, hidden["join"])
        if runs is None:
            await drop_hidden(db, hidden, now_ms)
            return None  # the next look says what is wrong with it
        held = runs
    deferred = not held and job.dt_ms > now_ms
    shown: Document = {"s": schema.HELD if held else schema.QUEUED, "at": job.dt_ms}
    shown |= ({"todo": [HOLD]} if job.parent else {}) | ({"d": True} if deferred else {})
    effect = add_effect(job, now_ms)._replace(deferred=int(deferred), blocked=int(held))
    if not await apply(db, [Step(as_hidden(hidden), {"$set": shown}, effect)], now_ms):
        if job.parent:
            await leave_parent(db, job.parent, hidden["join"])
        return None
    if job.parent:
        await follow(db, job.id, now_ms)  # the parent may have ended in the meantime
    if beyond is not None:
        await look_again(db, [beyond], now_ms)
    return CreateReport(job.id, created=True, state=job_state(shown, now_ms))


async def _find_beyond_window(db: Core, job: NewJob) -> HeldJob | None:
    """The job with its number, if a consumer holds it."""
    released = (await numbered_types(db, [job])).get(job.jobtype)
    if released is None:
        return None
    hidden = await db.collections.jobs.find_one({"_id": job.id}, {"seq": 1}) or {}
    seq: int = hidden.get("seq", 0)  # without one it is behind any window
    return HeldJob(job.jobtype, job.id, seq) if is_beyond(released, job, seq) else None


async def _check_parent(db: Core, job: NewJob) -> None:
    tenant = tenant_of(job.jobtype)
    parent = await db.collections.jobs.find_one(
        {"_id": job.parent, "s": {"$in": list(schema.VISIBLE_STATES)}, "type": schema.types_of(tenant)},
        {"s": 1},
    )
    if parent is None:
        raise NotFound(f"job {job.parent}, named as the parent of {job.id}, does not exist")
    if parent["s"] not in {schema.RUNNING, schema.PAUSED, schema.HELD}:
        raise Conflict(f"job {job.parent} is neither running nor paused: it cannot get a child now")


async def find_name(db: Core, jobtype: str, unique: str) -> Document:
    found = await db.collections.names.find_one({"_id": name_key(jobtype, unique)})
    return found or {"job": None, "version": 0}


async def find_holder(db: Core, name: Document, now_ms: int) -> Document | None:
    """The live job that has the name."""
    if name["job"] is None:
        return None
    holder = await db.collections.jobs.find_one({"_id": name["job"]}, NEEDED)
    if holder is None or holder["s"] in schema.LIVE_STATES:
        return holder
    if holder["s"] == schema.HIDDEN:
        await drop_hidden(db, holder, now_ms)  # its creator looks again, and finds ours
    return None


async def take_name(db: Core, jobtype: str, unique: str, name: Document | None, job_id: str) -> bool:
    """Give the name to a job, if it is with whom it was when it was read, and that one has ended."""
    key = name_key(jobtype, unique)
    if name is None or name["job"] is None:
        # A number that it did not have: one that was removed and made anew is another one.
        fresh = {"_id": key, "type": jobtype, "job": job_id, "version": secrets.randbits(52)}
        try:
            await db.collections.names.insert_one(fresh)
        except DuplicateKeyError:
            return False
        return True
    if name["job"] != job_id and not await _keep_ended(db, name["job"]):
        return False
    return await _pass_name(db, key, name, job_id)


async def _pass_name(db: Core, key: str, name: Document, job_id: str) -> bool:
    done = await db.collections.names.update_one(
        {"_id": key, "version": name["version"]}, {"$set": {"job": job_id}, "$inc": {"version": 1}}
    )
    return done.modified_count == 1


async def _keep_ended(db: Core, job_id: str) -> bool:
    """A replay of that job that has begun finds it changed, and leaves it. False: it lives again already."""
    ended = {"_id": job_id, "s": {"$nin": list(schema.LIVE_STATES)}}
    fenced = await db.collections.jobs.update_one(ended, {"$inc": {"rev": 1}})
    return bool(fenced.matched_count) or await db.collections.jobs.find_one({"_id": job_id}, {"_id": 1}) is None


async def name_for_replay(db: Core, document: Document, now_ms: int) -> bool:
    """Whether the job may have its unique name again; takes it if so. One that a window holds behind it loses the name:
    it could never start, and so never give it back."""
    name = await find_name(db, document["type"], document["unique"])
    holder = await find_holder(db, name, now_ms)
    if holder is None:
        return await take_name(db, document["type"], document["unique"], name, document["_id"])
    behind = {"s": schema.HELD, "parent": None, "seq": {"$gt": document.get("seq", inf)}}
    changed = {"$unset": {"unique": ""}, "$inc": {"rev": 1}}
    nameless = await db.collections.jobs.update_one({"_id": holder["_id"], **behind}, changed)
    key = name_key(document["type"], document["unique"])
    return bool(nameless.matched_count) and await _pass_name(db, key, name, document["_id"])


async def change_holder(
    db: Core, holder: Document, job: NewJob, keeps: frozenset[str], now_ms: int
) -> CreateReport | None:
    if await _check_holder(db, holder, job, keeps, now_ms):
        return CreateReport(holder["_id"], created=False, state=job_state(holder, now_ms))
    takes = takes_time(job, holder.get("repeat", ""), keeps)
    change = JobChange(
        data=None if "data" in keeps else job.data,
        dt_ms=job.dt_ms if takes else None,
        timing=Timing.ANEW if takes else Timing.MOVED,
        repeat=None if "repeat" in keeps else job.repeat,
        priority=None if "priority" in keeps else job.priority,
    )
    after = await change_in_place(db, holder, change, now_ms)
    if after is None:
        return None
    return CreateReport(holder["_id"], created=False, state=job_state(after, now_ms))


async def change_in_place(db: Core, document: Document, change: JobChange, now_ms: int) -> Document | None:
    """Change what is given of a live job, if it is as it was read. Returns where it stands then."""
    fields, dropped, deferred, blocked = placed(document, change, now_ms)
    size_bytes = 0
    if change.data is not None:
        fields |= data_fields(await db.blobs.put(document["_id"], change.data), change.data)
        size_bytes = len(change.data) - document["size"]
    if change.repeat or (change.repeat is not None and "repeat" in document):
        fields["repeat"] = change.repeat
    if change.priority is not None:
        fields["prio"] = change.priority
    update = {"$set": fields, "$unset": dropped, "$inc": {"rev": 1}}
    effect = Effect(
        document["type"],
        document["_id"],
        deferred=deferred,
        blocked=blocked,
        size_bytes=size_bytes,
        key=key_of(document),
    )
    after = document | fields
    if after["s"] == schema.QUEUED:
        effect = entering(effect, after)
    step = Step(as_read(document), {key: value for key, value in update.items() if value}, effect)
    applied = bool(await apply(db, [step], now_ms))
    if change.data is not None:
        await db.blobs.remove([document.get("blob") if applied else fields["blob"]])
    return after if applied else None


def as_hidden(document: Document) -> Document:
    """The condition that a job is as it was hidden, and that nobody has begun to remove it."""
    child = {"pend": True, "join": document.get("join")} if document.get("parent") else {}
    return {"_id": document["_id"], "s": schema.HIDDEN, **child}


async def drop_hidden(db: Core, document: Document, now_ms: int) -> None:
    """Remove a document that is not, or no longer, there for readers; what waited for it goes on. Of one that is
    removed by halves expire_locks does the rest."""
    which: Document = {"_id": document["_id"], "s": document["s"]}
    if document["s"] == schema.HIDDEN and document.get("parent"):
        which["join"] = document.get("join")
        if not (await db.collections.jobs.update_one(which, {"$set": {"pend": False}})).matched_count:
            return
        if "join" in document:
            await leave_parent(db, document["parent"], document["join"])
        await wake_parent(db, document["parent"], now_ms)
    if (await db.collections.jobs.delete_one(which)).deleted_count:
        await db.blobs.remove(kept_by(document))
