"""Opening the lanes of rate domains that jobs entered (queue/domain_claim.py). Here, because the ledger does it for
every change."""

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from store.mongo.server.bulk import Write, update_found, update_one, write_each
from store.mongo.server.driver import aggregate, upserted
from store.mongo.server.schema import LISTING, QUEUED, Collections
from store.mongo.server.tally import Effect

_MADE: Final = "lanes"
"""In `meta`, when the lanes of the database have been made."""
_AT_ONCE: Final = 1000


def lane_id(jobtype: str, domain: str) -> str:
    return f"{jobtype}|{domain}"


def keyed_lane_id(jobtype: str, domain: str) -> str:
    """Of the document for turns of the domain (queue/token_waits.py): no jobtype begins like that."""
    return f"|{jobtype}|{domain}"


def opening(jobtype: str, domain: str, priority: int, due_ms: int) -> Write:
    update: dict[str, dict[str, Any]] = {
        "$min": {"ready": due_ms},
        "$max": {"top": priority},
        "$inc": {"v": 1},
        "$setOnInsert": {"type": jobtype, "dom": domain},
    }
    return update_one({"_id": lane_id(jobtype, domain)}, update, upsert=True)


async def open_lanes_of(collections: Collections, effects: Iterable[Effect]) -> None:
    """Jobs entered these lanes: they may have something to offer. Repeating it does no harm."""
    entered: dict[tuple[str, str], tuple[int, int]] = {}
    for effect in effects:
        if effect.domain:
            place = (effect.jobtype, effect.domain)
            priority, due_ms = entered.get(place, (effect.priority, effect.due_ms))
            entered[place] = max(priority, effect.priority), min(due_ms, effect.due_ms)
    steps = [opening(*place, *values) for place, values in entered.items()]
    if steps:
        await upserted(lambda: write_each(collections.lanes, steps))


async def make_lanes(collections: Collections) -> None:
    """Once, for a database that is older than lanes: those of its queued jobs. Repeating it does no harm."""
    if await collections.meta.find_one({"_id": _MADE}) is not None:
        return
    special = {"domain": {"$regex": r"[*?\[]"}}
    await update_found(collections.rates, special, {"$set": {"pattern": True}})
    domains = {"_id": {"type": "$type", "dom": "$dom"}, "top": {"$max": "$prio"}}
    queued = {"s": QUEUED, "dom": {"$gt": ""}}
    found = await aggregate(collections.jobs, [{"$match": queued}, {"$group": domains}], hint=LISTING)
    steps = [opening(row["_id"]["type"], row["_id"]["dom"], row["top"], 0) for row in found]
    for start in range(0, len(steps), _AT_ONCE):
        some = steps[start : start + _AT_ONCE]
        await upserted(partial(write_each, collections.lanes, some))
    await upserted(lambda: collections.meta.update_one({"_id": _MADE}, {"$set": {"version": 1}}, upsert=True))
