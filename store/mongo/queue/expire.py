"""Upkeep in bounded steps, by any daemon: lapsed leases, jobs that came due, old jobs, traces of crashes."""

from collections import defaultdict
from collections.abc import Sequence
from math import inf
from typing import Final

from store.mongo.queue.appearing import follow_made, is_waiting_to_appear
from store.mongo.queue.changes import apply, apply_alike
from store.mongo.queue.create import drop_hidden
from store.mongo.queue.deleted import keep_ids
from store.mongo.queue.documents import history_documents, history_from, outcome_bytes
from store.mongo.queue.endings import NEEDED, Step, archive_step, key_of
from store.mongo.queue.old_names import drop_names
from store.mongo.queue.rates import collect_full
from store.mongo.queue.relatives import Budget, drop_extra_round, end_with_relatives
from store.mongo.queue.seqs import close_stored
from store.mongo.server import schema
from store.mongo.server.blobs import kept_by
from store.mongo.server.bulk import update_found
from store.mongo.server.core import Core, once
from store.mongo.server.driver import Cursor, Document
from store.mongo.server.ledger import LAPSE_MS
from store.mongo.server.tally import Effect, entering
from store.names import AHEAD_MS
from store.values.jobs import ABANDONED, MOST_ATTEMPTS, NOT_ENDED_IN_TIME, ExpireReport, lost, with_attempt
from vocabulary.states import FAILED_CODES, FINAL_CODES

_SOON_MS: Final = 5000
"""Longer than it takes to add a batch of numbered jobs."""
_MOST_FOLLOWED: Final = 20_000
"""Of parents that have ended, in one call of expire_locks, which is to come back to lapsed leases soon."""
_DONE: Final = tuple(schema.ARCHIVED[code] for code in FINAL_CODES - FAILED_CODES)
_FAILED: Final = tuple(schema.ARCHIVED[code] for code in FAILED_CODES)


_LAPSED_FIELDS: Final = frozenset(
    {"type", "due", "d", "key", "dom", "prio", "token", "attempts", "claimed", "lock", "past", "retry_after"}
)


class MongoExpire(Core):
    @once
    async def expire_locks(self, *, now_ms: int, limit: int = 1000, owner: str | None = None) -> int:
        jobs = self.collections.jobs
        lapsed: Document = {"s": schema.RUNNING} | ({"at": {"$lte": now_ms}} if owner is None else {"lock": owner})
        needed = dict.fromkeys(_LAPSED_FIELDS, 1)
        rows = await jobs.find(lapsed, needed, hint=schema.UPKEEP).sort("at", 1).limit(limit).to_list(limit)
        noted = [row for row in rows if _is_noted(row, now_ms)]
        expired = len(await apply(self, [_queue_step(row, lapsed, now_ms) for row in noted], now_ms))
        if len(rows) > len(noted):
            # No counter changes with it: running is counted from its index.
            done = await jobs.update_many(
                {"_id": {"$in": [row["_id"] for row in rows if row not in noted]}, **lapsed},
                [{"$set": {"s": schema.QUEUED, "at": "$due", "past": _past_and_lost(now_ms)}}, {"$unset": "lock"}],
            )
            expired += done.modified_count
        await _promote_due(self, now_ms, limit)
        gone_before_ms, budget = now_ms - LAPSE_MS, Budget(_MOST_FOLLOWED)
        await finish_interrupted(self, now_ms, limit, gone_before_ms=gone_before_ms, budget=budget)
        await collect_full(self, now_ms, limit)
        return expired

    @once
    async def cut_leases(self, *, now_ms: int, longest_ms: int, limit: int = 1000) -> int:
        jobs, ahead = self.collections.jobs, {"$gt": now_ms + AHEAD_MS}
        renewed: Document = {"retry_after": None, "at": {"$gt": now_ms + AHEAD_MS + longest_ms}}
        which: Document = {"s": schema.RUNNING, "at": ahead, "$or": [{"claimed": ahead}, renewed]}
        rows = await jobs.find(which, {"_id": 1}, hint=schema.UPKEEP).limit(limit).to_list(limit)
        length_ms = {"$min": [{"$subtract": ["$at", "$claimed"]}, {"$max": [longest_ms, "$retry_after"]}]}
        from_now = {"at": {"$add": [now_ms, length_ms]}, "claimed": {"$min": ["$claimed", now_ms]}}
        await jobs.update_many({"_id": {"$in": [row["_id"] for row in rows]}, **which}, [{"$set": from_now}])
        return len(rows)

    @once
    async def expire_jobs(
        self,
        *,
        now_ms: int,
        done_before_ms: int,
        waiting_before_ms: int,
        failed_before_ms: int | None = None,
        tenant: str | None = None,
        jobtype: str | None = None,
        limit: int = 1000,
    ) -> ExpireReport:
        where: Document = {} if tenant is None else {"type": schema.types_of(tenant)}
        if jobtype is not None:
            where = {"type": jobtype}
        failed_ms = done_before_ms if failed_before_ms is None else failed_before_ms
        archived = await _oldest_ended(self, where, _DONE, done_before_ms, limit)
        archived += await _oldest_ended(self, where, _FAILED, failed_ms, limit - len(archived))
        purged = await purge_jobs(self, archived, now_ms)
        left, since = limit - len(archived), _in_queue_since(waiting_before_ms)
        waiting: list[Document] = []
        if left > 0:
            found = _find_old(self, where | since, schema.QUEUED, waiting_before_ms, left)
            waiting = await found.limit(left).to_list(left)
        abandoned = await _abandon(self, waiting, now_ms)
        return ExpireReport(purged, abandoned, more=len(archived) + len(waiting) >= limit)


