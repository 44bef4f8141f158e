"""When to claim again after a claim that found less than it was to take: what waits for a token is looked for by index,
in one reply, so the cost does not grow with the number of domains that may not run."""

from typing import Final

from store.claim_rules import NEXT_LANES, next_look_ms
from store.mongo.queue.rates import limits_of, next_token_at
from store.mongo.queue.token_waits import TOP
from store.mongo.server.core import Core
from store.mongo.server.driver import Document, aggregate
from store.names import PRIORITIES
from store.values.claims import Claim
from vocabulary.names import tenant_of

_FIRST_TURN: Final = ({"$sort": {"tag": 1, "_id": 1}}, {"$limit": 1}, {"$project": {"open": 1}})


async def find_next_look(db: Core, claim: Claim, *, has_keys: bool, has_plain: bool) -> int | None:
    """has_plain: jobs of the type that have no domain of their own were left."""
    first, *others = (_first_lanes(claim.jobtype, top, NEXT_LANES) for top in PRIORITIES)
    unions = [{"coll": "lanes", "pipeline": other} for other in others]
    if has_keys:
        unions.append({"coll": "lanes", "pipeline": _first_lanes(claim.jobtype, TOP, 1)})
        # One that is open was left by a claim that had looked at enough of them.
        unions.append({"coll": "turns", "pipeline": [{"$match": {"type": claim.jobtype, "open": True}}, *_FIRST_TURN]})
    found = await aggregate(db.collections.lanes, [*first, *({"$unionWith": union} for union in unions)])
    turns = [row.get("ready", 0) for row in found if row.get("top", TOP) == TOP]
    lanes = [(row["ready"], row.get("until", 0)) for row in found if row.get("top", TOP) != TOP]
    if has_plain and claim.domain:
        held = await limits_of(db, tenant_of(claim.jobtype), [claim.domain], claim.now_ms)
        token_ms = next_token_at(held[claim.domain], 0, claim.now_ms) if held else claim.now_ms
        lanes.append((token_ms, token_ms))
    return next_look_ms(lanes, min(turns, default=None), claim.now_ms)


def _first_lanes(jobtype: str, top: int, count: int) -> list[Document]:
    shown = {"ready": 1, "until": 1, "top": 1}
    return [{"$match": {"type": jobtype, "top": top}}, {"$sort": {"ready": 1}}, {"$limit": count}, {"$project": shown}]
