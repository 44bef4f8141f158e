"""Claiming: which types have something waiting, and taking the next jobs of one.

A claim is optimistic. It reads the head of the queue, together with what may forbid the claim, then locks what it read
on condition that nobody did before. In order of the index, so the cost is that of the jobs taken.
"""

import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

from store.errors import StoreCorrupt
from store.mongo.queue.documents import job_from, kept_data
from store.mongo.queue.domain_claim import claim_from_domains
from store.mongo.queue.keyed_claim import take_turns
from store.mongo.queue.next_token import find_next_look
from store.mongo.queue.rates import limits_of
from store.mongo.queue.taking import ORDER, Attempt, Room, leave_out, lock, with_payloads
from store.mongo.server.core import Core, once
from store.mongo.server.driver import Document, aggregate
from store.mongo.server.schema import QUEUED, RUNNING
from store.names import MAX_DATA_BYTES, PRIORITIES
from store.values.claims import Claim, ClaimedJobs
from store.values.jobs import Job
from vocabulary.names import tenant_of

log = logging.getLogger("store.mongo")

ATTEMPTS: Final = 8
"""How often a claim starts anew when other daemons took all that it had read."""


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
        max_per_key: int | None = None,
        tenant_created_ms: int | None = None,
        domain: str = "",
    ) -> ClaimedJobs:
        claim = Claim(jobtype, limit, owner, lease_ms, now_ms, max_bytes, max_per_key, tenant_created_ms, domain)
        taken: list[Document] = []
        next_ms: int | None = None
        for _ in range(ATTEMPTS):
            candidates, gate = await _read_head(self, claim)
            claim = await _with_limit(self, claim, gate)
            taken, tried, is_all = await _claim(self, claim, gate, candidates)
            if is_all and gate.domains:
                left = {job["_id"] for job in candidates}.difference(job["_id"] for job in taken)
                next_ms = await find_next_look(self, claim, has_keys=gate.keys, has_plain=bool(left))
            if taken or not tried:
                break
        jobs = [await _delivered(self, document) for document in taken]
        return ClaimedJobs([job for job in jobs if job is not None], next_ms)


async def _delivered(db: Core, document: Document) -> Job | None:
    """None: somebody has ended this delivery and removed the job, or its payload is lost. All that were claimed with it
    are delivered all the same."""
    try:
        return job_from(document, await db.blobs.get(kept_data(document)))
    except StoreCorrupt as error:
        same = {"_id": document["_id"], "s": RUNNING, "lock": document["lock"], "token": document["token"]}
        if await db.collections.jobs.find_one(same, {"_id": 1}) is not None:
            log.warning("store.payload_lost", extra={"job": document["_id"], "reason": str(error)})
        return None


async def _with_limit(db: Core, claim: Claim, gate: "_Gate") -> Claim:
    """The claim without its domain, unless that has a limit; with one, no job of the type is free of domains."""
    if not claim.domain:
        return claim
    if not await limits_of(db, tenant_of(claim.jobtype), [claim.domain], claim.now_ms):
        return claim._replace(domain="")
    gate.domains = True
    return claim


async def _claim(db: Core, claim: Claim, gate: "_Gate", candidates: list[Document]) -> Attempt:
    if gate.closed:
        return Attempt([], tried=False)
    if not gate.keys:
        return await _claim_plain(db, claim, gate, candidates)
    return await _claim_both(db, claim, gate, candidates)


async def _claim_plain(
    db: Core, claim: Claim, gate: "_Gate", candidates: list[Document], *, is_first: bool = True
) -> Attempt:
    """Jobs without a key."""
    if not gate.domains:
        chosen = _fitting(candidates, claim, is_first=is_first)
        taken = await lock(db, await with_payloads(db, chosen), claim, secrets.randbits(62))
        return Attempt(taken, bool(chosen))
    return await claim_from_domains(db, claim, candidates, is_first=is_first)


async def _claim_both(db: Core, claim: Claim, gate: "_Gate", candidates: list[Document]) -> Attempt:
    """Of a type with keys: some jobs without, some with one, and what is left of jobs without."""
    first = claim.limit - claim.for_keys
    taken: list[Document] = []
    tried = is_all = False
    if first:
        taken, tried, _ = await _claim_plain(db, claim._replace(limit=first), gate, candidates)
    room = Room(claim, taken)
    taken += await take_turns(db, claim, room, served=gate.served, has_domains=gate.domains)
    left = [document for document in candidates if document["s"] == QUEUED]  # whoever tries to lock one changes it
    if room.jobs > 0 and (gate.domains or left):
        rest = claim._replace(limit=room.jobs, max_bytes=max(room.left_bytes, 0))
        more, tried_more, is_all = await _claim_plain(db, rest, gate, left, is_first=room.is_empty)
        taken += more
        tried |= tried_more
    # As many as were asked for were read: if some were lost to another daemon, others may wait behind them.
    return Attempt(taken, tried, is_all and len(candidates) < claim.limit)


async def _read_head(db: Core, claim: Claim) -> tuple[list[Document], "_Gate"]:
    """The first jobs without a domain, and the flags of the type and of its tenant, in one reply."""
    tenant = tenant_of(claim.jobtype)
    found = await aggregate(
        db.collections.jobs,
        [
            {"$match": _waiting(claim.jobtype, claim.now_ms) | {"dom": ""}},
            {"$sort": ORDER},
            {"$limit": claim.limit},
            *leave_out(claim.limit),
            {"$unionWith": {"coll": "types", "pipeline": [{"$match": {"_id": claim.jobtype}}]}},
            {"$unionWith": {"coll": "tenants", "pipeline": [{"$match": {"_id": tenant}}]}},
        ],
    )
    gate = _Gate()
    while found and "s" not in found[-1]:
        gate.read(found.pop())
    gate.check_tenant(claim.tenant_created_ms)
    return found, gate


class _Gate:
    """What may stand between a claim and the queue of a type."""

    def __init__(self) -> None:
        self.closed = False
        self.domains = False
        self.keys = False
        self.served = 0
        self._tenant_created_ms = 0

    def read(self, document: Mapping[str, Any]) -> None:
        """The document of the type or of its tenant."""
        self.closed |= document.get("paused", False) or document.get("suspended", False)
        self.domains |= document.get("domains", False)
        self.keys |= document.get("keys", False)
        self.served = max(self.served, document.get("served", 0))
        self._tenant_created_ms = document.get("created", self._tenant_created_ms)

    def check_tenant(self, created_ms: int | None) -> None:
        """Close it if another tenant has the name now."""
        self.closed |= created_ms not in {None, self._tenant_created_ms}


def _waiting(jobtype: str, now_ms: int) -> Document:
    return {"type": jobtype, "s": QUEUED, "prio": {"$in": list(PRIORITIES)}, "at": {"$lte": now_ms}}


def _fitting(documents: Sequence[Document], claim: Claim, *, is_first: bool) -> list[Document]:
    """The first ones within the limits of count and bytes; the first one of a claim always."""
    total_bytes = 0
    for count, document in enumerate(documents):
        total_bytes += document["size"]
        if count == claim.limit or ((count or not is_first) and total_bytes > claim.max_bytes):
            return list(documents[:count])
    return list(documents)