def _in_queue_since(before_ms: int) -> Document:
    """The condition that a job was in the queue before then, and has not run since. Of what repeats only the extra
    rounds: a schedule does not end because its type was busy or paused."""
    not_since: Document = {"$not": {"$gte": before_ms}}
    ends = [{"repeat": {"$in": [None, ""]}}, {"sched.regular": {"$exists": True}}]
    return {"create": {"$lt": before_ms}, "done": not_since, "claimed": not_since, "$or": ends}


def _past_and_lost(now_ms: int) -> Document:
    """The history after a run that was lost, as `with_attempt` has it: many jobs are changed in one write."""
    (run,) = history_documents(with_attempt((), 0, lost(0, now_ms), ""))
    claimed_ms = {"$ifNull": ["$claimed", 0]}
    lasted_us = {"$multiply": [{"$max": [{"$subtract": [now_ms, claimed_ms]}, 0]}, 1000]}
    run |= {"number": "$attempts", "started_ms": claimed_ms, "duration_us": lasted_us, "daemon": "$lock"}
    run["message"] = {"$cond": [{"$gt": ["$retry_after", None]}, NOT_ENDED_IN_TIME, run["message"]]}
    return {"$slice": [{"$concatArrays": [{"$ifNull": ["$past", []]}, [run]]}, -MOST_ATTEMPTS]}


def _is_noted(row: Document, now_ms: int) -> bool:
    """Whether the ledger must know that the job is queued again: its lane or its turn is to be opened, also after a
    crash; or it counts as deferred, because one that was started before the store had it may be due later than its
    lease lapses."""
    return _is_early(row, now_ms) or bool(row.get("dom") or row.get("key"))


def _is_early(row: Document, now_ms: int) -> bool:
    return row["due"] > now_ms and not row.get("d", False)


def _queue_step(row: Document, lapsed: Document, now_ms: int) -> Step:
    run = lost(row.get("claimed", 0), now_ms, is_fixed=row.get("retry_after") is not None)
    history = with_attempt(history_from(row), row["attempts"], run, row["lock"])
    is_early = _is_early(row, now_ms)
    queued = {"s": schema.QUEUED, "at": row["due"], "past": history_documents(history)}
    return Step(
        {"_id": row["_id"], "token": row["token"], "d": row.get("d"), **lapsed},
        {"$set": queued | ({"d": True} if is_early else {}), "$unset": {"lock": ""}},
        entering(Effect(row["type"], row["_id"], deferred=int(is_early), key=key_of(row)), row),
    )


async def _promote_due(db: Core, now_ms: int, limit: int) -> None:
    """Count deferred jobs that came due as waiting, so that readers need not look for them."""
    due: Document = {"d": True, "due": {"$lte": now_ms}, "s": schema.QUEUED}
    rows = await db.collections.jobs.find(due, {"type": 1}, hint=schema.DEFERRED).limit(limit).to_list(limit)
    effects = [Effect(row["type"], row["_id"], deferred=-1) for row in rows]
    await apply_alike(db, due, {"$unset": {"d": ""}}, effects, now_ms)


async def finish_interrupted(
    db: Core, now_ms: int, limit: int, *, gone_before_ms: int, budget: Budget | None = None
) -> None:
    """Finish what crashed processes, or failed calls, had begun. A process that gave no sign since gone_before_ms
    counts as crashed. budget: for the children of parents that have ended; the rest of them is left."""
    await db.ledger.settle()
    await db.ledger.settle_lapsed(gone_before_ms=gone_before_ms, limit=limit)
    jobs = db.collections.jobs
    left = jobs.find({"todo": {"$exists": True}}, {"_id": 1}, hint=schema.TODO)
    for row in await left.limit(limit).to_list(limit):
        await follow_made(db, [row["_id"]], now_ms, budget)
    old = {"s": schema.HIDDEN, "at": {"$lt": gone_before_ms}}
    for row in await jobs.find(old, NEEDED, hint=schema.UPKEEP).limit(limit).to_list(limit):
        if not await is_waiting_to_appear(db, row):
            await drop_hidden(db, row, now_ms)
    needed = {"type": 1, "unique": 1, "blob": 1, "out.blob": 1}
    purged = jobs.find({"s": schema.PURGED}, needed, hint=schema.UPKEEP)
    await _remove(db, await purged.limit(limit).to_list(limit), now_ms, keeps_ids=True)
    await close_stored(db, before_ms=now_ms - _SOON_MS)
    gone = {"at": {"$lt": gone_before_ms}, "job": {"$exists": False}}
    await update_found(db.collections.types, {"open.at": {"$lt": gone_before_ms}}, {"$pull": {"open": gone}})


