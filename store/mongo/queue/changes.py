"""Changes of jobs together with their counting: conditional updates in one bulk write, inside the ledger."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from store.mongo.queue.endings import Step
from store.mongo.server.bulk import update_one, write_each
from store.mongo.server.core import Core
from store.mongo.server.driver import Document, aggregate, retried
from store.mongo.server.tally import Effect
from store.values.scoreboard import MAX_FAILURE_GROUPS, OTHER_FAILURES

MAX_KNOWN_FAILURES: Final = 100_000


async def apply(db: Core, steps: Sequence[Step], now_ms: int) -> set[str]:
    """Make the changes whose condition holds, and count them. Returns the ids of those jobs."""
    if not steps:
        return set()
    effects = await within_failure_groups(db, [step.effect for step in steps])
    async with db.ledger.change(effects, now_ms) as change:
        requests = [update_one(step.condition, {**step.update, "$push": change.stamp}) for step in steps]
        # Safe to repeat: what was changed does not meet its condition again, and carries the mark.
        done = await retried(lambda: write_each(db.collections.jobs, requests))
        ids = {effect.job_id for effect in effects}
        if done.matched < len(steps):
            ids = await db.ledger.marked(ids, change.mark)
        change.applied = [effect for effect in effects if effect.job_id in ids]
    return ids


async def apply_alike(
    db: Core, condition: Document, update: Document, effects: Sequence[Effect], now_ms: int
) -> set[str]:
    """As `apply`, where the change and its condition are the same for all."""
    if not effects:
        return set()
    ids = {effect.job_id for effect in effects}
    async with db.ledger.change(effects, now_ms) as change:
        which = {"_id": {"$in": list(ids)}, **condition}
        done = await retried(lambda: db.collections.jobs.update_many(which, {**update, "$push": change.stamp}))
        if done.matched_count < len(effects):
            ids = await db.ledger.marked(ids, change.mark)
        change.applied = [effect for effect in effects if effect.job_id in ids]
    return ids


async def within_failure_groups(db: Core, effects: list[Effect]) -> list[Effect]:
    """New kinds of failure count as "other" where the type has too many. Known ones cost no look."""
    unknown = {
        (effect.jobtype, effect.fingerprint)
        for effect in effects
        if effect.fingerprint and (effect.jobtype, effect.fingerprint) not in db.known_failures
    }
    if not unknown:
        return effects
    rows = await aggregate(
        db.collections.counters,
        [
            {"$match": {"k": "f", "type": {"$in": sorted({jobtype for jobtype, _ in unknown})}}},
            {"$project": {"type": 1, "fingerprint": 1}},
        ],
    )
    there = {(row["type"], row["fingerprint"]) for row in rows}
    counts = Counter(jobtype for jobtype, _ in there)
    refused = set()
    for jobtype, fingerprint in sorted(unknown - there):
        if counts[jobtype] >= MAX_FAILURE_GROUPS - 1:  # the last place is for "other"
            refused.add((jobtype, fingerprint))
        else:
            counts[jobtype] += 1
    if len(db.known_failures) > MAX_KNOWN_FAILURES:
        db.known_failures.clear()
    db.known_failures |= unknown - refused
    return [
        effect._replace(fingerprint=OTHER_FAILURES) if (effect.jobtype, effect.fingerprint) in refused else effect
        for effect in effects
    ]
