"""What every claim does with the jobs that it takes: their number and bytes, and their lock.

A claim may look at many more jobs than it takes. If it looks at so many that their payloads could be far more than it
may take, it looks without the big ones (`leave_out`), and reads those of the jobs that it has chosen (`with_payloads`).
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from store.mongo.server.blobs import INLINE_BYTES
from store.mongo.server.bulk import Group, update_groups
from store.mongo.server.core import Core
from store.mongo.server.driver import Document, retried
from store.mongo.server.schema import QUEUED, RUNNING
from store.names import MAX_DATA_BYTES
from store.values.claims import Claim

ORDER: Final = {"prio": -1, "at": 1, "_id": 1}


class Attempt(NamedTuple):
    """What one try to claim has done. tried: there was something to take. is_all: all that may run now was taken, and
    it was less than was asked for."""

    taken: list[Document]
    tried: bool
    is_all: bool = False


class Room:
    """What a claim may still take; the first job always fits."""

    def __init__(self, claim: Claim, taken: Collection[Document]) -> None:
        self.jobs = claim.limit - len(taken)
        self.left_bytes = claim.max_bytes - sum(document["size"] for document in taken)
        self.is_empty = not taken

    def take(self, size_bytes: int) -> bool:
        """Whether it fits; when one does not, there is no room any more."""
        if self.jobs <= 0 or (size_bytes > self.left_bytes and not self.is_empty):
            self.jobs = 0
            return False
        self.jobs -= 1
        self.left_bytes -= size_bytes
        self.is_empty = False
        return True

    def give_back(self, chosen: Collection[Document], taken: Collection[Document]) -> None:
        """Of the jobs that were to be taken, only some could be."""
        if len(taken) < len(chosen):
            self.jobs += len(chosen) - len(taken)
            self.left_bytes += sum(job["size"] for job in chosen) - sum(job["size"] for job in taken)


def leave_out(count: int) -> list[Document]:
    """The stage that leaves out payloads that are big for that many documents; none if they cannot be too much."""
    if count * INLINE_BYTES <= 2 * MAX_DATA_BYTES:
        return []
    is_small = {"$lte": ["$size", MAX_DATA_BYTES // count]}
    return [{"$addFields": {"data": {"$cond": [is_small, "$data", "$$REMOVE"]}}}]


async def with_payloads(db: Core, chosen: Sequence[Document]) -> list[Document]:
    """Those that are still there, with the payloads that were left out. One that was changed since it was read cannot
    be locked, so a payload is that of the job that was chosen."""
    bare = [document["_id"] for document in chosen if "data" not in document]
    if not bare:
        return list(chosen)
    rows = await db.collections.jobs.find({"_id": {"$in": bare}}, {"data": 1}).to_list(None)
    payloads = {row["_id"]: row["data"] for row in rows}
    for document in chosen:
        if document["_id"] in payloads:
            document["data"] = payloads[document["_id"]]
    return [document for document in chosen if "data" in document]


async def lock(db: Core, chosen: Sequence[Document], claim: Claim, mark: int) -> list[Document]:
    """Lock what was read, each on condition that it is as it was read. Returns those that were."""
    if not chosen:
        return []
    alike: dict[tuple[int, int | None, int], list[Document]] = {}
    for document in chosen:
        lease_end = claim.now_ms + document.get("retry_after", claim.lease_ms)
        alike.setdefault((document["token"], document.get("rev"), lease_end), []).append(document)
    locked = {"s": RUNNING, "lock": claim.owner, "claim": mark, "claimed": claim.now_ms}
    groups = [
        Group(
            [d["_id"] for d in group],
            {"s": QUEUED, "token": token, "rev": rev},
            {"$set": {**locked, "at": lease_end}, "$inc": {"token": 1, "attempts": 1}},
        )
        for (token, rev, lease_end), group in alike.items()
    ]
    # Safe to repeat: what was locked does not meet its condition again, and carries the mark.
    done = await retried(lambda: update_groups(db.collections.jobs, groups))
    ours = {document["_id"] for document in chosen}
    if done.modified != len(chosen):
        rows = db.collections.jobs.find({"_id": {"$in": list(ours)}, "claim": mark}, {"_id": 1})
        ours = {row["_id"] for row in await rows.to_list(None)}
    for (token, _, lease_end), group in alike.items():
        for document in group:
            document |= {"s": RUNNING, "at": lease_end, "lock": claim.owner, "token": token + 1}
            document["attempts"] += 1
    taken = [document for document in chosen if document["_id"] in ours]
    db.deliveries.remember(taken)
    return taken
