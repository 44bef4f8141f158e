"""Claiming from lanes: of the rate domains of a type that may run, and never past those that may not.

The queued jobs of a type without a key that have the same rate domain are a lane, and one document of `lanes`:

    ready  before that time the lane has nothing to offer: its domain has no token, or nothing of it is due
    until  the same time, if a token is what it waits for
    top    the priority of its first job, as far as is known
    v      grows with every change: a claim changes a lane only as it was read

A claim takes lanes in order of `top` and `ready`, by an index, and moves the time of each that it looks at: to the
domain's next token, or to its next job; a lane of which nothing is queued goes. Whatever puts a job into the queue
opens its lane afterwards (the ledger does, also after a crash). So a lane that may not run is looked at once, and not
again before its time, or before a job enters it.

Of the lanes that one claim reads the jobs are taken in common order. Where more may run, those come first that could
for the longest time.
"""

import secrets
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from store.claim_rules import WINDOW
from store.mongo.queue.rates import (
    Held,
    give_tokens_back,
    limits_of,
    next_token_at,
    reopen_domains,
    take_tokens,
    whole_tokens,
)
from store.mongo.queue.taking import ORDER, Attempt, leave_out, lock, with_payloads
from store.mongo.server.bulk import Write, delete_one, update_one, write_each
from store.mongo.server.core import Core
from store.mongo.server.driver import Document, aggregate
from store.mongo.server.schema import QUEUED, READY
from store.names import PRIORITIES
from store.values.claims import Claim
from vocabulary.names import tenant_of

_MOST_LANES: Final = 100
"""Of one claim."""
_AT_ONCE: Final = 20
"""Lanes whose jobs one query reads."""
_ROUNDS: Final = 8
"""How often a claim looks at further lanes when those that it looked at had nothing to offer."""


class _Look(NamedTuple):
    """A lane, and the jobs of it that could be taken. wanted: how many were asked for; 0: its domain has no token."""

    lane: Document
    jobs: list[Document]
    wanted: int


async def claim_from_domains(db: Core, claim: Claim, plain: Sequence[Document], *, is_first: bool) -> Attempt:
    """Jobs without a key, locked: of those without a domain, which are given, and of lanes."""
    for _ in range(_ROUNDS):
        lanes = await _ready_lanes(db, claim)
        domains = [claim.domain, *(lane["dom"] for lane in lanes)]
        held = await limits_of(db, tenant_of(claim.jobtype), domains, claim.now_ms)
        looks = await _look_at(db, claim, lanes, held)
        offered = _with_token([*plain, *(job for look in looks for job in look.jobs)], held, claim)
        chosen = _choose(offered, claim, is_first=is_first)
        taken = await _take(db, claim, await with_payloads(db, chosen), held)
        await _settle(db, claim, looks, held, taken)
        if chosen or len(lanes) < _window(claim):
            return Attempt(taken, bool(chosen), is_all=len(taken) == len(offered) < claim.limit)
    return Attempt([], tried=False, is_all=True)


def _window(claim: Claim) -> int:
    return min(claim.limit + WINDOW, _MOST_LANES)


async def _ready_lanes(db: Core, claim: Claim) -> list[Document]:
    which = {"type": claim.jobtype, "top": {"$in": list(PRIORITIES)}, "ready": {"$lte": claim.now_ms}}
    cursor = db.collections.lanes.find(which, hint=READY).sort([("top", -1), ("ready", 1)])
    return await cursor.limit(_window(claim)).to_list(_window(claim))


async def _look_at(db: Core, claim: Claim, lanes: Sequence[Document], held: Mapping[str, Held]) -> list[_Look]:
    wanted = {
        lane["dom"]: min(claim.limit, whole_tokens(held[lane["dom"]]) if lane["dom"] in held else claim.limit)
        for lane in lanes
    }
    due = {"s": QUEUED, "type": claim.jobtype, "prio": {"$in": list(PRIORITIES)}, "at": {"$lte": claim.now_ms}}
    bare = leave_out(sum(wanted.values()))
    reads: list[list[Document]] = [
        [{"$match": due | {"dom": domain}}, {"$sort": ORDER}, {"$limit": count}, *bare]
        for domain, count in wanted.items()
        if count
    ]
    jobs: defaultdict[str, list[Document]] = defaultdict(list)
    for job in await _read_all(db, reads):
        jobs[job["dom"]].append(job)
    return [_Look(lane, jobs[lane["dom"]], wanted[lane["dom"]]) for lane in lanes]


