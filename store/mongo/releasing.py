"""Ending deliveries: renew and release, each on condition of its owner and token.

One plan, one bulk write and one count for the whole batch, whatever the outcomes, and one read before for
what this object did not claim itself. Jobs that have a parent or children take a second path after it
(relatives.py); most have neither.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pymongo import UpdateMany

from store.checks import MAX_TIME_MS, check_range, check_releases, check_time
from store.mongo import schema
from store.mongo.blobs import Kept
from store.mongo.core import once, repeatable
from store.mongo.driver import Document
from store.mongo.endings import NEEDED, release_step
from store.mongo.relatives import Relatives
from store.names import check_batch, check_owner
from store.values.jobs import (
    Archive,
    Lease,
    Outcome,
    Rearm,
    Release,
    ReleaseReport,
    RenewReport,
    Retry,
    Unget,
)


class _Ending(NamedTuple):
    """A release with the document that it ends, and what is kept of its bytes."""

    release: Release
    document: Document
    result: Kept | None
    data: Kept | None


class Releasing(Relatives):
    @repeatable
    async def renew_locks(self, owner: str, leases: Sequence[Lease], *, lease_ms: int, now_ms: int) -> RenewReport:
        check_owner(owner)
        check_batch("renew_locks", len(leases))
        check_range("lease_ms", lease_ms, 1, MAX_TIME_MS)
        check_time("now_ms", now_ms)
        tokens = {lease.id: lease.token for lease in leases}
        by_token: dict[int, list[str]] = {}
        for job_id, token in tokens.items():
            by_token.setdefault(token, []).append(job_id)
        steps = [
            UpdateMany(
                {
                    "_id": {"$in": ids},
                    "s": schema.RUNNING,
                    "lock": owner,
                    "token": token,
                    "retry_after": None,
                },
                {"$set": {"at": now_ms + lease_ms}},
            )
            for token, ids in by_token.items()
        ]
        done = await self.collections.jobs.bulk_write(steps, ordered=False) if steps else None
        if done is None or done.matched_count == len(tokens):
            return RenewReport(len(tokens), (), ())
        held = await self._held(owner, tokens)
        fixed = tuple(job_id for job_id in tokens if job_id in held and "retry_after" in held[job_id])
        stale = tuple(job_id for job_id in tokens if job_id not in held)
        return RenewReport(len(tokens) - len(fixed) - len(stale), fixed, stale)

    @once
    async def release_jobs(self, owner: str, releases: Sequence[Release], *, now_ms: int) -> ReleaseReport:
        check_owner(owner)
        check_releases(releases)
        check_time("now_ms", now_ms)
        left = {release.id: release for release in releases}
        paused: list[str] = []
        stale: set[str] = set()
        held = self.deliveries.recall(owner, {release.id: release.token for release in releases})
        while left:
            held |= await self._held(owner, {i: left[i].token for i in left if i not in held})
            stale |= left.keys() - held.keys()
            endings = [await self._keep_bytes(left[job_id], document) for job_id, document in held.items()]
            done = await self._end_plain(owner, endings, now_ms)
            for ending in endings:
                outcome = _end_of_kin(ending)
                if outcome is None:
                    continue
                ended = await self.end_with_relatives(
                    ending.document, outcome, ending.result, owner=owner, now_ms=now_ms
                )
                if ended is not None:
                    done.add(ending.release.id)
                    if ended["s"] == schema.PAUSED:
                        paused.append(ending.release.id)
            for ending in endings:
                await self._drop_bytes(ending, applied=ending.release.id in done)
            left = {job_id: left[job_id] for job_id in held if job_id not in done}
            held = {}  # what was not as remembered, or not as read, is read again
        return ReleaseReport(
            applied=len(releases) - len(stale),
            stale=tuple(release.id for release in releases if release.id in stale),
            paused=tuple(paused),
        )

    async def _held(self, owner: str, tokens: dict[str, int]) -> dict[str, Document]:
        """The documents of those deliveries that are still the owner's."""
        if not tokens:
            return {}
        mine = {"_id": {"$in": list(tokens)}, "s": schema.RUNNING, "lock": owner}
        rows = await self.collections.jobs.find(mine, NEEDED, batch_size=len(tokens) + 1).to_list(None)
        return {row["_id"]: row for row in rows if row["token"] == tokens[row["_id"]]}

    async def _end_plain(self, owner: str, endings: Sequence[_Ending], now_ms: int) -> set[str]:
        steps = [
            release_step(ending.document, ending.release, ending.result, ending.data, owner=owner, now_ms=now_ms)
            for ending in endings
            if _end_of_kin(ending) is None
        ]
        return await self.apply(steps, now_ms)

    async def _keep_bytes(self, release: Release, document: Document) -> _Ending:
        result = data = None
        if isinstance(release, Archive | Rearm) and release.outcome.result is not None:
            result = await self.blobs.put(release.id, release.outcome.result)
        if isinstance(release, Retry | Rearm) and release.data is not None:
            data = await self.blobs.put(release.id, release.data)
        return _Ending(release, document, result, data)

    async def _drop_bytes(self, ending: _Ending, *, applied: bool) -> None:
        """Remove the blobs that nothing refers to any more: the old ones, or those made in vain."""
        if not applied:
            await self.blobs.remove((ending.result, ending.data))
            return
        if not isinstance(ending.release, Unget):
            await self.blobs.remove([ending.document.get("out", {}).get("blob")])
        if ending.data is not None:
            await self.blobs.remove([ending.document.get("blob")])


def _end_of_kin(ending: _Ending) -> Outcome | None:
    """The final outcome of a job that has relatives; None when no relative needs to hear of this release."""
    if isinstance(ending.release, Archive) and ending.document["kin"]:
        return ending.release.outcome
    return None
