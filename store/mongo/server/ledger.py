"""Counts every change of a job exactly once, without transactions.

The job documents are the truth. The counters are sums over changes of them, kept so that reading them costs
nothing per job; some of what they sum (runs that were retried, jobs that were purged) is in no document any
more. A change of jobs and its counting are two writes, and a crash may come between them, so:

1. begin: the plan (which jobs, what it would mean for the counters) is written into the document of one
   *writer*, under the writer's next number.
2. The jobs are changed. Each changed document notes that number, atomically with its change, among its
   last few.
3. commit: the counters are changed, each on condition that it has not seen this number of this writer yet. Turns
   of keys and lanes of rate domains are opened with it.

After a crash anyone can finish: read the plan, look which of its jobs carry the number, count those. Step
3 is idempotent, so it does not matter whether it had been done, in part or at all. A store object does
this for its own writers when a call of it failed in between; for those of a dead process, expire_locks
does, when they have not moved for LAPSE_MS. Nothing scans, the cost is that of one batch, and at rest the
counters are exact.

A writer does one change after the other. An object takes as many as it has changes under way at once (at most
MAX_WRITERS), and gives them back, for others to use, when it closes: the numbers that a counter document
remembers are as many as there were ever writers at once.
"""

import asyncio
import functools
import json
import uuid
import zlib
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from pymongo.errors import BulkWriteError

from store.mongo.server.bulk import update_one, write_each
from store.mongo.server.driver import DUPLICATE_KEY, Document, find_and_update, retried
from store.mongo.server.lane_opening import open_lanes_of
from store.mongo.server.schema import Collections, next_number
from store.mongo.server.tally import Effect, updates_of
from store.mongo.server.turn_opening import open_turns_of

LAPSE_MS: Final = 300_000
MAX_WRITERS: Final = 16
REMEMBERED: Final = 4
"""Numbers that a job document keeps. One is lost only if the job changes so often before it is counted."""

_NUMBER_BITS: Final = 40


class Change:
    """One change under way: the mark for its documents, and what came of it."""

    def __init__(self, mark: int) -> None:
        self.mark = mark
        self.applied: Sequence[Effect] = ()

    @property
    def stamp(self) -> dict[str, Any]:
        """To be part, as `$push`, of the update of every job of this change."""
        return {"ops": {"$each": [self.mark], "$slice": -REMEMBERED}}


class _Writer:
    def __init__(self, number: int, last: int) -> None:
        self.number = number
        self.last = last


