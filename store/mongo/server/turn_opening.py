"""Opening the turns of keys whose jobs changed (queue/turns.py). Here, because the ledger does it for every change."""

from collections.abc import Iterable
from typing import Any

from store.mongo.server.bulk import update_one, write_each
from store.mongo.server.driver import upserted
from store.mongo.server.schema import Collections
from store.mongo.server.tally import Effect


def turn_id(jobtype: str, key: str) -> str:
    return f"{jobtype}|{key}"


def opening(jobtype: str, key: str) -> dict[str, dict[str, Any]]:
    return {
        "$set": {"open": True},
        "$unset": {"idle": ""},
        "$inc": {"v": 1},
        "$setOnInsert": {"type": jobtype, "key": key, "held": [], "all": True, "at": None},
    }


async def open_turns_of(collections: Collections, effects: Iterable[Effect]) -> None:
    """Jobs of these turns changed: open them, and add what they ran. Repeating it does no harm."""
    ran_us: dict[tuple[str, str], int] = {}
    for effect in effects:
        if effect.key:
            place = (effect.jobtype, effect.key)
            ran_us[place] = ran_us.get(place, 0) + effect.duration_us
    steps = []
    for (jobtype, key), duration_us in ran_us.items():
        update = opening(jobtype, key)
        update["$inc"]["tag"] = duration_us
        steps.append(update_one({"_id": turn_id(jobtype, key)}, update, upsert=True))
    if steps:
        await upserted(lambda: write_each(collections.turns, steps))
