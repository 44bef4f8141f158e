"""What every claim does with the jobs that it takes: their number and bytes, and their lock."""

from collections.abc import Collection, Sequence
from typing import Final

from pymongo import UpdateMany

from store.mongo.server.core import Core
from store.mongo.server.driver import Document, retried
from store.mongo.server.schema import QUEUED, RUNNING
from store.values.jobs import Claim

ORDER: Final = {"prio": -1, "at": 1, "_id": 1}


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


async def lock(db: Core, chosen: Sequence[Document], claim: Claim, mark: int) -> list[Document]:
    """Lock what was read, each on condition that it is as it was read. Returns those that were."""
    if not chosen:
        return []
    alike: dict[tuple[int, int | None, int], list[Document]] = {}
    for document in chosen:
        lease_end = claim.now_ms + document.get("retry_after", claim.lease_ms)
        alike.setdefault((document["token"], document.get("rev"), lease_end), []).append(document)
    steps = [
        UpdateMany(
            {"_id": {"$in": [d["_id"] for d in group]}, "s": QUEUED, "token": token, "rev": rev},
            {
                "$set": {
                    "s": RUNNING,
                    "at": lease_end,
                    "lock": claim.owner,
                    "claim": mark,
                    "claimed": claim.now_ms,
                },
                "$inc": {"token": 1, "attempts": 1},
            },
        )
        for (token, rev, lease_end), group in alike.items()
    ]
    # Safe to repeat: what was locked does not meet its condition again, and carries the mark.
    done = await retried(lambda: db.collections.jobs.bulk_write(steps, ordered=False))
    ours = {document["_id"] for document in chosen}
    if done.modified_count != len(chosen):
        rows = db.collections.jobs.find({"_id": {"$in": list(ours)}, "claim": mark}, {"_id": 1})
        ours = {row["_id"] for row in await rows.to_list(None)}
    for (token, _, lease_end), group in alike.items():
        for document in group:
            document |= {"s": RUNNING, "at": lease_end, "lock": claim.owner, "token": token + 1}
            document["attempts"] += 1
    taken = [document for document in chosen if document["_id"] in ours]
    db.deliveries.remember(taken)
    return taken
