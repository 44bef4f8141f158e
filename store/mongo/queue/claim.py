"""Claiming: which types have something waiting, and taking the next jobs of one.

A claim is optimistic. It reads the head of the queue, together with what may forbid the claim, then locks what it read
on condition that nobody did before. In order of the index, so the cost is that of the jobs taken.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pymongo import UpdateMany

from store.mongo.queue.documents import job_from, kept_data
from store.mongo.queue.rates import give_tokens_back, limits_of, take_tokens, whole_tokens
from store.mongo.server.core import Core, once
from store.mongo.server.driver import Document, aggregate, retried
from store.mongo.server.schema import CLAIM, QUEUED, RUNNING
from store.names import MAX_DATA_BYTES, PRIORITIES
from store.values.jobs import Claim, Job
from vocabulary.names import tenant_of

ATTEMPTS: Final = 8
"""How often a claim starts anew when other daemons took all that it had read."""

_ORDER: Final = {"prio": -1, "at": 1, "_id": 1}
_SEEKS: Final = 60
"""Domains in one query: MongoDB merges up to 200 index ranges in order, and each domain has three."""


class MongoClaim(Core):
    @once
    async def claim_jobs(
        self,
        jobtype: str,
        limit: int,
        *,
        owner: str,
        lease_ms: int,
        now_ms: int,
        max_bytes: int = MAX_DATA_BYTES,
    ) -> list[Job]:
        claim = Claim(jobtype, limit, owner, lease_ms, now_ms, max_bytes)
        taken: list[Document] = []
        for _ in range(ATTEMPTS):
            taken, tried = await _claim(self, claim)
            if taken or not tried:
                break
        return [job_from(document, await self.blobs.get(kept_data(document))) for document in taken]


async def _claim(db: Core, claim: Claim) -> tuple[list[Document], bool]:
    """What was claimed, and whether there was anything to try."""
    candidates, gate = await _read_head(db, claim)
    if gate.closed:
        return [], False
    mark = secrets.randbits(62)
    if not gate.domains:
        chosen = _fitting(candidates, claim)
        return await _lock(db, chosen, claim, mark), bool(chosen)
    return await _claim_within_rates(db, claim, mark)


async def _read_head(db: Core, claim: Claim) -> tuple[list[Document], "_Gate"]:
    """The first jobs without a domain, and the flags of the type and of its tenant, in one reply."""
    tenant = tenant_of(claim.jobtype)
    found = await aggregate(
        db.collections.jobs,
        [
            {"$match": _waiting(claim.jobtype, claim.now_ms) | {"dom": ""}},
            {"$sort": _ORDER},
            {"$limit": claim.limit},
            {"$unionWith": {"coll": "types", "pipeline": [{"$match": {"_id": claim.jobtype}}]}},
            {"$unionWith": {"coll": "tenants", "pipeline": [{"$match": {"_id": tenant}}]}},
        ],
    )
    gate = _Gate()
    while found and "s" not in found[-1]:
        gate.read(found.pop())
    return found, gate


async def _claim_within_rates(db: Core, claim: Claim, mark: int) -> tuple[list[Document], bool]:
    """As `_claim`, past the domains that have no token left."""
    tenant = tenant_of(claim.jobtype)
    domains = await _waiting_domains(db, claim)
    buckets = await limits_of(db, tenant, domains)
    tokens = {domain: whole_tokens(bucket, claim.now_ms) for domain, bucket in buckets.items()}
    candidates = await _read_domains(db, claim, domains, tokens)
    chosen = _fitting(candidates, claim)
    wanted = Counter(document["dom"] for document in chosen if document["dom"] in buckets)
    given = await take_tokens(db, buckets, wanted, mark=mark, now_ms=claim.now_ms)
    allowed = [document for document in chosen if document["dom"] not in wanted or document["dom"] in given]
    taken = await _lock(db, allowed, claim, mark)
    used = Counter(document["dom"] for document in taken)
    unused = Counter({domain: wanted[domain] - used[domain] for domain in given if wanted[domain] > used[domain]})
    await give_tokens_back(db, tenant, unused)
    return taken, bool(chosen)


async def _waiting_domains(db: Core, claim: Claim) -> set[str]:
    """The domains that the type has queued jobs of: one index seek each."""
    groups = await aggregate(
        db.collections.jobs,
        [
            {"$match": {"type": claim.jobtype, "s": QUEUED}},
            {"$sort": {"dom": 1}},
            {"$group": {"_id": "$dom"}},
        ],
        hint=CLAIM,
    )
    return {group["_id"] for group in groups}


async def _read_domains(db: Core, claim: Claim, domains: Iterable[str], tokens: Mapping[str, int]) -> list[Document]:
    """The first jobs in the order of the queue, of each domain no more than it has tokens."""
    open_domains = sorted(domain for domain in domains if tokens.get(domain, 1) > 0)
    limited = [domain for domain in open_domains if domain in tokens]
    free = [domain for domain in open_domains if domain not in tokens]
    reads = [_read_queue(db, claim, [domain], min(tokens[domain], claim.limit)) for domain in limited]
    reads += [_read_queue(db, claim, free[i : i + _SEEKS], claim.limit) for i in range(0, len(free), _SEEKS)]
    found = [document for part in await asyncio.gather(*reads) for document in part]
    found.sort(key=lambda document: (-document["prio"], document["at"], document["_id"]))
    return found[: claim.limit]


async def _read_queue(db: Core, claim: Claim, domains: list[str], limit: int) -> list[Document]:
    which = _waiting(claim.jobtype, claim.now_ms) | {"dom": {"$in": domains}}
    return await db.collections.jobs.find(which).sort(list(_ORDER.items())).limit(limit).to_list(limit)


async def _lock(db: Core, chosen: Sequence[Document], claim: Claim, mark: int) -> list[Document]:
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


class _Gate:
    """What may stand between a claim and the queue of a type."""

    def __init__(self) -> None:
        self.closed = False
        self.domains = False

    def read(self, document: Mapping[str, Any]) -> None:
        """The document of the type or of its tenant."""
        self.closed |= document.get("paused", False) or document.get("suspended", False)
        self.domains |= document.get("domains", False)


def _waiting(jobtype: str, now_ms: int) -> Document:
    return {"type": jobtype, "s": QUEUED, "prio": {"$in": list(PRIORITIES)}, "at": {"$lte": now_ms}}


def _fitting(documents: Sequence[Document], claim: Claim) -> list[Document]:
    """The first ones within the limits of count and bytes; the first one always."""
    total_bytes = 0
    for count, document in enumerate(documents):
        total_bytes += document["size"]
        if count == claim.limit or (count and total_bytes > claim.max_bytes):
            return list(documents[:count])
    return list(documents)
