"""Ending deliveries: renew and release, each on condition of its owner and token.

One plan, one bulk write and one count for the whole batch, whatever the outcomes, and one read before for
what this object did not claim itself. Jobs that have a parent or children take a second path after it
(relatives.py); most have neither.
"""

from collections.abc import Sequence
from typing import NamedTuple

from store.mongo.queue.changes import apply
from store.mongo.queue.endings import NEEDED, release_step
from store.mongo.queue.relatives import Carried, end_with_relatives, rearm_with_children
from store.mongo.server import schema
from store.mongo.server.blobs import Kept
from store.mongo.server.bulk import Group, update_groups
from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import Document
from store.values.jobs import (
    Archive,
    Discard,
    Finish,
    Lease,
    Rearm,
    Release,
    ReleaseReport,
    RenewReport,
    Retry,
    Unclaim,
)


class Ending(NamedTuple):
    """A release with the document that it ends, and what is kept of its bytes."""

    release: Release
    document: Document
    result: Kept | None
    data: Kept | None


class MongoRelease(Core):
    @repeatable
    async def renew_locks(self, owner: str, leases: Sequence[Lease], *, lease_ms: int, now_ms: int) -> RenewReport:
        tokens = {lease.id: lease.token for lease in leases}
        by_token: dict[int, list[str]] = {}
        for job_id, token in tokens.items():
            by_token.setdefault(token, []).append(job_id)
        mine: Document = {"s": schema.RUNNING, "lock": owner, "retry_after": None}
        renewed: Document = {"$set": {"at": now_ms + lease_ms}}
        groups = [Group(ids, {"token": token, **mine}, renewed) for token, ids in by_token.items()]
        if (await update_groups(self.collections.jobs, groups)).matched == len(tokens):
            return RenewReport(len(tokens), (), ())
        held = await read_held(self, owner, tokens)
        fixed = tuple(job_id for job_id in tokens if job_id in held and "retry_after" in held[job_id])
        stale = tuple(job_id for job_id in tokens if job_id not in held)
        return RenewReport(len(tokens) - len(fixed) - len(stale), fixed, stale)

    @repeatable
    async def get_leases(self, owner: str, leases: Sequence[Lease]) -> dict[Lease, int]:
        asked = set(leases)
        mine = {"_id": {"$in": [lease.id for lease in leases]}, "s": schema.RUNNING, "lock": owner}
        rows = await self.collections.jobs.find(mine, {"token": 1, "at": 1}, batch_size=len(leases) + 1).to_list(None)
        return {lease: row["at"] for row in rows if (lease := Lease(row["_id"], row["token"])) in asked}

    @once
    async def release_jobs(self, owner: str, releases: Sequence[Release], *, now_ms: int) -> ReleaseReport:
        left = {release.id: release for release in releases}
        paused: list[str] = []
        stale: set[str] = set()
        held = self.deliveries.recall(owner, {release.id: release.token for release in releases})
        while left:
            held |= await read_held(self, owner, {i: left[i].token for i in left if i not in held})
            stale |= left.keys() - held.keys()
            endings = [await keep_bytes(self, left[job_id], document) for job_id, document in held.items()]
            done = await _end_plain(self, owner, endings, now_ms)
            for ending in endings:
                ended = await _end_with_kin(self, ending, owner, now_ms) if _has_kin(ending) else None
                if ended is not None:
                    done.add(ending.release.id)
                    if ended["s"] == schema.PAUSED:
                        paused.append(ending.release.id)
            for ending in endings:
                job_id = ending.release.id
                await drop_bytes(self, ending, applied=job_id in done, is_paused=job_id in paused)
            left = {job_id: left[job_id] for job_id in held if job_id not in done}
            held = {}  # what was not as remembered, or not as read, is read again
        return ReleaseReport(
            applied=len(releases) - len(stale),
            stale=tuple(release.id for release in releases if release.id in stale),
            paused=tuple(paused),
        )


async def read_held(db: Core, owner: str, tokens: dict[str, int]) -> dict[str, Document]:
    """The documents of those deliveries that are still the owner's."""
    if not tokens:
        return {}
    mine = {"_id": {"$in": list(tokens)}, "s": schema.RUNNING, "lock": owner}
    rows = await db.collections.jobs.find(mine, NEEDED, batch_size=len(tokens) + 1).to_list(None)
    return {row["_id"]: row for row in rows if row["token"] == tokens[row["_id"]]}


async def _end_plain(db: Core, owner: str, endings: Sequence[Ending], now_ms: int) -> set[str]:
    steps = [
        release_step(ending.document, ending.release, ending.result, ending.data, owner=owner, now_ms=now_ms)
        for ending in endings
        if not _has_kin(ending)
    ]
    return await apply(db, steps, now_ms)


async def keep_bytes(db: Core, release: Release, document: Document) -> Ending:
    result = data = None
    if isinstance(release, Discard):
        release = _archive_of(release, document)
    if not isinstance(release, Unclaim) and release.outcome.result is not None:
        result = await db.blobs.put(release.id, release.outcome.result)
    if isinstance(release, Finish | Retry | Rearm) and release.data is not None:
        data = await db.blobs.put(release.id, release.data)
    return Ending(release, document, result, data)


def _archive_of(discard: Discard, document: Document) -> Archive:
    """A job with relatives is kept, and nobody asked whether there is room for its result and log."""
    outcome = discard.outcome._replace(result=None, log=b"") if document["kin"] else discard.outcome
    return Archive(discard.id, discard.token, outcome)


async def drop_bytes(db: Core, ending: Ending, *, applied: bool, is_paused: bool) -> None:
    """Remove the blobs that nothing refers to any more: the old ones, or those made in vain."""
    if isinstance(ending.release, Finish) and applied and not is_paused:  # it is over, and carries nothing on
        await db.blobs.remove([ending.data])
        ending = ending._replace(data=None)
    if not applied:
        await db.blobs.remove((ending.result, ending.data))
        return
    if not isinstance(ending.release, Unclaim):
        await db.blobs.remove([ending.document.get("out", {}).get("blob")])
    if ending.data is not None:
        await db.blobs.remove([ending.document.get("blob")])


def _has_kin(ending: Ending) -> bool:
    """Whether a relative may need to hear of this release."""
    return isinstance(ending.release, Archive | Finish | Rearm) and ending.document["kin"]


async def _end_with_kin(db: Core, ending: Ending, owner: str, now_ms: int) -> Document | None:
    release, document, result, data = ending
    if isinstance(release, Rearm):
        return await rearm_with_children(db, document, release, result, data, owner=owner, now_ms=now_ms)
    assert isinstance(release, Archive | Finish)
    carried = Carried(release.data, data) if isinstance(release, Finish) else None
    return await end_with_relatives(db, document, release.outcome, result, owner=owner, now_ms=now_ms, carried=carried)
