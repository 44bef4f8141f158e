"""Jobs that a recorded delivery made appear: each takes its name, its place with its parent and its number, and is then
shown. Every step is idempotent, and expire_locks repeats what a crash interrupted.

Most are shown together. One with a unique name is shown alone, because the next one with that name must find it there.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from store.errors import Conflict
from store.mongo.queue.add import add_effect
from store.mongo.queue.changes import apply
from store.mongo.queue.create import as_hidden, change_holder, drop_hidden, find_holder, find_name, take_name
from store.mongo.queue.documents import job_from, kept_data
from store.mongo.queue.endings import MAKE, Step, makings
from store.mongo.queue.relatives import HOLD, Budget, follow, join_parent, leave_parent, new_join, note_appeared
from store.mongo.queue.seqs import close_seqs, give_seqs, is_beyond, numbered_types
from store.mongo.queue.window import HeldJob, look_again
from store.mongo.server import schema
from store.mongo.server.bulk import update_one, write_each
from store.mongo.server.core import Core
from store.mongo.server.driver import Document
from store.values.jobs import NewJob

_ATTEMPTS: Final = 20
_CHUNK: Final = 500


class _Hidden(NamedTuple):
    """A job that is to appear. is_held: its parent is running, and it waits for the end of that. is_sibling: that
    parent is not its maker, and may have ended since it was looked at."""

    job: NewJob
    document: Document
    is_held: bool
    is_sibling: bool


def maker_of(job_id: str, name: str) -> str:
    """What a hidden job notes in `by`: whose end, and which, has it appear."""
    return f"{job_id}.{name}"


async def follow_made(db: Core, job_ids: Sequence[str], now_ms: int, budget: Budget | None = None) -> None:
    """As `follow`, for jobs that may have made others: those come first. Idempotent."""
    which = {"_id": {"$in": list(job_ids)}, "todo": {"$exists": True}}
    rows = await db.collections.jobs.find(which, {"todo": 1}).to_list(None) if job_ids else []
    makers = [maker_of(row["_id"], mark.removeprefix(MAKE)) for row in rows for mark in makings(row)]
    if makers:
        await _show_made(db, makers, now_ms)
    for job_id in await _strike_off(db, rows):
        await follow(db, job_id, now_ms, budget)


async def is_waiting_to_appear(db: Core, document: Document) -> bool:
    """Whether a hidden job was made by a delivery whose end is recorded: then it is not a trace of a crash."""
    by = document.get("by")
    if by is None:
        return False
    maker_id, _, name = by.rpartition(".")
    return await db.collections.jobs.find_one({"_id": maker_id, "todo": f"{MAKE}{name}"}, {"_id": 1}) is not None


async def _strike_off(db: Core, rows: Sequence[Document]) -> list[str]:
    """What these deliveries made has appeared. Returns the jobs that have more to do: in the order of their rows."""
    over = [row for row in rows if len(makings(row)) == len(row["todo"])]
    rest = [row for row in rows if len(makings(row)) < len(row["todo"])]
    if over:
        steps = [update_one({"_id": row["_id"], "todo": row["todo"]}, {"$unset": {"todo": ""}}) for row in over]
        if (await write_each(db.collections.jobs, steps)).matched < len(over):
            rest = list(rows)  # somebody else has struck off some, or noted more
    marks = [update_one({"_id": row["_id"]}, {"$pullAll": {"todo": makings(row)}}) for row in rest if makings(row)]
    if marks:
        await write_each(db.collections.jobs, marks)
    return [row["_id"] for row in rest]


async def _show_made(db: Core, makers: Sequence[str], now_ms: int) -> None:
    """Have the jobs of these deliveries appear. Those that have are not hidden any more."""
    which = {"s": schema.HIDDEN, "by": {"$in": list(makers)}}
    found = db.collections.jobs.find(which, hint=schema.UPKEEP, batch_size=_CHUNK).sort("_id", 1)
    rows = await found.to_list(None)
    for together in _steps(rows):
        hidden = []
        for document in together:
            place = await _placed(db, document, now_ms)
            if place is None:
                await drop_hidden(db, document, now_ms)
            else:
                hidden.append(place)
        if hidden:
            await _show(db, hidden, now_ms)


def _steps(rows: Sequence[Document]) -> Iterator[list[Document]]:
    """In their order: each with a unique name alone, the others in as few steps as possible."""
    for _, some in groupby(rows, lambda row: row["_id"] if row.get("unique") else ""):
        alike = list(some)
        for start in range(0, len(alike), _CHUNK):
            yield alike[start : start + _CHUNK]


async def _placed(db: Core, document: Document, now_ms: int) -> _Hidden | None:
    """None: it has no place any more. A job with a unique name that is taken changes the one that has it."""
    job = _new_job(document, await db.blobs.get(kept_data(document)))
    if job.unique and not await _take_name(db, job, frozenset(document["keeps"]), now_ms):
        return None
    held = job.parent != "" and job.parent == document["by"].rpartition(".")[0]
    is_sibling = job.parent != "" and not held
    if is_sibling:
        join = new_join()
        if not (await db.collections.jobs.update_one(as_hidden(document), {"$set": {"join": join}})).matched_count:
            return None  # somebody else has had it appear, or removed it
        if "join" in document:  # who gave it that one was interrupted, or comes too late
            await leave_parent(db, job.parent, document["join"])
        document |= {"join": join}
        runs = await join_parent(db, job.parent, join)
        if runs is None:
            return None
        held = runs
    return _Hidden(job, document, held, is_sibling)


async def _show(db: Core, hidden: Sequence[_Hidden], now_ms: int) -> None:
    beyond = await _number(db, hidden, now_ms)  # also children, which no window holds
    steps = []
    for job, document, is_held, is_sibling in hidden:
        held = is_held or job.id in beyond
        deferred = not held and job.dt_ms > now_ms
        shown: Document = {"s": schema.HELD if held else schema.QUEUED, "at": job.dt_ms}
        shown |= ({"todo": [HOLD]} if is_sibling else {}) | ({"d": True} if deferred else {})
        effect = add_effect(job, now_ms)._replace(deferred=int(deferred), blocked=int(held))
        dropped = {"by": "", "keeps": ""} | ({} if is_sibling else {"join": ""})
        update = {"$set": shown, "$unset": dropped}
        steps.append(Step(as_hidden(document), update, effect))
    shown_ids = await apply(db, steps, now_ms)
    for job, document, _, is_sibling in hidden:
        if job.unique and job.id not in shown_ids:  # another job got the name first, and removed this one
            await _take_name(db, job, frozenset(document["keeps"]), now_ms)
        if is_sibling and job.id not in shown_ids:
            await leave_parent(db, job.parent, document["join"])
        elif is_sibling:
            await follow(db, job.id, now_ms)  # the parent may have ended in the meantime
        elif "join" in document and job.id in shown_ids:
            await note_appeared(db, job.parent, document["join"])
    if beyond:
        await look_again(db, list(beyond.values()), now_ms)


async def _number(db: Core, hidden: Sequence[_Hidden], now_ms: int) -> Mapping[str, HeldJob]:
    """Give them the next numbers of their types if these have consumers. Returns the jobs that consumers hold."""
    numbered = await numbered_types(db, [it.job for it in hidden])
    if not numbered:
        return {}
    seqs = await give_seqs(
        db, [it.job for it in hidden if it.document.get("seq") is None], numbered, now_ms, are_stored=True
    )
    if seqs.by_id:
        given = [
            update_one({"_id": job_id, "s": schema.HIDDEN}, {"$set": {"seq": seq}})
            for job_id, seq in seqs.by_id.items()
        ]
        await write_each(db.collections.jobs, given)
        await close_seqs(db, seqs)
    beyond = {}
    for job, document, *_ in hidden:
        seq = seqs.by_id.get(job.id, document.get("seq"))
        if seq is not None and is_beyond(numbered.get(job.jobtype), job, seq):
            beyond[job.id] = HeldJob(job.jobtype, job.id, seq)
    return beyond


async def _take_name(db: Core, job: NewJob, keeps: frozenset[str], now_ms: int) -> bool:
    for _ in range(_ATTEMPTS):
        name = await find_name(db, job.jobtype, job.unique)
        if name["job"] == job.id:
            return True
        holder = await find_holder(db, name, now_ms)
        if holder is None:
            if await take_name(db, job.jobtype, job.unique, name, job.id):
                return True
            continue
        try:
            if await change_holder(db, holder, job, keeps, now_ms) is not None:
                return False
        except Conflict:  # it has begun to run since it was looked at
            return False
    return False


def _new_job(document: Document, data: bytes) -> NewJob:
    job = job_from(document, data)
    return NewJob(
        job.id, job.jobtype, data, job.due_ms, job.create_ms, job.priority, job.domain, job.options,
        job.retry_after_ms, False, job.repeat, job.unique, job.parent, job.key,
    )  # fmt: skip
