"""Creating one job that may have a unique name or a parent, and changing one in place.

The job is inserted hidden, takes its name and its place with its parent, and then appears, in one write of
its own: until then it is nobody's, and a crash leaves a hidden document that expire_locks removes.

A unique name is one document that says which job has it. The name is taken while that job is live. Whoever
wants it takes it over by compare and swap, so of two creators one gets it and the other finds that job.
"""

from typing import Final

from pymongo.errors import DuplicateKeyError

from store.checks import check_new_job, check_time
from store.errors import Conflict, NotFound, StoreUnavailable
from store.mongo import schema
from store.mongo.adding import Adding, add_effect
from store.mongo.blobs import kept_by
from store.mongo.core import once
from store.mongo.documents import data_fields, job_document, job_state
from store.mongo.driver import Document, find_and_update
from store.mongo.endings import NEEDED, Step, as_read
from store.mongo.relatives import HOLD, Relatives
from store.mongo.tally import Effect
from store.names import tenant_of
from store.values.jobs import CreateReport, NewJob

ATTEMPTS: Final = 20


class Creating(Adding, Relatives):
    @once
    async def create_job(self, job: NewJob, *, now_ms: int) -> CreateReport:
        check_new_job(job)
        check_time("now_ms", now_ms)
        for _ in range(ATTEMPTS):
            report = await self._create(job, now_ms)
            if report is not None:
                return report
        raise StoreUnavailable(f"create_job {job.id}: others keep changing the same name or parent; try again")

    async def _create(self, job: NewJob, now_ms: int) -> CreateReport | None:
        """None: somebody else was quicker somewhere, look again."""
        older = await self.collections.jobs.find_one({"_id": job.id}, NEEDED)
        if older is not None:
            if older["s"] in schema.VISIBLE_STATES:
                return CreateReport(job.id, created=False, state=job_state(older, now_ms))
            await self.drop_hidden(older, now_ms)
        if not job.unique and not job.parent:
            return await self._insert_plain(job, now_ms)
        name = await self._name(job.jobtype, job.unique) if job.unique else None
        if name is not None:
            holder = await self._holder(name, now_ms)
            if holder is not None:
                return await self._change_holder(holder, job, now_ms)
        if job.parent:
            await self._check_parent(job)
        if not await self._insert_hidden(job, now_ms):
            return None
        if job.unique and not await self.take_name(job.jobtype, job.unique, name, job.id):
            await self._give_up(job.id, now_ms)
            return None
        return await self._appear(job, now_ms)

    async def _insert_plain(self, job: NewJob, now_ms: int) -> CreateReport | None:
        if not await self.insert_jobs([job], now_ms):
            return None
        state = job_state({"s": schema.QUEUED, "at": job.dt_ms}, now_ms)
        return CreateReport(job.id, created=True, state=state)

    async def _insert_hidden(self, job: NewJob, now_ms: int) -> bool:
        await self.note_domains([job])
        seqs = await self.give_seqs([job], now_ms)
        data = await self.blobs.put(job.id, job.data)
        document = job_document(job, data, state=schema.HIDDEN, deferred=False, seq=seqs.get(job.id))
        document["at"] = now_ms
        try:
            await self.collections.jobs.insert_one(document)
        except DuplicateKeyError:
            await self.blobs.remove([data])
            return False
        finally:
            await self.close_seqs([job], seqs)
        return True

    async def _appear(self, job: NewJob, now_ms: int) -> CreateReport | None:
        """Join the parent, if there is one, and become visible in the state that follows from it."""
        held = False
        if job.parent:
            parent = await find_and_update(
                self.collections.jobs,
                {"_id": job.parent, "s": {"$in": [schema.RUNNING, schema.PAUSED, schema.HELD]}},
                {"$inc": {"kids": 1}, "$set": {"kin": True}},
                fields={"s": 1},
            )
            if parent is None:
                await self._give_up(job.id, now_ms)
                return None  # the next look says what is wrong with it
            held = parent["s"] == schema.RUNNING
        deferred = not held and job.dt_ms > now_ms
        shown: Document = {"s": schema.HELD if held else schema.QUEUED, "at": job.dt_ms}
        shown |= ({"todo": [HOLD]} if held else {}) | ({"d": True} if deferred else {})
        effect = add_effect(job, now_ms)._replace(deferred=int(deferred), blocked=int(held))
        step = Step({"_id": job.id, "s": schema.HIDDEN}, {"$set": shown}, effect)
        if not await self.apply([step], now_ms):
            return None
        if held:
            await self.follow(job.id, now_ms)  # the parent may have ended in the meantime
        return CreateReport(job.id, created=True, state=job_state(shown, now_ms))

    async def _check_parent(self, job: NewJob) -> None:
        tenant = tenant_of(job.jobtype)
        parent = await self.collections.jobs.find_one(
            {"_id": job.parent, "s": {"$in": list(schema.VISIBLE_STATES)}, "type": schema.types_of(tenant)},
            {"s": 1},
        )
        if parent is None:
            raise NotFound(f"job {job.parent}, named as the parent of {job.id}, does not exist")
        if parent["s"] not in {schema.RUNNING, schema.PAUSED, schema.HELD}:
            raise Conflict(f"job {job.parent} is neither running nor paused: it cannot get a child now")

    # --- unique names -----------------------------------------------------------------------------------

    async def _name(self, jobtype: str, unique: str) -> Document:
        found = await self.collections.names.find_one({"_id": _name_key(jobtype, unique)})
        return found or {"job": None, "version": 0}

    async def _holder(self, name: Document, now_ms: int) -> Document | None:
        """The live job that has the name."""
        if name["job"] is None:
            return None
        holder = await self.collections.jobs.find_one({"_id": name["job"]}, NEEDED)
        if holder is None or holder["s"] in schema.LIVE_STATES:
            return holder
        if holder["s"] == schema.HIDDEN:
            await self.drop_hidden(holder, now_ms)  # its creator looks again, and finds ours
        return None

    async def take_name(self, jobtype: str, unique: str, name: Document | None, job_id: str) -> bool:
        """Give the name to a job, if it is with whom it was when it was read."""
        key = _name_key(jobtype, unique)
        if name is None or name["job"] is None:
            fresh = {"_id": key, "type": jobtype, "job": job_id, "version": 1}
            try:
                await self.collections.names.insert_one(fresh)
            except DuplicateKeyError:
                return False
            return True
        done = await self.collections.names.update_one(
            {"_id": key, "version": name["version"]}, {"$set": {"job": job_id}, "$inc": {"version": 1}}
        )
        return done.modified_count == 1

    async def name_for_replay(self, document: Document, now_ms: int) -> bool:
        """Whether the job may have its unique name again; takes it if so."""
        name = await self._name(document["type"], document["unique"])
        if await self._holder(name, now_ms) is not None:
            return False
        return await self.take_name(document["type"], document["unique"], name, document["_id"])

    async def _change_holder(self, holder: Document, job: NewJob, now_ms: int) -> CreateReport | None:
        changed = await self.change(
            holder, data=job.data, repeat=job.repeat, priority=job.priority, dt_ms=None, now_ms=now_ms
        )
        if not changed:
            return None
        return CreateReport(holder["_id"], created=False, state=job_state(holder, now_ms))

    # --- in place ---------------------------------------------------------------------------------------

    async def change(
        self,
        document: Document,
        *,
        data: bytes | None,
        repeat: str | None,
        priority: int | None,
        dt_ms: int | None,
        now_ms: int,
    ) -> bool:
        """Change what is given of a live job, if it is as it was read."""
        fields: Document = {}
        dropped: Document = {}
        size_bytes = deferred = 0
        if data is not None:
            fields |= data_fields(await self.blobs.put(document["_id"], data), len(data))
            size_bytes = len(data) - document["size"]
        if repeat is not None:
            (fields if repeat else dropped)["repeat"] = repeat
        if priority is not None:
            fields["prio"] = priority
        if dt_ms is not None:
            fields |= {"at": dt_ms, "due": dt_ms}
            if document["s"] == schema.QUEUED:
                later = dt_ms > now_ms
                (fields if later else dropped)["d"] = True
                deferred = int(later) - int(document.get("d", False))
        update = {"$set": fields, "$unset": dropped, "$inc": {"rev": 1}}
        effect = Effect(document["type"], document["_id"], deferred=deferred, size_bytes=size_bytes)
        step = Step(as_read(document), {key: value for key, value in update.items() if value}, effect)
        applied = bool(await self.apply([step], now_ms))
        if data is not None:
            await self.blobs.remove([document.get("blob") if applied else fields["blob"]])
        return applied

    # --- what is hidden ---------------------------------------------------------------------------------

    async def drop_hidden(self, document: Document, now_ms: int) -> None:
        """Remove a document that is not, or no longer, there for readers; what waited for it goes on."""
        gone = await self.collections.jobs.delete_one(
            {"_id": document["_id"], "s": {"$in": [schema.HIDDEN, schema.PURGED]}}
        )
        if gone.deleted_count:
            await self.blobs.remove(kept_by(document))
            if document.get("pend"):
                await self.wake_parent(document["parent"], now_ms)

    async def _give_up(self, job_id: str, now_ms: int) -> None:
        document = await self.collections.jobs.find_one({"_id": job_id}, NEEDED)
        if document is not None:
            await self.drop_hidden(document, now_ms)


def _name_key(jobtype: str, unique: str) -> str:
    return f"{jobtype}|{unique}"