async def _read_all(db: Core, reads: Sequence[list[Document]]) -> list[Document]:
    """What the pipelines find in `jobs`, in few replies."""
    found: list[Document] = []
    for start in range(0, len(reads), _AT_ONCE):
        first, *others = reads[start : start + _AT_ONCE]
        joined = [{"$unionWith": {"coll": "jobs", "pipeline": other}} for other in others]
        found += await aggregate(db.collections.jobs, [*first, *joined])
    return found


def _with_token(found: list[Document], held: Mapping[str, Held], claim: Claim) -> list[Document]:
    """Those for which there is a token, in common order."""
    left = {domain: whole_tokens(bucket) for domain, bucket in held.items()}
    offered: list[Document] = []
    for job in sorted(found, key=lambda job: (-job["prio"], job["at"], job["_id"])):
        domain = _domain_of(job, claim)
        if left.get(domain, 1) > 0:
            offered.append(job)
            if domain in left:
                left[domain] -= 1
    return offered


def _domain_of(job: Document, claim: Claim) -> str:
    domain: str = job["dom"] or claim.domain
    return domain


def _choose(offered: Sequence[Document], claim: Claim, *, is_first: bool) -> list[Document]:
    """The first ones within the limits of count and bytes; the first one of a claim always fits."""
    total_bytes = 0
    chosen: list[Document] = []
    for job in offered[: claim.limit]:
        total_bytes += job["size"]
        if (chosen or not is_first) and total_bytes > claim.max_bytes:
            break
        chosen.append(job)
    return chosen


async def _take(db: Core, claim: Claim, chosen: Sequence[Document], held: Mapping[str, Held]) -> list[Document]:
    mark = secrets.randbits(62)
    domains = {job["_id"]: _domain_of(job, claim) for job in chosen}
    wanted = Counter(domain for domain in domains.values() if domain in held)
    given = await take_tokens(db, held, wanted, mark=mark, now_ms=claim.now_ms)
    allowed = [job for job in chosen if (domain := domains[job["_id"]]) not in wanted or domain in given]
    taken = await lock(db, allowed, claim, mark)
    used = Counter(domains[job["_id"]] for job in taken)
    unused = Counter({domain: wanted[domain] - used[domain] for domain in given if wanted[domain] > used[domain]})
    await give_tokens_back(db, held, unused)
    await reopen_domains(db, claim.jobtype, unused)
    return taken


async def _settle(
    db: Core, claim: Claim, looks: Sequence[_Look], held: Mapping[str, Held], taken: Sequence[Document]
) -> None:
    """Write when the lanes may run next."""
    gone = {job["_id"] for job in taken}
    used = Counter(_domain_of(job, claim) for job in taken)
    steps: list[Write] = []
    exhausted: list[_Look] = []
    for look in looks:
        domain = look.lane["dom"]
        left = next((job for job in look.jobs if job["_id"] not in gone), None)
        if left is not None:
            steps += _moved(look.lane, max(look.lane["ready"], left["at"]), left["prio"])
        elif domain in held and whole_tokens(held[domain]) <= used[domain]:
            next_ms = next_token_at(held[domain], used[domain], claim.now_ms)
            steps += _moved(look.lane, next_ms, look.lane["top"], until_ms=next_ms)
        elif len(look.jobs) < look.wanted:
            exhausted.append(look)
    later = await _next_jobs(db, claim, exhausted)
    for look in exhausted:
        job = later.get(look.lane["dom"])
        steps += [delete_one(_as_read(look.lane))] if job is None else _moved(look.lane, job["at"], job["prio"])
    if steps:
        await write_each(db.collections.lanes, steps)


def _as_read(lane: Document) -> Document:
    return {"_id": lane["_id"], "v": lane["v"]}


def _moved(lane: Document, ready_ms: int, top: int, until_ms: int = 0) -> list[Write]:
    if (lane["ready"], lane["top"]) == (ready_ms, top):
        return []
    moved = {"ready": ready_ms, "top": top, "until": until_ms}
    return [update_one(_as_read(lane), {"$set": moved, "$inc": {"v": 1}})]


async def _next_jobs(db: Core, claim: Claim, looks: Sequence[_Look]) -> dict[str, Any]:
    """The first queued job of each lane of which nothing was left, by domain."""
    queued = {"s": QUEUED, "type": claim.jobtype, "prio": {"$in": list(PRIORITIES)}}
    reads: list[list[Document]] = [
        [
            {"$match": queued | {"dom": look.lane["dom"]}},
            {"$sort": {"at": 1}},
            {"$limit": 1},
            {"$project": {"dom": 1, "at": 1, "prio": 1}},
        ]
        for look in looks
    ]
    return {job["dom"]: job for job in await _read_all(db, reads)}
