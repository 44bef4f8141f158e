"""How a job document changes when a delivery or a job ends, and what that means for the counters. Pure."""

from typing import Any, Final, NamedTuple

from store.mongo.queue.documents import data_fields, history_documents, history_from, outcome_bytes, outcome_document
from store.mongo.server import schema
from store.mongo.server.blobs import Kept
from store.mongo.server.driver import Document
from store.mongo.server.tally import Effect, entering, of_run
from store.values.jobs import ABANDONED, Archive, Finish, Outcome, Rearm, Release, Retry, with_attempt
from store.values.schedules import Round, after_round, is_on_hold, schedule_fields, schedule_from

NEEDED: Final = {
    "type": 1,
    "s": 1,
    "at": 1,
    "due": 1,
    "create": 1,
    "done": 1,
    "lock": 1,
    "token": 1,
    "attempts": 1,
    "size": 1,
    "d": 1,
    "kin": 1,
    "kids": 1,
    "pend": 1,
    "parent": 1,
    "retry_after": 1,
    "rev": 1,
    "replays": 1,
    "unique": 1,
    "repeat": 1,
    "sched": 1,
    "key": 1,
    "dom": 1,
    "prio": 1,
    "blob": 1,
    "begun": 1,
    "planned": 1,
    "next": 1,
    "past": 1,
    "todo": 1,
    "by": 1,
    "join": 1,
    "out.code": 1,
    "out.blob": 1,
    "out.size": 1,
    "out.log_size": 1,
}
"""What must be known of a document to change its state."""


MAKE: Final = "make."
"""In `todo`, before the name of the end of a delivery: the jobs that it made are to appear (appearing.py)."""


class Step(NamedTuple):
    """One change of one job: on this condition, this update, counted so."""

    condition: Document
    update: dict[str, dict[str, Any]]
    effect: Effect


def key_of(document: Document) -> str:
    key: str = document.get("key", "")
    return key


def held_by(document: Document, owner: str) -> Document:
    """The condition that the delivery is still the owner's, and counted as it was read."""
    return {
        "_id": document["_id"],
        "s": schema.RUNNING,
        "lock": owner,
        "token": document["token"],
        "d": document.get("d"),
    }


def ended_by(document: Document, owner: str) -> Document:
    """As `held_by`; and if a round of it ends, or is given back, nobody has changed the schedule since it was read."""
    return held_by(document, owner) | ({"rev": document.get("rev")} if "repeat" in document else {})


def as_read(document: Document) -> Document:
    """The condition that nothing has moved the job since it was read."""
    same = ("s", "token", "at", "d", "rev", "kids", "size")
    return {"_id": document["_id"], **{field: document.get(field) for field in same}}


def makings(document: Document) -> list[str]:
    """What is left to do for the jobs that its deliveries made."""
    return [mark for mark in document.get("todo", ()) if mark.startswith(MAKE)]


def release_step(
    document: Document, release: Release, result: Kept | None, data: Kept | None, *, owner: str, now_ms: int
) -> Step:
    """The end of a delivery that concerns no relative."""
    condition = held_by(document, owner)
    if isinstance(release, Archive | Finish):
        step = archive_step(document, release.outcome, result, now_ms=now_ms, ran=True)
        return step._replace(condition=ended_by(document, owner) | {"kin": False})
    if isinstance(release, Rearm):
        condition = ended_by(document, owner) | {"kin": document["kin"]}
    if isinstance(release, Retry | Rearm):
        return queue_again_step(document, release, result, data, condition, owner, now_ms)
    return unclaim_step(document, ended_by(document, owner), now_ms)


def runnable_since(document: Document) -> int:
    """When a job could first run: a time that lay back when it entered the queue does not count."""
    since_ms: int = max(document["due"], document["create"], document.get("done", 0))
    return since_ms


def unclaim_step(document: Document, condition: Document, now_ms: int) -> Step:
    """A delivery is given back, and was no attempt. A schedule that was paused meanwhile does not begin the
    round that this would have been. A job that was started before the store had it may be due later."""
    has_begun = document["attempts"] > 1 or "planned" in document
    on_hold = is_on_hold(schedule_from(document.get("sched")), has_begun=has_begun)
    deferred = document["due"] > now_ms and not on_hold
    state = schema.HELD if on_hold else schema.QUEUED
    update: dict[str, dict[str, Any]] = {
        "$set": {"s": state, "at": document["due"]} | ({"d": True} if deferred else {}),
        "$unset": {"lock": ""} | ({} if deferred else {"d": ""}),
        "$inc": {"attempts": -1},
    }
    change = int(deferred) - int(document.get("d", False))
    effect = Effect(document["type"], document["_id"], deferred=change, blocked=int(on_hold), key=key_of(document))
    return Step(condition, update, effect if on_hold else entering(effect, document))