class Ledger:
    def __init__(self, collections: Collections) -> None:
        self._collections = collections
        self._owner = uuid.uuid4().hex
        self._idle: list[_Writer] = []
        self._doubtful: list[_Writer] = []
        self._places = asyncio.Semaphore(MAX_WRITERS)
        self._clock_ms = 0  # the latest time that any verb brought: some bring none

    @asynccontextmanager
    async def change(self, effects: Sequence[Effect], now_ms: int) -> AsyncIterator[Change]:
        """Around the writes that change jobs: `effects` is what it will mean if all of them apply.

        The body stamps the documents and sets `applied` to the effects of those that did change; after it
        those are counted. If the body fails, what it had done is found out and counted later.
        """
        self._clock_ms = max(self._clock_ms, now_ms)
        async with self._places:
            writer = await self._begun(effects, now_ms)
            number = writer.last + 1
            try:
                change = Change(writer.number << _NUMBER_BITS | number)
                yield change
                await retried(lambda: self._count(writer.number, number, change.applied, now_ms))
                writer.last = number
            except BaseException:
                self._doubtful.append(writer)
                raise
            self._idle.append(writer)

    async def settle(self) -> None:
        """Count what failed calls of this object left in doubt."""
        while self._doubtful:
            writer = self._doubtful.pop()
            try:
                found = await self._collections.writers.find_one({"_id": writer.number, "owner": self._owner})
                if found is not None:
                    await self._finish(found)
                    writer.last = found["last"]
                    self._idle.append(writer)
            except BaseException:
                self._doubtful.append(writer)
                raise

    async def settle_lapsed(self, *, gone_before_ms: int, limit: int) -> None:
        """Count what processes that are gone left in doubt, and make their writers free for others."""
        lapsed = {"owner": {"$ne": None}, "at": {"$lt": gone_before_ms}}
        for found in await self._collections.writers.find(lapsed).to_list(limit):
            if found["owner"] != self._owner:
                await self._finish(found)
                await self._free({"_id": found["_id"], "owner": found["owner"], "last": found["last"]})

    async def close(self) -> None:
        """Give the writers back; those in doubt stay, for whoever finds them lapsed."""
        numbers = [writer.number for writer in self._idle]
        self._idle.clear()
        if numbers:
            await self._free({"_id": {"$in": numbers}, "owner": self._owner})

    async def _free(self, which: Document) -> None:
        await self._collections.writers.update_many(which, {"$set": {"owner": None}, "$unset": {"plan": ""}})

    async def _begun(self, effects: Sequence[Effect], now_ms: int) -> _Writer:
        """A writer whose next number has this plan."""
        plan = zlib.compress(json.dumps([now_ms, *effects]).encode(), 1)
        while True:
            writer = await self._take()
            try:
                begun = await retried(functools.partial(self._begin, writer, plan))
            except BaseException:
                self._doubtful.append(writer)
                raise
            if begun:
                return writer
            # It had not moved for so long that another daemon made it free. It did nothing since; take another.

    async def _take(self) -> _Writer:
        await self.settle()
        if self._idle:
            return self._idle.pop()
        return await retried(self._take_free)  # one whose answer was lost lapses

    async def _take_free(self) -> _Writer:
        taken = {"$set": {"owner": self._owner, "at": self._clock_ms}}
        free = await find_and_update(self._collections.writers, {"owner": None}, taken)
        if free is None:
            number = await next_number(self._collections, "writers")
            free = {"_id": number, "owner": self._owner, "last": 0, "at": self._clock_ms}
            await self._collections.writers.insert_one(free)
        return _Writer(free["_id"], free["last"])

    async def _begin(self, writer: _Writer, plan: bytes) -> bool:
        """Whether the writer is still ours. Repeating it changes nothing."""
        number = writer.last + 1
        found = await self._collections.writers.update_one(
            {"_id": writer.number, "owner": self._owner, "last": {"$in": [writer.last, number]}},
            {"$set": {"last": number, "plan": plan, "at": self._clock_ms}},
        )
        return found.matched_count == 1

    async def _finish(self, found: Document) -> None:
        """Count the last change of a writer, as far as it was made and not counted."""
        if "plan" not in found:
            return
        now_ms, *rows = json.loads(zlib.decompress(found["plan"]))
        effects = [Effect(*row) for row in rows]
        mark = found["_id"] << _NUMBER_BITS | found["last"]
        applied = await self.marked([effect.job_id for effect in effects], mark)
        await self._count(
            found["_id"], found["last"], [effect for effect in effects if effect.job_id in applied], now_ms
        )

    async def marked(self, job_ids: Collection[str], mark: int) -> set[str]:
        """Which of the jobs a change with that mark has reached."""
        rows = await self._collections.jobs.find({"_id": {"$in": list(job_ids)}, "ops": mark}, {"_id": 1}).to_list(None)
        return {row["_id"] for row in rows}

    async def _count(self, writer: int, number: int, effects: Sequence[Effect], now_ms: int) -> None:
        seen = f"seen.{writer}"
        updates = updates_of(effects, now_ms)
        if not updates:
            return
        await open_turns_of(self._collections, effects)
        await open_lanes_of(self._collections, effects)
        for update in updates.values():
            update.setdefault("$set", {})[seen] = number
        conditions = {key: {"_id": key, seen: {"$not": {"$gte": number}}} for key in updates}
        try:
            await write_each(
                self._collections.counters,
                [update_one(conditions[key], update, upsert=True) for key, update in updates.items()],
            )
        except BulkWriteError as error:
            problems = error.details["writeErrors"]
            is_unconfirmed = bool(error.details.get("writeConcernErrors"))
            if is_unconfirmed or any(problem["code"] != DUPLICATE_KEY for problem in problems):
                raise
            # There already: it has seen this number, or another writer made it in this moment. Without upsert
            # the condition tells the two apart.
            again = [sorted(updates)[problem["index"]] for problem in problems]
            await write_each(
                self._collections.counters,
                [
                    update_one(conditions[key], {k: v for k, v in updates[key].items() if k != "$setOnInsert"})
                    for key in again
                ],
            )
