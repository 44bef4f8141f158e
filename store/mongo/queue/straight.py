"""Jobs that were started before the store had them: they enter as running, or with their end.

What ended for good is inserted as it will stay: one plan, one insert and one count for the whole batch, instead of
three of each. The rest, and what is there already, enters as running and then ends as any delivery does. Repeating any
of it changes nothing, so a crash in between leaves jobs that the journal's line or the lease brings back.
"""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from store.mongo.queue.add import add_effect, insert_new, keep_position
from store.mongo.queue.changes import within_failure_groups
from store.mongo.queue.documents import job_document, outcome_bytes, outcome_document
from store.mongo.queue.release import MongoRelease
from store.mongo.server import schema
from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import Document
from store.mongo.server.tally import Effect, of_run
from store.values.jobs import (
    AddReport,
    Archive,
    Discard,
    NewJob,
    Release,
    ReleaseReport,
    TypeGate,
    Unclaim,
)
from store.values.positions import JournalPosition
from vocabulary.names import tenant_of

_LEASE_MS: Final = 30_000
"""Of jobs that end in the next step: it lapses if a crash comes in between."""


class MongoStraight(MongoRelease):
    @repeatable
    async def get_type_gates(self, jobtypes: Sequence[str]) -> list[TypeGate]:
        types, tenants = list(jobtypes), sorted({tenant_of(jobtype) for jobtype in jobtypes})
        paused, suspended, shelf = await asyncio.gather(
            self.collections.types.find(
                {"_id": {"$in": types}, "$or": [{"paused": True}, {"released": {"$gte": 0}}]}, {"_id": 1}
            ).to_list(None),
            self.collections.tenants.find({"_id": {"$in": tenants}, "suspended": True}, {"_id": 1}).to_list(None),
            self.collections.shelf.find({"_id": {"$in": types}}, {"current": 1}).to_list(None),
        )
        closed = {row["_id"] for row in [*paused, *suspended]}
        versions = {row["_id"]: row["current"] for row in shelf}
        return [
            TypeGate(jobtype, versions.get(jobtype, 0), closed.isdisjoint((jobtype, tenant_of(jobtype))))
            for jobtype in jobtypes
        ]

    @once
    async def add_running_jobs(self, owner: str, jobs: Sequence[NewJob], *, lease_ms: int, now_ms: int) -> AddReport:
        distinct = list({job.id: job for job in reversed(jobs)}.values())[::-1]
        added = await _insert_running(self, owner, distinct, now_ms + lease_ms, now_ms)
        return AddReport(added, len(jobs) - added)

    @once
    async def add_ended_jobs(
        self,
        owner: str,
        jobs: Sequence[NewJob],
        releases: Sequence[Release],
        *,
        now_ms: int,
        position: JournalPosition | None = None,
    ) -> ReleaseReport:
        ended = [
            (job, release)
            for job, release in zip(jobs, releases, strict=True)
            if isinstance(release, Archive | Discard) and release.token == 1
        ]
        there = {job.id for job in jobs} - {job.id for job, _ in ended}
        new = [job for job in jobs if job.id in there]
        started_ms = {
            release.id: release.outcome.started_ms for release in releases if not isinstance(release, Unclaim)
        }
        there |= await _insert_ended(self, ended, now_ms)
        await _insert_running(self, owner, new, now_ms + _LEASE_MS, now_ms, started_ms)
        left = [release for release in releases if release.id in there]
        report = await self.release_jobs(owner, left, now_ms=now_ms) if left else ReleaseReport(0, (), ())
        if position is not None:
            await keep_position(self, position)
        return ReleaseReport(len(jobs) - len(report.stale), report.stale, report.paused)


async def _insert_running(
    db: Core,
    owner: str,
    jobs: Sequence[NewJob],
    lease_end_ms: int,
    now_ms: int,
    started_ms: Mapping[str, int] = MappingProxyType({}),
) -> int:
    """Returns how many were new. started_ms: by id, of those that were started before now."""
    if not jobs:
        return 0
    started = {"at": lease_end_ms, "lock": owner, "token": 1, "attempts": 1}
    documents = [
        await _document(db, job, schema.RUNNING) | started | {"claimed": started_ms.get(job.id, now_ms)} for job in jobs
    ]
    effects = [add_effect(job, job.dt_ms) for job in jobs]  # not deferred, whatever the clock says: they run
    return len(jobs) - len(await _insert(db, documents, effects, now_ms))


async def _insert_ended(db: Core, ended: Sequence[tuple[NewJob, Archive | Discard]], now_ms: int) -> set[str]:
    """Returns the ids that were there already."""
    if not ended:
        return set()
    documents, effects = [], []
    for job, release in ended:
        outcome = release.outcome
        result = None if outcome.result is None else await db.blobs.put(job.id, outcome.result)
        document = await _document(db, job, schema.ARCHIVED[outcome.code])
        document |= {"at": now_ms, "done": now_ms, "token": 1, "attempts": 1, "claimed": outcome.started_ms}
        document["out"] = outcome_document(outcome, result)
        size_bytes = len(job.data) + outcome_bytes(document)
        effect = Effect(job.jobtype, job.id, jobs=1, size_bytes=size_bytes)
        documents.append(document)
        effects.append(of_run(effect, outcome, max(job.dt_ms, job.create_ms)))
    refused = await _insert(db, documents, await within_failure_groups(db, effects), now_ms)
    return {documents[place]["_id"] for place in refused}


async def _document(db: Core, job: NewJob, state: str) -> Document:
    kept = await db.blobs.put(job.id, job.data)
    return job_document(job, kept, state=state, deferred=False, seq=None)


async def _insert(db: Core, documents: list[Document], effects: Sequence[Effect], now_ms: int) -> set[int]:
    """Insert and count. Returns the places of those that were there already."""
    async with db.ledger.change(effects, now_ms) as change:
        for document in documents:
            document["ops"] = [change.mark]
        refused = await insert_new(db, documents, change.mark)
        change.applied = [effect for place, effect in enumerate(effects) if place not in refused]
    in_vain = [documents[place] for place in refused]
    await db.blobs.remove([document["blob"] for document in in_vain])
    await db.blobs.remove([document.get("out", {}).get("blob") for document in in_vain])
    return refused