def archive_step(document: Document, outcome: Outcome, result: Kept | None, *, now_ms: int, ran: bool) -> Step:
    """The end of a job, from any state that it was in. One that ends without a run keeps the rest of its last run."""
    ending, grown_bytes = _ending(document, outcome_document(outcome, result), ran=ran)
    effect = Effect(
        document["type"],
        document["_id"],
        live=-1,
        deferred=-int(document.get("d", False)),
        blocked=-int(document["s"] in {schema.PAUSED, schema.HELD}),
        size_bytes=grown_bytes,
        code=outcome.code.value,
        key=key_of(document),
    )
    if ran:
        effect = of_run(effect, outcome, runnable_since(document))
    update: dict[str, dict[str, Any]] = {
        "$set": {"s": schema.ARCHIVED[outcome.code], "at": now_ms, "done": now_ms, **ending},
        "$unset": {"lock": "", "d": ""},
    }
    if document.get("pend"):
        update["$set"]["pend"] = False
    if document.get("repeat"):
        update["$set"] |= round_fields(document, outcome, document["lock"] if ran else "")
    return Step(as_read(document), update, effect)


def _ending(document: Document, kept: Document, *, ran: bool) -> tuple[Document, int]:
    """What is written of an outcome, and by how much it grows. One without a run keeps the rest of the last run."""
    if not ran and "out" in document:
        return {"out.code": kept["code"], "out.exit": kept["exit"]}, 0
    return {"out": kept}, _grown(document, kept)


def drop_round_step(document: Document, now_ms: int, *, waits: bool = False) -> Step:
    """An extra round is over without a run, and the schedule goes on with its regular one, which waits from now on if
    it is due. waits: for children that are to be cancelled first."""
    due_ms = regular_ms(document, document["due"])
    if waits:
        place = {"s": schema.PAUSED, "at": now_ms, "due": now_ms, "next": due_ms}
    else:
        place = {"s": schema.HELD if is_paused(document) else schema.QUEUED, "at": due_ms, "due": due_ms}
    is_queued = place["s"] == schema.QUEUED
    deferred = is_queued and due_ms > now_ms
    ending, grown_bytes = _ending(document, outcome_document(ABANDONED, None), ran=False)
    fields = {**place, **ending, **round_fields(document, ABANDONED, ""), "attempts": 0, "done": now_ms}
    dropped = dict.fromkeys(("begun", "planned", "past"), "") | ({} if deferred else {"d": ""})
    effect = Effect(
        document["type"],
        document["_id"],
        deferred=int(deferred) - int(document.get("d", False)),
        blocked=int(not is_queued),
        size_bytes=grown_bytes,
        code=ABANDONED.code.value,
        key=key_of(document),
    )
    update: dict[str, dict[str, Any]] = {"$set": fields | ({"d": True} if deferred else {}), "$unset": dropped}
    return Step(as_read(document), update, entering(effect, document) if is_queued else effect)


def round_fields(document: Document, outcome: Outcome, owner: str) -> Document:
    """What is written when a round of a job ends that repeats."""
    planned_ms: int = document["planned"] if "planned" in document else document["due"]
    ended = Round(
        planned_ms, outcome.started_ms, outcome.duration_us, outcome.code,
        outcome.exitcode, outcome.message, document["attempts"], outcome.handler_version, owner,
    )  # fmt: skip
    return {"sched": schedule_fields(after_round(schedule_from(document.get("sched")), ended))}


def regular_ms(document: Document, due_ms: int) -> int:
    """When the next round is due that would be due then: an extra round does not move it."""
    regular: int = document.get("sched", {}).get("regular", due_ms)
    return regular


def is_paused(document: Document) -> bool:
    """Whether its tenant has paused it: no round of it begins."""
    return "pause" in document.get("sched", {})


