"""Parents and children, without transactions.

What an end means for relatives follows in later steps, each idempotent. The document that ends notes them in
`todo`, in the same write; they are struck off when they are done, and expire_locks repeats what was not:

    free     children that were held by this parent become eligible (it was paused)
    cancel   children that are held by this parent are cancelled (it ended, or its round did, and not with ok)
    stop     children that do not run are cancelled, whether held or not (it was cancelled)
    wake     this job is queued for its next round: it was paused while its children were cancelled
    up       the parent of this job is queued again if this was the last child that it waited for
    hold     the parent of this job may have ended while it was being created
    make.7…  the jobs that its delivery with token 7 made appear (appearing.py); before all others

A parent counts its children in `kids`; every change that depends on them is on condition that the number
is as it was read. So no child can appear between the look and the change.

A child is counted before it appears, and may never appear. Until then its parent has it in `joins`, under a name that
the hidden child has in `join`: so whoever removes the child knows whether it is counted, and takes that back once. Only
who gave it that name has it appear. Then it is struck off; what comes between leaves a name that nobody looks for.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from store.claim_rules import MAX_CHILDREN
from store.mongo.queue.changes import apply
from store.mongo.queue.endings import (
    MAKE,
    NEEDED,
    Step,
    archive_step,
    drop_round_step,
    ended_by,
    enter_step,
    is_paused,
    makings,
    pause_step,
    queue_again_step,
    queue_step,
    regular_ms,
    round_fields,
    runnable_since,
    with_data,
)
from store.mongo.server import schema
from store.mongo.server.blobs import Kept
from store.mongo.server.core import Core
from store.mongo.server.driver import Document, find_and_update
from store.mongo.server.tally import of_run
from store.values.jobs import CANCELLED, Outcome, Rearm
from vocabulary.states import Code

FREE: Final = "free"
CANCEL: Final = "cancel"
STOP: Final = "stop"
WAKE: Final = "wake"
UP: Final = "up"
HOLD: Final = "hold"

_CHUNK: Final = 500
_NOT_RUNNING: Final = (schema.QUEUED, schema.HELD, schema.PAUSED)


@dataclass
class Budget:
    """How many children may still be changed."""

    left: float = inf


class Carried(NamedTuple):
    """The payload of the next run of a job that is paused, if it is."""

    data: bytes
    kept: Kept | None


class Made(NamedTuple):
    """What a delivery that ends has made: jobs that are hidden until then, of which some are its children. name: of
    this end, among all of this job."""

    name: str
    kids: int
    joins: tuple[str, ...]
    """Of those children that may not appear."""


async def end_with_relatives(
    db: Core,
    document: Document,
    outcome: Outcome,
    result: Kept | None,
    *,
    owner: str | None,
    now_ms: int,
    made: Made | None = None,
    carried: Carried | None = None,
) -> Document | None:
    """End a job that has relatives: a run of it by its owner, or without a run (owner None).

    Returns the document as it was when it ended, with its new state in `s`; None if it is not in that
    hand or place any more.
    """
    job_id, state = document["_id"], document["s"]
    current: Document | None = document
    while current is not None and current["s"] == state:
        step = await _ending(db, current, outcome, result, owner, now_ms, made, carried)
        if await apply(db, [step], now_ms):
            await follow(db, job_id, now_ms, None if owner is None else Budget(MAX_CHILDREN))
            return {**current, "s": step.update["$set"]["s"]}
        same = {"token": document["token"]} | ({} if owner is None else {"lock": owner})
        current = await db.collections.jobs.find_one({"_id": job_id, **same}, NEEDED)
    return None


async def rearm_with_children(
    db: Core,
    document: Document,
    release: Rearm,
    result: Kept | None,
    data: Kept | None,
    *,
    owner: str,
    now_ms: int,
    made: Made | None = None,
) -> Document | None:
    """End a round of a job that has relatives; returns as `end_with_relatives`, `s` being the state in the end."""
    current: Document | None = document
    while current is not None and current["s"] == schema.RUNNING:
        step, state = await _end_of_round(db, current, release, result, data, owner, now_ms, made)
        if await apply(db, [step], now_ms):
            await follow(db, release.id, now_ms, Budget(MAX_CHILDREN))
            return {**current, "s": state}
        same = {"_id": release.id, "token": release.token, "lock": owner}
        current = await db.collections.jobs.find_one(same, NEEDED)
    return None


async def drop_extra_round(db: Core, document: Document, now_ms: int) -> bool:
    """End an extra round that waited too long. Returns whether the job was as it was read."""
    waits = _has_kids(document, None) and await _is_waited_for(db, document["_id"])
    step = drop_round_step(document, now_ms, waits=waits)
    done = await apply(db, [_with_todo(step, document, [CANCEL, WAKE] if waits else [])], now_ms)
    if done and waits:
        await follow(db, document["_id"], now_ms, Budget(MAX_CHILDREN))
    return bool(done)


async def _end_of_round(
    db: Core,
    document: Document,
    release: Rearm,
    result: Kept | None,
    data: Kept | None,
    owner: str,
    now_ms: int,
    made: Made | None,
) -> tuple[Step, str]:
    """Paused in both cases where children wait: a job that is queued can be claimed and get new children, which a step
    that is done late must not reach."""
    held = ended_by(document, owner) | {"kids": document.get("kids")}
    if not (_has_kids(document, made) and await _is_waited_for(db, document["_id"])):
        step = queue_again_step(document, release, result, data, held, owner, now_ms)
        return with_made(step, document, made), schema.QUEUED
    step = pause_step(document, release.outcome, result, owner=owner, now_ms=now_ms)
    if release.outcome.code == Code.OK:
        step = with_made(_with_todo(step, document, [FREE]), document, made)
        return with_data(step, document, release.data, data), schema.PAUSED
    step = step._replace(condition=held, effect=of_run(step.effect, release.outcome, runnable_since(document)))
    step.update["$set"]["next"] = regular_ms(document, release.dt_ms)
    step.update["$set"] |= round_fields(document, release.outcome, owner)
    step.update["$unset"] |= {"planned": "", "past": ""}
    del step.update["$set"]["planned"], step.update["$unset"]["next"]
    step = with_made(_with_todo(step, document, [CANCEL, WAKE]), document, made)
    return with_data(step, document, release.data, data), schema.QUEUED


async def _ending(
    db: Core,
    document: Document,
    outcome: Outcome,
    result: Kept | None,
    owner: str | None,
    now_ms: int,
    made: Made | None,
    carried: Carried | None,
) -> Step:
    kids = _has_kids(document, made)
    if owner is not None and kids and outcome.code == Code.OK and await _is_waited_for(db, document["_id"]):
        step = pause_step(document, outcome, result, owner=owner, now_ms=now_ms)
        step = with_made(_with_todo(step, document, [FREE]), document, made)
        return step if carried is None else with_data(step, document, *carried)
    step = archive_step(document, outcome, result, now_ms=now_ms, ran=owner is not None)
    if owner is not None:
        step = step._replace(condition=ended_by(document, owner) | {"kids": document.get("kids")})
    todo = [UP] if document.get("pend") else []
    if kids and outcome.code != Code.OK:
        todo.append(STOP if outcome.code == Code.CANCELLED else CANCEL)
    step = _with_todo(step, document, todo)
    return with_made(step, document, made)


async def follow(db: Core, job_id: str, now_ms: int, budget: Budget | None = None) -> None:
    """Do what a job's end means for its relatives, if anything is left to do, to the end or as far as the budget goes.
    Idempotent. If it made jobs that have to appear first, that is for `appearing.follow_made`."""
    budget = budget or Budget()
    ended = await db.collections.jobs.find_one(
        {"_id": job_id, "todo": {"$exists": True}}, {"s": 1, "todo": 1, "token": 1, "parent": 1, "join": 1}
    )
    if ended is None or makings(ended):
        return
    is_done = True
    if FREE in ended["todo"]:
        is_done = await _free_children(db, job_id, now_ms, budget)
        if is_done:  # the last of them may have been cancelled before their parent was paused
            await wake_parent(db, job_id, now_ms)
    if CANCEL in ended["todo"]:
        is_done = await _cancel_children(db, job_id, now_ms, budget)
    if STOP in ended["todo"]:
        is_done = await _cancel_children(db, job_id, now_ms, budget, _NOT_RUNNING)
    if WAKE in ended["todo"]:
        await wake_parent(db, job_id, now_ms)
    if UP in ended["todo"]:
        await wake_parent(db, ended["parent"], now_ms)
    if HOLD in ended["todo"]:
        is_done &= await _look_at_parent(db, ended, now_ms, budget)
    if is_done:
        done = {"_id": job_id, "token": ended["token"], "todo": ended["todo"]}
        await db.collections.jobs.update_one(done, {"$unset": {"todo": "", "join": ""}})


async def wake_parent(db: Core, parent_id: str, now_ms: int) -> None:
    """Queue a parent that waits for children if there is none left."""
    while True:
        parent = await db.collections.jobs.find_one({"_id": parent_id, "s": schema.PAUSED}, NEEDED)
        if parent is None or await _is_waited_for(db, parent_id):
            return
        due_ms, on_hold = parent.get("next", now_ms), "next" in parent and is_paused(parent)
        if await apply(db, [queue_step(parent, due_ms=due_ms, now_ms=now_ms, on_hold=on_hold, attempts=0)], now_ms):
            return


async def live_parents(db: Core, children: Iterable[Document]) -> set[str]:
    """Of the parents of these jobs, those that are not over. One that ends right after this look does so without a
    child that runs again, as if that had been asked for a moment later."""
    parents = {child["parent"] for child in children if child.get("parent")}
    if not parents:
        return set()
    live = {"_id": {"$in": sorted(parents)}, "s": {"$nin": list(schema.ARCHIVED_STATES)}}
    return {parent["_id"] for parent in await db.collections.jobs.find(live, {"_id": 1}).to_list(None)}


async def _look_at_parent(db: Core, child: Document, now_ms: int, budget: Budget) -> bool:
    """Do for the held children of a parent what its end would have done, if it has ended. One that runs, or is to run
    again because that was no end, holds them. One that waited when this child joined it can only have been cancelled.
    Returns whether all are done."""
    parent_id, struck_off = child["parent"], {"$pull": {"joins": child.get("join")}}
    parent = await find_and_update(db.collections.jobs, {"_id": parent_id}, struck_off, fields={"s": 1, "next": 1})
    if parent is None or parent["s"] in schema.ARCHIVED_STATES:
        is_cancelled = parent is None or parent["s"] == schema.ARCHIVED[Code.CANCELLED]
        states = _NOT_RUNNING if is_cancelled and child["s"] == schema.QUEUED else (schema.HELD,)
        return await _cancel_children(db, parent_id, now_ms, budget, states)
    if parent["s"] != schema.PAUSED:
        return True
    if "next" not in parent:
        return await _free_children(db, parent_id, now_ms, budget)
    is_done = await _cancel_children(db, parent_id, now_ms, budget)  # of a round that did not end well
    await wake_parent(db, parent_id, now_ms)
    return is_done


def new_join() -> str:
    """The name of a child in the `joins` of its parent."""
    return uuid.uuid4().hex


async def join_parent(db: Core, parent_id: str, join: str) -> bool | None:
    """Count a child with its parent before it appears. Returns whether the parent runs, and so holds it; None if it is
    over, or queued."""
    joined = {"_id": parent_id, "s": {"$in": [schema.RUNNING, schema.PAUSED, schema.HELD]}}
    counted: Document = {"$inc": {"kids": 1}, "$set": {"kin": True}, "$push": {"joins": join}}
    parent = await find_and_update(db.collections.jobs, joined, counted, fields={"s": 1})
    return None if parent is None else bool(parent["s"] == schema.RUNNING)


async def note_appeared(db: Core, parent_id: str, join: str) -> None:
    """A child that is counted has appeared, and is not taken back any more."""
    await db.collections.jobs.update_one({"_id": parent_id}, {"$pull": {"joins": join}})


async def leave_parent(db: Core, parent_id: str, join: str) -> None:
    """A child that may have been counted does not appear. Idempotent."""
    gone: Document = {"$inc": {"kids": -1}, "$pull": {"joins": join}}
    await db.collections.jobs.update_one({"_id": parent_id, "joins": join}, gone)


async def _free_children(db: Core, parent_id: str, now_ms: int, budget: Budget) -> bool:
    """Returns whether all are done."""
    while children := await _children(db, parent_id, (schema.HELD,)):
        if budget.left <= 0:
            return False
        budget.left -= len(children)
        await apply(db, [enter_step(child, now_ms) for child in children], now_ms)
    return True


async def _cancel_children(
    db: Core, parent_id: str, now_ms: int, budget: Budget, states: Sequence[str] = (schema.HELD,)
) -> bool:
    """Returns whether all are done. Children of a child that are not are noted with the child."""
    while children := await _children(db, parent_id, states):
        if budget.left <= 0:
            return False
        budget.left -= len(children)
        steps = [archive_step(child, CANCELLED, None, now_ms=now_ms, ran=False) for child in children]
        await apply(
            db,
            [
                _with_todo(step, child, [STOP] if child.get("kids") else [])
                for step, child in zip(steps, children, strict=True)
            ],
            now_ms,
        )
        for child in children:
            if child.get("kids"):
                await follow(db, child["_id"], now_ms, budget)
    return True


async def _children(db: Core, parent_id: str, states: Sequence[str]) -> list[Document]:
    which = {"parent": parent_id, "pend": True, "s": {"$in": list(states)}}
    return await db.collections.jobs.find(which, NEEDED).to_list(_CHUNK)


async def _is_waited_for(db: Core, parent_id: str) -> bool:
    """Whether the parent has a child that is not terminal."""
    return await db.collections.jobs.find_one({"parent": parent_id, "pend": True}, {"_id": 1}) is not None


def cancels_children(document: Document) -> bool:
    """Whether children of its last run are still to be cancelled: a step that comes late must not reach new ones."""
    return not {CANCEL, STOP}.isdisjoint(document.get("todo", ()))


def with_made(step: Step, document: Document, made: Made | None) -> Step:
    """The step, as the end of a delivery that made jobs. Its children among them are counted with it."""
    if made is None:
        return step
    todo = [*makings(document), f"{MAKE}{made.name}"]
    fields = step.update["$set"]
    fields = fields | {"todo": [*todo, *(mark for mark in fields.get("todo", ()) if mark not in todo)]}
    update = {**step.update, "$set": fields}
    if made.kids:
        update |= {"$set": fields | {"kin": True}, "$inc": {"kids": made.kids}}
    if made.joins:
        update["$addToSet"] = {"joins": {"$each": list(made.joins)}}
    return step._replace(update=update)


def _has_kids(document: Document, made: Made | None) -> bool:
    return bool(document.get("kids") or (made is not None and made.kids))


def _with_todo(step: Step, document: Document, todo: list[str]) -> Step:
    if not todo:
        return step
    fields = step.update["$set"] | {"todo": [*makings(document), *todo]}
    return step._replace(update={**step.update, "$set": fields})
