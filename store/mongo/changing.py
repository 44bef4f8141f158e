"""Changes of jobs together with their counting: conditional updates in one bulk write, inside the ledger."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from pymongo import UpdateMany, UpdateOne

from store.mongo.core import Core
from store.mongo.driver import Document, aggregate, retried
from store.mongo.endings import Step
from store.mongo.tally import OTHER, Effect

MAX_FAILURE_GROUPS: Final = 1000
MAX_KNOWN_FAILURES: Final = 100_000


class Changing(Core):
    async def apply(self, steps: Sequence[Step], now_ms: int) -> set[str]:
        """Make the changes whose condition holds, and count them. Answers the ids of those jobs."""
        if not steps:
            return set()
        effects = await self._within_failure_groups([step.effect for step in steps])
        async with self.ledger.change(effects, now_ms) as change:
            requests = [UpdateOne(step.condition, {**step.update, "$push": change.stamp}) for step in steps]
            # Safe to repeat: what was changed does not meet its condition again, and carries the mark.
            done = await retried(lambda: self.collections.jobs.bulk_write(requests, ordered=False))
            ids = {effect.job_id for effect in effects}
            if done.matched_count < len(steps):
                ids = await self.ledger.marked(ids, change.mark)
            change.applied = [effect for effect in effects if effect.job_id in ids]
        return ids

    async def apply_alike(
        self, condition: Document, update: Document, effects: Sequence[Effect], now_ms: int
    ) -> set[str]:
        """As `apply`, where the change and its condition are the same for all."""
        if not effects:
            return set()
        ids = {effect.job_id for effect in effects}
        async with self.ledger.change(effects, now_ms) as change:
            request = UpdateMany({"_id": {"$in": list(ids)}, **condition}, {**update, "$push": change.stamp})
            done = await retried(lambda: self.collections.jobs.bulk_write([request], ordered=False))
            if done.matched_count < len(effects):
                ids = await self.ledger.marked(ids, change.mark)
            change.applied = [effect for effect in effects if effect.job_id in ids]
        return ids

    async def _within_failure_groups(self, effects: list[Effect]) -> list[Effect]:
        """New kinds of failure count as "other" where the type has too many. Known ones cost no look."""
        unknown = {
            (effect.jobtype, effect.fingerprint)
            for effect in effects
            if effect.fingerprint and (effect.jobtype, effect.fingerprint) not in self._known_failures
        }
        if not unknown:
            return effects
        rows = await aggregate(
            self.collections.counters,
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
        if len(self._known_failures) > MAX_KNOWN_FAILURES:
            self._known_failures.clear()
        self._known_failures |= unknown - refused
        return [
            effect._replace(fingerprint=OTHER) if (effect.jobtype, effect.fingerprint) in refused else effect
            for effect in effects
        ]