def pause_step(document: Document, outcome: Outcome, result: Kept | None, *, owner: str, now_ms: int) -> Step:
    """A parent that ended well while it has children: it waits for them, its outcome is counted nowhere."""
    kept = outcome_document(outcome, result)
    update: dict[str, dict[str, Any]] = {
        "$set": {
            "s": schema.PAUSED,
            "at": now_ms,
            "due": now_ms,
            "attempts": 0,
            "done": now_ms,
            "out": kept,
            "planned": document.get("planned", document["due"]),
        },
        "$unset": {"lock": "", "d": "", "begun": "", "next": ""},
    }
    effect = Effect(
        document["type"],
        document["_id"],
        blocked=1,
        deferred=-int(document.get("d", False)),
        size_bytes=_grown(document, kept),
        key=key_of(document),
    )
    return Step(held_by(document, owner) | {"kids": document.get("kids")}, update, effect)


def queue_step(document: Document, *, due_ms: int, now_ms: int, on_hold: bool = False, **fields: Any) -> Step:
    """A paused or held job becomes eligible at due_ms, or with on_hold when it is resumed. Nothing is left to do for
    relatives: a step that came too late would reach the children of its next run."""
    deferred = due_ms > now_ms and not on_hold
    update: dict[str, dict[str, Any]] = {
        "$set": {"s": schema.HELD if on_hold else schema.QUEUED, "at": due_ms, "due": due_ms, **fields},
        "$unset": {"next": ""},
    }
    if marks := makings(document):
        update["$set"]["todo"] = marks
    else:
        update["$unset"]["todo"] = ""
    if deferred:
        update["$set"]["d"] = True
    if on_hold:
        return Step(as_read(document), update, Effect(document["type"], document["_id"], key=key_of(document)))
    effect = Effect(document["type"], document["_id"], blocked=-1, deferred=int(deferred), key=key_of(document))
    return Step(as_read(document), update, entering(effect, document))


def enter_step(document: Document, now_ms: int) -> Step:
    """A held job is let in. It waits from now on, so that it is neither abandoned for its age nor without a retry
    window."""
    due_ms: int = document["due"]
    planned = {"planned": document.get("planned", due_ms)} if due_ms < now_ms else {}
    return queue_step(document, due_ms=max(due_ms, now_ms), now_ms=now_ms, **planned)


def queue_again_step(
    document: Document,
    release: Retry | Rearm,
    result: Kept | None,
    data: Kept | None,
    condition: Document,
    owner: str,
    now_ms: int,
) -> Step:
    """A run is over and the job is not: another attempt of its round, or its next round."""
    rearmed = isinstance(release, Rearm)
    kept = outcome_document(release.outcome, result)
    due_ms, on_hold = (regular_ms(document, release.dt_ms), is_paused(document)) if rearmed else (release.dt_ms, False)
    deferred = due_ms > now_ms and not on_hold
    state = schema.HELD if on_hold else schema.QUEUED
    update: dict[str, dict[str, Any]] = {
        "$set": {"s": state, "at": due_ms, "due": due_ms, "done": now_ms, "out": kept},
        "$unset": {"lock": ""},
    }
    if deferred:
        update["$set"]["d"] = True
    else:
        update["$unset"]["d"] = ""
    if rearmed:
        update["$set"] |= {"attempts": 0} | round_fields(document, release.outcome, owner)
        update["$unset"] |= {"begun": "", "planned": "", "past": ""}
    else:
        history = with_attempt(history_from(document), document["attempts"], release.outcome, owner)
        update["$set"]["past"] = history_documents(history)
        first_ms = document["due"]
        update["$set"] |= {"begun": document.get("begun", first_ms), "planned": document.get("planned", first_ms)}
    change = int(deferred) - int(document.get("d", False))
    grown_bytes = _grown(document, kept)
    effect = Effect(
        document["type"],
        document["_id"],
        deferred=change,
        blocked=int(on_hold),
        size_bytes=grown_bytes,
        key=key_of(document),
    )
    effect = effect if on_hold else entering(effect, document)
    step = Step(condition, update, of_run(effect, release.outcome, runnable_since(document)))
    return with_data(step, document, release.data, data)


def with_data(step: Step, document: Document, data: bytes | None, kept: Kept | None) -> Step:
    """The step, with a new payload if there is one."""
    if data is None:
        return step
    update = {**step.update, "$set": step.update["$set"] | data_fields(kept or b"", data)}
    effect = step.effect._replace(size_bytes=step.effect.size_bytes + len(data) - document["size"])
    return Step(step.condition | {"size": document["size"], "rev": document.get("rev")}, update, effect)


def _grown(document: Document, kept: Document) -> int:
    """By how much the new outcome takes more room than the one before."""
    return outcome_bytes({"out": kept}) - outcome_bytes(document)
