"""Changes of single jobs by their tenant: update, cancel, replay, delete; the progress of indexed queues."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from store.errors import NotFound
from store.mongo.queue.appearing import follow_made
from store.mongo.queue.changes import apply
from store.mongo.queue.create import change_in_place, name_for_replay
from store.mongo.queue.documents import domain_of, job_state, outcome_bytes
from store.mongo.queue.endings import NEEDED, Step, archive_step, as_read, key_of, with_data
from store.mongo.queue.expire import purge_jobs
from store.mongo.queue.relatives import cancels_children, end_with_relatives, live_parents
from store.mongo.queue.turns import make_turns
from store.mongo.queue.window import HeldJob, look_again, windows
from store.mongo.server import schema
from store.mongo.server.blobs import Kept
from store.mongo.server.bulk import update_one, write_each
from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import Document, retried
from store.mongo.server.tally import Effect, entering
from store.refusals import check_cancel, check_family, check_move, check_update
from store.values.job_changes import JobChange
from store.values.jobs import CANCELLED, IndexState
from vocabulary.states import Code, JobState

_LEFT_BEHIND: Final = ("sched.pause", "sched.regular", "sched.ending")
"""By the end of a job: if it runs again, that is forgotten. Its last rounds stay."""


class MongoJobChanges(Core):
    @once
    async def update_job(self, tenant: str, job_id: str, change: JobChange, *, now_ms: int) -> JobState:
        while True:
            job = await _find(self, tenant, job_id)
            delivery = job["token"] if job["s"] == schema.RUNNING else None
            has_ended = job["s"] in schema.ARCHIVED_STATES
            check_update(job_id, change, delivery, repeat=job.get("repeat", ""), has_ended=has_ended)
            after = await change_in_place(self, job, change, now_ms)
            if after is not None:
                return job_state(after, now_ms)

    @once
    async def cancel_job(self, tenant: str, job_id: str, *, now_ms: int, running: bool = False) -> None:
        while True:
            job = await _find(self, tenant, job_id)
            if job["s"] == schema.ARCHIVED[Code.CANCELLED]:
                await follow_made(self, [job_id], now_ms)
                return
            is_running = job["s"] == schema.RUNNING and not running
            check_cancel(job_id, is_running=is_running, has_ended=job["s"] in schema.ARCHIVED_STATES)
            if job["kin"]:
                ended = await end_with_relatives(self, job, CANCELLED, None, owner=None, now_ms=now_ms) is not None
            else:
                ended = bool(await apply(self, [archive_step(job, CANCELLED, None, now_ms=now_ms, ran=False)], now_ms))
            if ended:
                return

    @once
    async def replay_jobs(
        self, tenant: str, job_ids: Sequence[str], *, dt_ms: int, now_ms: int, data: bytes | None = None
    ) -> tuple[str, ...]:
        archived = await _archived(self, tenant, job_ids)
        archived = {job_id: job for job_id, job in archived.items() if not cancels_children(job)}
        kept = {job_id: None if data is None else await self.blobs.put(job_id, data) for job_id in archived}
        released = await windows(self, {job["type"] for job in archived.values()})
        held = {job_id: job for job_id, job in archived.items() if _is_beyond(job, released)}
        waiting = await live_parents(self, archived.values())
        steps = {
            job_id: with_data(_replay_step(job, dt_ms, now_ms, waiting, job_id in held), job, data, kept[job_id])
            for job_id, job in archived.items()
        }
        done = await apply(self, [steps[job_id] for job_id, job in archived.items() if "unique" not in job], now_ms)
        for job_id, job in archived.items():  # one by one: two of them may want the same name
            if "unique" in job and await name_for_replay(self, job, now_ms):
                done |= await apply(self, [steps[job_id]], now_ms)
        await look_again(self, [HeldJob(job["type"], i, job["seq"]) for i, job in held.items() if i in done], now_ms)
        await self.blobs.remove(archived[job_id].get("out", {}).get("blob") for job_id in done)
        if data is not None:
            await self.blobs.remove(job.get("blob") if i in done else kept[i] for i, job in archived.items())
        return tuple(job_id for job_id in dict.fromkeys(job_ids) if job_id in done)

    @once
    async def move_job(
        self,
        tenant: str,
        job_id: str,
        jobtype: str,
        *,
        dt_ms: int,
        now_ms: int,
        data: bytes | None = None,
        token: int | None = None,
    ) -> None:
        kept = None if data is None else await self.blobs.put(job_id, data)
        try:
            while not await _move(self, tenant, job_id, _Move(jobtype, dt_ms, data, kept, token), now_ms):
                pass  # somebody changed it in between: look again
        except BaseException:
            await self.blobs.remove([kept])
            raise

    @once
    async def delete_jobs(self, tenant: str, job_ids: Sequence[str], *, now_ms: int) -> int:
        archived = await _archived(self, tenant, job_ids)
        for job_id in [job_id for job_id, job in archived.items() if "todo" in job]:
            await follow_made(self, [job_id], archived[job_id]["at"])
        return await purge_jobs(self, list(archived.values()), now_ms, keeps_ids=True)

    @repeatable
    async def get_index_state(self, tenant: str, jobtype: str) -> IndexState:
        found = await self.collections.types.find_one({"_id": jobtype}) or {}
        processed: int = found.get("processed", 0)
        after = await self.collections.jobs.find_one({"type": jobtype, "seq": processed + 1}, {"s": 1})
        return IndexState(found.get("head", 0), processed, processed + 1 if _ended_badly(after) else None)


async def _find(db: Core, tenant: str, job_id: str, fields: Document = NEEDED) -> Document:
    found = await db.collections.jobs.find_one(_of_tenant(tenant, [job_id]), fields)
    if found is None:
        raise NotFound(f"tenant {tenant} has no job {job_id}")
    return found


class _Move(NamedTuple):
    """What is to become of a job that moves."""

    jobtype: str
    dt_ms: int
    data: bytes | None
    kept: Kept | None
    token: int | None


async def _move(db: Core, tenant: str, job_id: str, move: _Move, now_ms: int) -> bool:
    """Two types count it, in one change of the ledger."""
    jobtype, dt_ms, data, kept, token = move
    job = await _find(db, tenant, job_id, {**NEEDED, "seq": 1, "dom": 1, "kdom": 1})
    is_archived = job["s"] in schema.ARCHIVED_STATES
    delivery = job["token"] if job["s"] == schema.RUNNING else None
    is_at_rest, is_bound = is_archived or job["s"] == schema.QUEUED, "unique" in job or "seq" in job
    is_consumed = jobtype in await windows(db, {jobtype}, pulled={"$ne": True})
    check_move(job_id, token, delivery, is_at_rest=is_at_rest, is_bound=is_bound, is_consumed=is_consumed)
    check_family(job_id, is_being_cancelled=cancels_children(job))
    if job.get("key"):
        await make_turns(db, [(jobtype, job["key"])])
    if domain_of(job):
        await db.collections.types.update_one({"_id": jobtype}, {"$set": {"domains": True}}, upsert=True)
    waiting = await live_parents(db, [job] if is_archived else [])
    step = with_data(_replay_step(job, dt_ms, now_ms, waiting), job, data, kept)
    step.update["$set"]["type"] = jobtype
    step.update["$unset"]["lock"] = ""
    if not step.update["$set"].get("d"):
        step.update["$unset"]["d"] = ""
    out = job.get("out", {})
    if not is_archived:  # what its last run left says why it is tried again
        step.update["$unset"] = {name: "" for name in step.update["$unset"] if "." not in name}
    before_bytes = job["size"] + outcome_bytes(job)
    after_bytes = before_bytes - (out.get("size", 0) if is_archived else 0)
    after_bytes += 0 if data is None else len(data) - job["size"]
    old = Effect(
        job["type"],
        job_id,
        live=0 if is_archived else -1,
        deferred=-int(job.get("d", False)),
        jobs=-1,
        size_bytes=-before_bytes,
        key=key_of(job),
    )
    new = Effect(jobtype, job_id, live=1, deferred=int(dt_ms > now_ms), jobs=1, size_bytes=after_bytes, key=key_of(job))
    new = entering(new, job)
    async with db.ledger.change([old, new], now_ms) as change:
        request = update_one(step.condition, {**step.update, "$push": change.stamp})
        done = await retried(lambda: write_each(db.collections.jobs, [request]))
        is_done = bool(done.matched) or bool(await db.ledger.marked([job_id], change.mark))
        change.applied = [old, new] if is_done else []
    if is_done:
        gone = [out.get("blob") if is_archived else None, job.get("blob") if data is not None else None]
        await db.blobs.remove(gone)
    return is_done


async def _archived(db: Core, tenant: str, job_ids: Sequence[str]) -> dict[str, Document]:
    which = _of_tenant(tenant, job_ids) | {"s": {"$in": list(schema.ARCHIVED_STATES)}}
    rows = await db.collections.jobs.find(which, {**NEEDED, "seq": 1}).to_list(None)
    found = {row["_id"]: row for row in rows}
    return {job_id: found[job_id] for job_id in job_ids if job_id in found}


def _of_tenant(tenant: str, job_ids: Sequence[str]) -> Document:
    return {
        "_id": {"$in": list(dict.fromkeys(job_ids))},
        "type": schema.types_of(tenant),
        "s": {"$in": list(schema.VISIBLE_STATES)},
    }


def _is_beyond(job: Document, released: Mapping[str, int]) -> bool:
    """Whether the window over its type has not come to its number. That of a child does not matter."""
    return "seq" in job and not job.get("parent") and job["seq"] > released.get(job["type"], job["seq"])


def _replay_step(job: Document, dt_ms: int, now_ms: int, parents: Collection[str], is_held: bool = False) -> Step:
    """parents: those that are not over, and wait for their child once more."""
    deferred = dt_ms > now_ms and not is_held
    queued: Document = {"s": schema.HELD if is_held else schema.QUEUED, "at": dt_ms, "due": dt_ms, "attempts": 0}
    if deferred:
        queued["d"] = True
    if job.get("parent") in parents:
        queued["pend"] = True
    update = {
        "$set": queued,
        "$unset": dict.fromkeys(("begun", "planned", "out.result", "out.blob", "out.size", *_LEFT_BEHIND), ""),
        "$inc": {"replays": 1},
    }
    effect = Effect(
        job["type"],
        job["_id"],
        live=1,
        deferred=int(deferred),
        blocked=int(is_held),
        size_bytes=-job.get("out", {}).get("size", 0),
        key=key_of(job),
    )
    return Step(as_read(job), update, effect if is_held else entering(effect, job))


def _ended_badly(job: Document | None) -> bool:
    return job is not None and job["s"] in schema.ARCHIVED_STATES and job["s"] != schema.ARCHIVED[Code.OK]