def _find_old(db: Core, where: Document, state: str, before_ms: int, limit: int) -> Cursor:
    """Those of one state, because only a single range of an index ends at the limit everywhere."""
    hint = None if "type" in where else schema.UPKEEP
    old = where | {"s": state, "at": {"$lt": before_ms}}
    return db.collections.jobs.find(old, NEEDED, hint=hint, batch_size=limit)


async def _oldest_ended(db: Core, where: Document, states: Sequence[str], before_ms: int, limit: int) -> list[Document]:
    """Past those that a parent still asks for: however many these are, a step comes to the others."""
    found: list[Document] = []
    for state in states:
        if len(found) >= limit:
            break
        cursor = _find_old(db, where, state, before_ms, limit)
        try:
            while len(found) < limit and (some := await cursor.to_list(limit)):
                found += await _unasked(db, some)
        finally:
            await cursor.close()
    return found[:limit]


async def _unasked(db: Core, children: Sequence[Document]) -> list[Document]:
    """Those that no parent asks for any more: it is over, or repeats and is in a later round, or waits for
    it."""
    parents = sorted({child["parent"] for child in children if child.get("parent")})
    if not parents:
        return list(children)
    live = {"_id": {"$in": parents}, "s": {"$in": list(schema.LIVE_STATES)}}
    rows = await db.collections.jobs.find(live, {"repeat": 1, "planned": 1, "due": 1}).to_list(len(parents))
    since_ms = {row["_id"]: row.get("planned", row["due"]) if row.get("repeat") else 0 for row in rows}
    return [child for child in children if child["create"] < since_ms.get(child.get("parent"), inf)]


async def purge_jobs(db: Core, documents: Sequence[Document], now_ms: int, *, keeps_ids: bool = False) -> int:
    """Remove archived jobs as they were read. Those that have moved since are left. keeps_ids: of those whose lines may
    be read again."""
    effects = [
        Effect(
            document["type"],
            document["_id"],
            jobs=-1,
            size_bytes=-document["size"] - outcome_bytes(document),
        )
        for document in documents
    ]
    # First out of sight and counted, then removed: a crash between leaves what expire_locks removes.
    alike: defaultdict[tuple[int, int | None], list[Effect]] = defaultdict(list)
    for effect, document in zip(effects, documents, strict=True):
        alike[document["token"], document.get("replays")].append(effect)
    gone: set[str] = set()
    for (token, replays), some in alike.items():
        # What was replayed and cancelled since has the same token, and maybe another size.
        as_read = {"s": {"$in": list(schema.ARCHIVED_STATES)}, "token": token, "replays": replays, "todo": None}
        gone |= await apply_alike(db, as_read, {"$set": {"s": schema.PURGED}}, some, now_ms)
    await _remove(db, [document for document in documents if document["_id"] in gone], now_ms, keeps_ids=keeps_ids)
    return len(gone)


async def _remove(db: Core, rows: Sequence[Document], now_ms: int, *, keeps_ids: bool) -> None:
    if rows:
        await db.blobs.remove(file_id for row in rows for file_id in kept_by(row))
        ids = [row["_id"] for row in rows]
        await drop_names(db, rows)
        if keeps_ids:
            await keep_ids(db, ids, now_ms)
        await db.collections.jobs.delete_many({"_id": {"$in": ids}, "s": schema.PURGED})


async def _abandon(db: Core, documents: Sequence[Document], now_ms: int) -> int:
    """An extra round alone: the schedule goes on."""
    extra = [document for document in documents if document.get("repeat")]
    documents = [document for document in documents if document not in extra]
    plain = [document for document in documents if not document["kin"]]
    steps = [archive_step(document, ABANDONED, None, now_ms=now_ms, ran=False) for document in plain]
    done = await apply(db, steps, now_ms)
    abandoned = len(done)
    for document in extra:
        abandoned += await drop_extra_round(db, document, now_ms)
    for document in documents:
        if document["kin"]:
            ended = await end_with_relatives(db, document, ABANDONED, None, owner=None, now_ms=now_ms)
            abandoned += ended is not None
    return abandoned
