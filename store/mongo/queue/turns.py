"""Turns: the queues of keys. The jobs of a type that have the same key are one turn, and one document of `turns`:

    open   it may have something to offer; a claim takes open turns in order of `tag`
    at     closed until then; at the latest then it is looked at again
    tag    the runner time that it has used, in microseconds; `served` of the type: that of the turn last served;
           a claim takes from an open turn what it has saved up beyond its credit
    held   the deliveries that count against its cap: job, token, and when they were taken
           under a cap of one also the last deliveries of jobs that are to be tried again: nothing overtakes these
    all    `held` has every job that is to be tried again; it does not after a claim with another cap, because without
           a cap there may be very many
    v      grows with every change: a claim changes a turn only as it was read
    claims grows with every claim: adding jobs does not change it

Whatever changes a job of a key opens its turn afterwards (the ledger does, also after a crash). So a claim never walks
turns that may not run.

The cap holds without a transaction: a claim writes the deliveries into `held`, on condition of `v`, before it locks
the jobs. What is in `held` is checked against the jobs at every look: one that runs with that token counts; one
that is not locked yet counts as well, and after PENDING_MS it is fenced (its `rev` grows), so that the lock which is
still to come fails; any other is over. No clock decides whether a cap holds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from store.mongo.server.bulk import update_one, write_each
from store.mongo.server.core import Core
from store.mongo.server.driver import Document, find_and_update, retried, upserted
from store.mongo.server.schema import HELD, KEYED, QUEUED, RUNNING
from store.mongo.server.turn_opening import opening, turn_id
from store.names import KEY_CREDIT_US, PRIORITIES
from store.values.jobs import Job, NewJob

PENDING_MS: Final = 2000
"""A claim that has not locked its jobs by then has probably died."""
IDLE_MS: Final = 60_000
"""A turn without jobs is removed when it is found so a second time after this long."""
_NEEDED: Final = {"type": 1, "s": 1, "token": 1, "at": 1, "begun": 1}
_MOST_RETRIED: Final = 100
"""Jobs to be tried again that are found at once after the cap became one."""


async def note_turns(db: Core, jobs: Sequence[NewJob]) -> None:
    """To be called before jobs are inserted: their turns are there, and no key saved up more than its credit."""
    keys = {(job.jobtype, job.key) for job in jobs if job.key}
    if keys:
        await make_turns(db, keys)


async def make_turns(db: Core, keys: Iterable[tuple[str, str]]) -> None:
    keys = set(keys)
    types = db.collections.types
    names = {jobtype for jobtype, _ in keys}
    marks = [update_one({"_id": jobtype}, {"$set": {"keys": True}}, upsert=True) for jobtype in names]
    await retried(lambda: upserted(lambda: write_each(types, marks)))
    rows = await types.find({"_id": {"$in": list(names)}}, {"served": 1}).to_list(None)
    served = {row["_id"]: row.get("served", 0) for row in rows}
    steps = []
    for jobtype, key in keys:
        update = opening(jobtype, key)
        update["$max"] = {"tag": served.get(jobtype, 0) - KEY_CREDIT_US}
        steps.append(update_one({"_id": turn_id(jobtype, key)}, update, upsert=True))
    turns = db.collections.turns
    await retried(lambda: upserted(lambda: write_each(turns, steps)))


async def hold_places(db: Core, jobs: Iterable[Job]) -> None:
    """Put deliveries that an import brings into their turns: of jobs that run, or are to be tried again. Idempotent."""
    steps = [
        update_one(
            {"_id": turn_id(job.jobtype, job.key), "held.job": {"$ne": job.id}},
            {"$push": {"held": {"job": job.id, "token": job.token, "at": 0}}, "$inc": {"v": 1}},
        )
        for job in jobs
        if job.key
    ]
    if steps:
        await retried(lambda: write_each(db.collections.turns, steps))


class Standing:
    """What the turns of one round hold, as the jobs say."""

    def __init__(self, jobs: Mapping[str, Document]) -> None:
        self._jobs = jobs

    def held(self, turn: Document, now_ms: int) -> tuple[list[Document], list[Document]]:
        """The deliveries of a turn that count, and among them those that are to be fenced."""
        counting, doubtful = [], []
        for entry in turn["held"]:
            job = self._job(turn, entry)
            if job is None:
                continue
            if job["s"] == RUNNING and job["token"] == entry["token"]:
                counting.append(entry)
            elif job["s"] == QUEUED and job["token"] == entry["token"] - 1:
                counting.append(entry)
                if entry["at"] + PENDING_MS <= now_ms:
                    doubtful.append(entry)
        return counting, doubtful

    def running(self, turn: Document) -> list[str]:
        """The ids of its jobs that run."""
        return sorted(
            job["_id"]
            for entry in turn["held"]
            if (job := self._job(turn, entry)) is not None and job["s"] == RUNNING and job["token"] == entry["token"]
        )

    def retried(self, turn: Document) -> list[Document]:
        """Those of its deliveries that ended and are to be tried again, in order. One that a claim has chosen and not
        locked yet is among them, and so is one that a consumer holds back meanwhile."""
        found = {
            job["_id"]: job
            for entry in turn["held"]
            if (job := self._job(turn, entry)) is not None
            and job["s"] in {QUEUED, HELD}
            and job["token"] in {entry["token"], entry["token"] - 1}
            and "begun" in job
        }
        return sorted(found.values(), key=lambda job: (job["at"], job["_id"]))

    def _job(self, turn: Document, entry: Document) -> Document | None:
        job = self._jobs.get(entry["job"])
        return job if job is not None and job["type"] == turn["type"] else None  # it may have moved to another type


def first_queued(jobs: Iterable[Document]) -> Document | None:
    return next((job for job in jobs if job["s"] == QUEUED), None)


def queued_of(turn: Document) -> Document:
    return {"type": turn["type"], "key": turn["key"], "s": QUEUED, "prio": {"$in": list(PRIORITIES)}}


async def note_retried(db: Core, turn: Document) -> Document | None:
    """Put queued jobs that are to be tried again into `held`, where it may lack some. Returns the turn as it is then,
    or None if a claim has changed it.

    It reads all queued jobs of the key, which may take long. Jobs that are added meanwhile do not matter, because they
    are not to be tried again: else a key with a long queue that always grows would get no claim.
    """
    which = queued_of(turn) | {"begun": {"$exists": True}}
    cursor = db.collections.jobs.find(which, _NEEDED, hint=KEYED).sort([("at", 1), ("_id", 1)])
    found = await cursor.limit(_MOST_RETRIED).to_list(_MOST_RETRIED)
    entries = [{"job": job["_id"], "token": job["token"], "at": 0} for job in found]
    noted: Document = {"$push": {"held": {"$each": entries}}} if found else {"$set": {"all": True}}
    same = {"_id": turn["_id"], "claims": turn.get("claims")}
    return await find_and_update(db.collections.turns, same, noted | {"$inc": {"v": 1}})


async def read_standing(db: Core, turns: Sequence[Document]) -> Standing:
    named = [entry["job"] for turn in turns for entry in turn["held"]]
    if not named:
        return Standing({})
    rows = db.collections.jobs.find({"_id": {"$in": named}}, _NEEDED)
    return Standing({row["_id"]: row for row in await rows.to_list(None)})


async def fence(db: Core, entry: Document) -> bool:
    """Make the lock of a delivery that is still to come fail. False: it came before."""
    pending = {"_id": entry["job"], "s": QUEUED, "token": entry["token"] - 1}
    done = await db.collections.jobs.update_one(pending, {"$inc": {"rev": 1}})
    return done.matched_count == 1
