"""Turns that wait for a token of a rate domain: they are opened as tokens come, one for each.

A claim that finds no token for the first job of a turn closes the turn with the domain (`dom`), and notes that in a
document of `lanes` (domain_claim.py), whose `ready` says when to look at the domain again, and whose `top` is no
priority. A later claim looks at the domains whose time has come, and opens as many turns as there are tokens, in order
of their tags. So a turn without a token is looked at once, however long it waits and however many wait with it, and
keys that may run never stand behind it.

Where it was the claim that named the domain, both have its name with OF_CLAIMS before it. A claim that names another
opens these turns, whatever tokens there are.

Ensures: a domain that turns wait for has its document, also if another claim removes it at the same time: it is noted
after the turns were closed, and removed only as it was before they were looked for.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from store.claim_rules import OF_CLAIMS, OF_CLAIMS_END
from store.mongo.queue.rates import Held, limits_of, next_token_at, reopen_domains, whole_tokens
from store.mongo.server.bulk import Write, delete_one, update_one, write_each
from store.mongo.server.core import Core
from store.mongo.server.driver import Document, upserted
from store.mongo.server.lane_opening import keyed_lane_id
from store.mongo.server.schema import READY, WAITING_TURNS
from store.values.claims import Claim
from vocabulary.names import tenant_of

TOP: Final = -1
"""Of the documents of domains that turns wait for."""
_MOST_DOMAINS: Final = 100
_MOST_OPENED: Final = 200
"""Turns of one domain, in one claim."""


async def note_waits(db: Core, claim: Claim, seen: Mapping[str, Held], wanted: Mapping[str, int]) -> None:
    """Turns of the type were closed because these domains, as they were seen, have no token beyond the wanted ones.
    seen: by what the turns wait for."""
    if not seen:
        return
    jobtype = claim.jobtype
    if OF_CLAIMS + claim.domain in seen:  # so that a claim without a domain looks for these, too
        await db.collections.types.update_one({"_id": jobtype}, {"$set": {"domains": True}})
    steps = [
        update_one(
            {"_id": keyed_lane_id(jobtype, name)},
            {
                "$min": {"ready": next_token_at(held, wanted.get(domain_in(name), 0), claim.now_ms)},
                "$inc": {"v": 1},
                "$setOnInsert": {"type": jobtype, "dom": name, "top": TOP},
            },
            upsert=True,
        )
        for name, held in seen.items()
    ]
    await upserted(lambda: write_each(db.collections.lanes, steps))
    domains = {domain_in(name): held for name, held in seen.items()}
    now = await limits_of(db, tenant_of(jobtype), domains, claim.now_ms)
    await reopen_domains(db, jobtype, [domain for domain in domains if _is_better(now.get(domain), domains[domain])])


def domain_in(name: str) -> str:
    """The domain that turns wait for under that name."""
    return name.removeprefix(OF_CLAIMS)


def _is_better(now: Held | None, seen: Held) -> bool:
    """Whether a limit was changed, or a token given back, before there was a note of the domain to be changed."""
    return now is None or whole_tokens(now) > 0 or now.limit.rate_per_s > seen.limit.rate_per_s


async def open_for_tokens(db: Core, claim: Claim) -> None:
    """Open a turn for each token that came since, and those that wait for a domain which claims named before."""
    which = {"type": claim.jobtype, "top": TOP, "ready": {"$lte": claim.now_ms}}
    cursor = db.collections.lanes.find(which, hint=READY).sort("ready", 1)
    ready, of_claims = await asyncio.gather(
        cursor.limit(_MOST_DOMAINS).to_list(_MOST_DOMAINS),
        db.collections.lanes.find(_of_claims(claim.jobtype)).limit(_MOST_DOMAINS).to_list(_MOST_DOMAINS),
    )
    mine = keyed_lane_id(claim.jobtype, OF_CLAIMS + claim.domain)
    before = {lane["_id"]: lane for lane in of_claims if lane["_id"] != mine}
    lanes = [*before.values(), *(lane for lane in ready if lane["_id"] not in before)]
    if not lanes:
        return
    domains = [domain_in(lane["dom"]) for lane in lanes if lane["_id"] not in before]
    held = await limits_of(db, tenant_of(claim.jobtype), domains, claim.now_ms)
    limits = [None if lane["_id"] in before else held.get(domain_in(lane["dom"])) for lane in lanes]
    steps = [await _open_some(db, lane, limit, claim) for lane, limit in zip(lanes, limits, strict=True)]
    await write_each(db.collections.lanes, steps)


def _of_claims(jobtype: str) -> Document:
    """By their id, since there may be very many domains that jobs name."""
    return {"_id": {"$gte": keyed_lane_id(jobtype, OF_CLAIMS), "$lt": keyed_lane_id(jobtype, OF_CLAIMS_END)}}


async def _open_some(db: Core, lane: Document, held: Held | None, claim: Claim) -> Write:
    """Returns what becomes of the domain's document. held: None if its turns need no token."""
    turns = db.collections.turns
    same = {"_id": lane["_id"], "v": lane["v"]}
    most = _MOST_OPENED if held is None else max(0, min(whole_tokens(held), _MOST_OPENED))
    if most:
        waiting = {"type": lane["type"], "dom": lane["dom"], "open": False}
        cursor = turns.find(waiting, {"_id": 1}, hint=WAITING_TURNS).sort([("tag", 1), ("_id", 1)])
        found = [turn["_id"] for turn in await cursor.limit(most).to_list(most)]
        if found:
            await turns.update_many({"_id": {"$in": found}}, {"$set": {"open": True}})
        if len(found) < most:
            return delete_one(same)
    ready_ms = claim.now_ms if held is None else next_token_at(held, most, claim.now_ms)
    return update_one(same, {"$set": {"ready": ready_ms}, "$inc": {"v": 1}})
