"""The window over a numbered type: which jobs it lets into the queue, how far all are over, and what it holds.

`released` in the document of a type is the last number that was let in; it is absent while the type has no consumer.

Whoever moves a window, or ends it, writes `released` and then looks for held jobs. Whoever adds, replays or holds a job
writes that it is held and then looks at `released` again (`look_again`). So one of the two sees the other.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from store.mongo.queue.changes import apply
from store.mongo.queue.endings import NEEDED, Step, as_read, enter_step, key_of
from store.mongo.server import schema
from store.mongo.server.core import Core
from store.mongo.server.driver import Document
from store.mongo.server.tally import Effect
from store.values.consumers import IndexEnd
from vocabulary.states import Code

_NOT_OVER: Final = frozenset({*schema.LIVE_STATES, schema.HIDDEN})
_CHUNK: Final = 500


class Numbered(NamedTuple):
    """Of a type: the last number whose job is in, progress, and the last that was let in (None: no consumer)."""

    head: int
    processed: int
    released: int | None


class HeldJob(NamedTuple):
    jobtype: str
    id: str
    seq: int


async def numbered(db: Core, jobtype: str) -> Numbered:
    fields = {"head": 1, "processed": 1, "released": 1, "open.first": 1}
    found = await db.collections.types.find_one({"_id": jobtype}, fields) or {}
    # Numbers whose jobs are just being added are not there yet.
    head = min(found.get("head", 0), *(part["first"] - 1 for part in found.get("open", ())), 1 << 62)
    return Numbered(head, found.get("processed", 0), found.get("released"))


_BY_WINDOW: Final[Document] = {"parent": None, "sched.pause": None}
"""Of a job that is held: not by its parent, and not because it is paused."""


async def windows(db: Core, jobtypes: Collection[str], **which: Document) -> dict[str, int]:
    """Of these types those that have a consumer, and the last number that was let in."""
    consumed = {"_id": {"$in": list(jobtypes)}, "released": {"$gte": 0}} | which
    rows = await db.collections.types.find(consumed, {"released": 1}).to_list(None) if jobtypes else []
    return {row["_id"]: row["released"] for row in rows}


async def let_in(db: Core, jobtype: str, after: int, until: int, now_ms: int) -> int:
    """Held jobs with these numbers enter the queue."""
    which = {"type": jobtype, "seq": {"$gt": after, "$lte": until}, "s": schema.HELD, **_BY_WINDOW}
    return await _queue(db, which, now_ms)


async def let_go(db: Core, jobtype: str, limit: int, now_ms: int) -> int:
    """Held jobs with any number enter the queue."""
    which = {"s": schema.HELD, "type": jobtype, **_BY_WINDOW}
    return await _queue(db, which, now_ms, limit)


async def look_again(db: Core, held: Collection[HeldJob], now_ms: int) -> None:
    """To be called when jobs were held: those that the window has let in by now, or whose consumer has ended, enter the
    queue."""
    released = await windows(db, {job.jobtype for job in held})
    free = [job.id for job in held if job.seq <= released.get(job.jobtype, job.seq)]
    if free:
        await _queue(db, {"_id": {"$in": free}, "s": schema.HELD, **_BY_WINDOW}, now_ms)


async def _queue(db: Core, which: Document, now_ms: int, limit: int = 0) -> int:
    rows = await db.collections.jobs.find(which, NEEDED).limit(limit).to_list(None)
    queued = 0
    for start in range(0, len(rows), _CHUNK):
        steps = [enter_step(row, now_ms) for row in rows[start : start + _CHUNK]]
        queued += len(await apply(db, steps, now_ms))
    return queued


async def hold(db: Core, jobtype: str, after: int, until: int, now_ms: int) -> int:
    """Queued jobs with these numbers leave the queue."""
    which = {"type": jobtype, "seq": {"$gt": after, "$lte": until}, "s": schema.QUEUED, "parent": None}
    rows = await db.collections.jobs.find(which, {**NEEDED, "seq": 1}).to_list(None)
    held = 0
    for start in range(0, len(rows), _CHUNK):
        some = rows[start : start + _CHUNK]
        ids = await apply(db, [_hold_step(row) for row in some], now_ms)
        await look_again(db, [HeldJob(jobtype, row["_id"], row["seq"]) for row in some if row["_id"] in ids], now_ms)
        held += len(ids)
    return held


def _hold_step(document: Document) -> Step:
    update: dict[str, Document] = {"$set": {"s": schema.HELD}, "$unset": {"d": ""}}
    effect = Effect(
        document["type"], document["_id"], blocked=1, deferred=-int(document.get("d", False)), key=key_of(document)
    )
    return Step(as_read(document), update, effect)


async def advanced(db: Core, jobtype: str, processed: int, until: int, *, skip_failed: bool) -> tuple[int, int | None]:
    """How far everything is over, from processed on and no further than until; and which number that ended badly stops
    it."""
    window = {"type": jobtype, "seq": {"$gt": processed, "$lte": until}}
    for job in await db.collections.jobs.find(window, {"seq": 1, "s": 1}).sort("seq", 1).to_list(None):
        if job["s"] in _NOT_OVER:
            return job["seq"] - 1, None
        if not skip_failed and schema.CODE_OF.get(job["s"], Code.OK) != Code.OK:
            return job["seq"] - 1, job["seq"]
    return max(processed, until), None


async def ends(db: Core, jobtype: str, after: int, until: int) -> tuple[IndexEnd, ...]:
    """What is over of these numbers, which were all given."""
    window = {"type": jobtype, "seq": {"$gt": after, "$lte": until}}
    found: list[IndexEnd] = []
    expected = after + 1
    for job in await db.collections.jobs.find(window, {"seq": 1, "s": 1}).sort("seq", 1).to_list(None):
        found += [IndexEnd(missing, "", None) for missing in range(expected, job["seq"])]
        if job["s"] == schema.PURGED:
            found.append(IndexEnd(job["seq"], "", None))
        elif job["s"] not in _NOT_OVER:
            found.append(IndexEnd(job["seq"], job["_id"], schema.CODE_OF[job["s"]]))
        expected = job["seq"] + 1
    return (*found, *(IndexEnd(missing, "", None) for missing in range(expected, until + 1)))
