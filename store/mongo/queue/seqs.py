"""The numbers of indexed queues: given in order, each to one job, without a hole.

A number is given before its job is stored. Until then it is noted as open, with the job's id: so nobody takes a job
that is not in yet for purged, and a job that comes again, because a process died or because two see to it at the same
time, gets the number that it has.
"""

from collections.abc import Sequence
from typing import NamedTuple

from store.mongo.server.core import Core
from store.mongo.server.driver import Document, upserted
from store.values.jobs import NewJob


async def numbered_types(db: Core, jobs: Sequence[NewJob]) -> dict[str, int | None]:
    """Types of which jobs are to be numbered: those with a consumer, with the last number that it let into the queue,
    and those of jobs that ask for a number, with None."""
    types: dict[str, int | None] = {job.jobtype: None for job in jobs if job.indexed}
    which = {"_id": {"$in": list({job.jobtype for job in jobs})}, "released": {"$gte": 0}}
    for row in await db.collections.types.find(which, {"released": 1, "pulled": 1}).to_list(None):
        if row.get("pulled"):
            types.pop(row["_id"], None)
        else:
            types[row["_id"]] = row["released"]
    return types


def is_beyond(released: int | None, job: NewJob, seq: int | None) -> bool:
    """Whether a consumer holds the job. `look_again` finds out if it was let in meanwhile."""
    return released is not None and seq is not None and seq > released and not job.parent


class Range(NamedTuple):
    """Consecutive numbers that were given to jobs of a type, and are open until all of these are in."""

    jobtype: str
    first: int
    ids: Sequence[str]


class Seqs(NamedTuple):
    by_id: dict[str, int]
    ranges: list[Range]
    """Those that the numbers are from."""
    old: set[str]
    """Jobs that are in, and need no number."""


async def give_seqs(
    db: Core, jobs: Sequence[NewJob], numbered: dict[str, int | None], now_ms: int, *, are_stored: bool = False
) -> Seqs:
    """The next numbers of their types, in the order of the batch: for jobs that ask for one, and for all of a type with
    a consumer. To be followed by `close_seqs` when the jobs have them. are_stored: the jobs are in, without a number.
    """
    queues: dict[str, list[str]] = {}
    for job in jobs:
        if numbered.get(job.jobtype) is not None or (job.indexed and job.jobtype in numbered):
            queues.setdefault(job.jobtype, []).append(job.id)
    seqs = Seqs({}, [], set())
    for jobtype, ids in queues.items():
        await _give(db, jobtype, ids, seqs, now_ms, are_stored=are_stored)
    return seqs


async def close_seqs(db: Core, seqs: Seqs) -> None:
    """The jobs with these numbers are in, or never will be. A range of which others are still missing, or have not got
    their numbers yet, stays open."""
    for jobtype, first, ids in seqs.ranges:
        others = [job_id for job_id in ids if job_id not in seqs.by_id]
        if not others or len(await _stored(db, others, is_numbered=True)) == len(others):
            await db.collections.types.update_one({"_id": jobtype}, {"$pull": {"open": {"first": first}}})


async def close_stored(db: Core, *, before_ms: int) -> None:
    """Close ranges that were opened before then and whose jobs are all in: whoever added them could not."""
    old = {"open": {"$elemMatch": {"at": {"$lt": before_ms}, "ids": {"$exists": True}}}}
    for row in await db.collections.types.find(old, {"open": 1}).to_list(None):
        ranges = [Range(row["_id"], part["first"], part.get("ids", ())) for part in row["open"]]
        await close_seqs(db, Seqs({}, [part for part in ranges if part.ids], set()))


async def _give(db: Core, jobtype: str, ids: Sequence[str], seqs: Seqs, now_ms: int, *, are_stored: bool) -> None:
    """The order matters: a job that got a number and was closed before the look at the type is seen by the look at the
    jobs, and one that gets its number later moves the head, so that this begins anew."""
    types = db.collections.types
    made = {"$setOnInsert": {"head": 0}}
    wanted = set(ids)
    while True:
        found = await types.find_one({"_id": jobtype}, {"head": 1, "open": 1})
        head: int = (found or {}).get("head", 0)
        parts = [Range(jobtype, part["first"], part.get("ids", ())) for part in (found or {}).get("open", ())]
        ranges = [part for part in parts if not wanted.isdisjoint(part.ids)]
        numbered = {job_id for part in ranges for job_id in part.ids}
        stored = await _stored(db, [job_id for job_id in ids if job_id not in numbered], is_numbered=are_stored)
        new = [job_id for job_id in ids if job_id not in numbered and job_id not in stored]
        if new:
            ranges.append(Range(jobtype, head + 1, new))
            moved: Document = {
                "$set": {"head": head + len(new)},
                "$push": {"open": {"first": head + 1, "at": now_ms, "ids": new}},
            }
            if found is None:
                await upserted(lambda: types.update_one({"_id": jobtype}, made, upsert=True))
            same = {"_id": jobtype, "head": head} if head else {"_id": jobtype, "head": {"$in": [0, None]}}
            if (await types.update_one(same, moved)).modified_count != 1:
                continue
        seqs.by_id.update({job_id: seq for job_id, seq in stored.items() if are_stored and seq is not None})
        for part in ranges:
            seqs.by_id.update({job_id: seq for seq, job_id in enumerate(part.ids, part.first) if job_id in wanted})
        seqs.ranges.extend(ranges)
        seqs.old.update(stored)
        return


async def _stored(db: Core, ids: Sequence[str], *, is_numbered: bool = False) -> dict[str, int | None]:
    """Of these jobs those that are in, or only those that have a number; and their numbers."""
    if not ids:
        return {}
    which: Document = {"_id": {"$in": list(ids)}} | ({"seq": {"$ne": None}} if is_numbered else {})
    rows = await db.collections.jobs.find(which, {"seq": 1}).to_list(None)
    return {row["_id"]: row.get("seq") for row in rows}
