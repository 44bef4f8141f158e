"""Changes of single jobs by their tenant: update, cancel, replay, delete; the progress of indexed queues."""

from collections.abc import Sequence

from store.checks import check_data, check_priority, check_range, check_text, check_time
from store.errors import Conflict, NotFound
from store.mongo import schema
from store.mongo.core import once, repeatable
from store.mongo.documents import job_state
from store.mongo.driver import Document
from store.mongo.endings import CANCELLED, NEEDED, Step, archive_step, as_read
from store.mongo.tally import Effect
from store.mongo.upkeep import Upkeep
from store.names import MAX_OPTIONS_CHARS, check_batch, check_job_id, check_jobtype, check_tenant
from store.values.jobs import Code, IndexState, JobState


class Desk(Upkeep):
    @once
    async def update_job(
        self,
        tenant: str,
        job_id: str,
        *,
        now_ms: int,
        token: int | None = None,
        data: bytes | None = None,
        repeat: str | None = None,
        priority: int | None = None,
        dt_ms: int | None = None,
    ) -> JobState:
        check_time("now_ms", now_ms)
        if data is not None:
            check_data(data)
        if repeat is not None:
            check_text("repeat", repeat, MAX_OPTIONS_CHARS)
        if priority is not None:
            check_priority(priority)
        if dt_ms is not None:
            check_time("dt_ms", dt_ms)
        while True:
            job = await self._find(tenant, job_id)
            _check_update(job, token, dt_ms)
            if await self.change(job, data=data, repeat=repeat, priority=priority, dt_ms=dt_ms, now_ms=now_ms):
                return job_state(job if dt_ms is None else job | {"at": dt_ms}, now_ms)

    @once
    async def cancel_job(self, tenant: str, job_id: str, *, now_ms: int) -> None:
        check_time("now_ms", now_ms)
        while True:
            job = await self._find(tenant, job_id)
            if job["s"] == schema.ARCHIVED[Code.CANCELLED]:
                return
            if job["s"] == schema.RUNNING or job["s"] in schema.ARCHIVED_STATES:
                what = "is running" if job["s"] == schema.RUNNING else "has ended"
                raise Conflict(f"job {job_id} {what}: only a job that has not started can be cancelled")
            if job["kin"]:
                ended = await self.end_with_relatives(job, CANCELLED, None, owner=None, now_ms=now_ms) is not None
            else:
                ended = bool(await self.apply([archive_step(job, CANCELLED, None, now_ms=now_ms, ran=False)], now_ms))
            if ended:
                await self.blobs.remove([job.get("out", {}).get("blob")])
                return

    @once
    async def replay_jobs(self, tenant: str, job_ids: Sequence[str], *, dt_ms: int, now_ms: int) -> tuple[str, ...]:
        check_time("dt_ms", dt_ms)
        check_time("now_ms", now_ms)
        archived = await self._archived(tenant, job_ids)
        steps = [_replay_step(job, dt_ms, now_ms) for job in archived.values() if "unique" not in job]
        done = await self.apply(steps, now_ms)
        for job in archived.values():  # one by one: two of them may want the same name
            if "unique" in job and await self.name_for_replay(job, now_ms):
                done |= await self.apply([_replay_step(job, dt_ms, now_ms)], now_ms)
        await self.blobs.remove(archived[job_id].get("out", {}).get("blob") for job_id in done)
        return tuple(job_id for job_id in dict.fromkeys(job_ids) if job_id in done)

    @once
    async def delete_jobs(self, tenant: str, job_ids: Sequence[str]) -> int:
        archived = await self._archived(tenant, job_ids)
        return await self.purge(list(archived.values()), 0)

    @repeatable
    async def get_index_state(self, tenant: str, jobtype: str) -> IndexState:
        check_jobtype(tenant, jobtype)
        found = await self.collections.types.find_one({"_id": jobtype}) or {}
        processed: int = found.get("processed", 0)
        after = await self.collections.jobs.find_one({"type": jobtype, "seq": processed + 1}, {"s": 1})
        return IndexState(found.get("head", 0), processed, processed + 1 if _ended_badly(after) else None)

    @once
    async def advance_index(self, tenant: str, jobtype: str, *, skip_failed: bool, limit: int = 1000) -> IndexState:
        check_jobtype(tenant, jobtype)
        check_range("limit", limit, 1, 10_000)
        found = await self.collections.types.find_one({"_id": jobtype}) or {}
        head, processed = found.get("head", 0), found.get("processed", 0)
        # Numbers whose jobs are just being added are not gaps.
        until = min(head, processed + limit, *(part["first"] - 1 for part in found.get("open", ())))
        window = {"type": jobtype, "seq": {"$gt": processed, "$lte": until}}
        blocked_by = None
        for job in await self.collections.jobs.find(window, {"seq": 1, "s": 1}).sort("seq", 1).to_list(None):
            if job["s"] in {*schema.LIVE_STATES, schema.HIDDEN}:
                until = job["seq"] - 1
                break
            if not skip_failed and _ended_badly(job):
                until, blocked_by = job["seq"] - 1, job["seq"]
                break
        if until > processed:
            await self.collections.types.update_one({"_id": jobtype}, {"$max": {"processed": until}})
        return IndexState(head, max(until, processed), blocked_by)

    async def _find(self, tenant: str, job_id: str) -> Document:
        found = await self.collections.jobs.find_one(_of_tenant(tenant, [check_job_id(job_id)]), NEEDED)
        if found is None:
            raise NotFound(f"tenant {tenant} has no job {job_id}")
        return found

    async def _archived(self, tenant: str, job_ids: Sequence[str]) -> dict[str, Document]:
        check_batch("job ids", len(job_ids))
        which = _of_tenant(tenant, job_ids) | {"s": {"$in": list(schema.ARCHIVED_STATES)}}
        rows = await self.collections.jobs.find(which, NEEDED).to_list(None)
        found = {row["_id"]: row for row in rows}
        return {job_id: found[job_id] for job_id in job_ids if job_id in found}


def _of_tenant(tenant: str, job_ids: Sequence[str]) -> Document:
    return {
        "_id": {"$in": list(dict.fromkeys(job_ids))},
        "type": schema.types_of(check_tenant(tenant)),
        "s": {"$in": list(schema.VISIBLE_STATES)},
    }


def _check_update(job: Document, token: int | None, dt_ms: int | None) -> None:
    job_id, running = job["_id"], job["s"] == schema.RUNNING
    if job["s"] in schema.ARCHIVED_STATES:
        raise Conflict(f"job {job_id} is archived: it cannot be changed, only replayed")
    if token is not None and (not running or token != job["token"]):
        raise Conflict(f"job {job_id}: token {token} is not that of its current delivery")
    if dt_ms is not None and running:
        raise Conflict(f"job {job_id} is running: its time cannot be changed now")


def _replay_step(job: Document, dt_ms: int, now_ms: int) -> Step:
    deferred = dt_ms > now_ms
    queued: Document = {"s": schema.QUEUED, "at": dt_ms, "due": dt_ms, "attempts": 0}
    if deferred:
        queued["d"] = True
    update = {"$set": queued, "$unset": {"out.result": "", "out.blob": "", "out.size": ""}}
    effect = Effect(
        job["type"],
        job["_id"],
        live=1,
        deferred=int(deferred),
        size_bytes=-job.get("out", {}).get("size", 0),
    )
    return Step(as_read(job), update, effect)


def _ended_badly(job: Document | None) -> bool:
    return job is not None and job["s"] in schema.ARCHIVED_STATES and job["s"] != schema.ARCHIVED[Code.OK]
