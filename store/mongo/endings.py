"""How a job document changes when a delivery or a job ends, and what that means for the counters. Pure."""

from typing import Any, Final, NamedTuple

from store.mongo import schema
from store.mongo.blobs import Kept
from store.mongo.documents import data_fields, outcome_bytes, outcome_document
from store.mongo.driver import Document
from store.mongo.tally import Effect, of_run
from store.values.jobs import Archive, Code, Outcome, Rearm, Release, Retry

CANCELLED: Final = Outcome(Code.CANCELLED, 499, started_ms=0)
ABANDONED: Final = Outcome(Code.ABANDONED, 504, started_ms=0)

NEEDED: Final = {
    "type": 1,
    "s": 1,
    "at": 1,
    "due": 1,
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
    "unique": 1,
    "blob": 1,
    "out.blob": 1,
    "out.size": 1,
    "out.log_size": 1,
}
"""What must be known of a document to change its state."""


class Step(NamedTuple):
    """One change of one job: on this condition, this update, counted so."""

    condition: Document
    update: dict[str, dict[str, Any]]
    effect: Effect


def held_by(document: Document, owner: str) -> Document:
    """The condition that the delivery is still the owner's, and counted as it was read."""
    return {
        "_id": document["_id"],
        "s": schema.RUNNING,
        "lock": owner,
        "token": document["token"],
        "d": document.get("d"),
    }


def as_read(document: Document) -> Document:
    """The condition that nothing has moved the job since it was read."""
    same = ("s", "token", "at", "d", "rev", "kids", "size")
    return {"_id": document["_id"], **{field: document.get(field) for field in same}}


def release_step(
    document: Document, release: Release, result: Kept | None, data: Kept | None, *, owner: str, now_ms: int
) -> Step:
    """The end of a delivery, of which no relative must hear."""
    condition = held_by(document, owner)
    if isinstance(release, Archive):
        step = archive_step(document, release.outcome, result, now_ms=now_ms, ran=True)
        return step._replace(condition=condition | {"kin": False})
    if isinstance(release, Retry | Rearm):
        return _queue_again(document, release, result, data, condition, now_ms)
    update: dict[str, dict[str, Any]] = {
        "$set": {"s": schema.QUEUED, "at": document["due"]},
        "$unset": {"lock": ""},
        "$inc": {"attempts": -1},
    }
    return Step(condition, update, Effect(document["type"], document["_id"]))


def archive_step(document: Document, outcome: Outcome, result: Kept | None, *, now_ms: int, ran: bool) -> Step:
    """The end of a job, from any state that it was in."""
    kept = outcome_document(outcome, result)
    effect = Effect(
        document["type"],
        document["_id"],
        live=-1,
        deferred=-int(document.get("d", False)),
        blocked=-int(document["s"] in {schema.PAUSED, schema.HELD}),
        size_bytes=_grown(document, kept),
        code=outcome.code.value,
    )
    if ran:
        effect = of_run(effect, outcome, document["due"])
    update: dict[str, dict[str, Any]] = {
        "$set": {"s": schema.ARCHIVED[outcome.code], "at": now_ms, "done": now_ms, "out": kept},
        "$unset": {"lock": "", "d": ""},
    }
    if document.get("pend"):
        update["$set"]["pend"] = False
    return Step(as_read(document), update, effect)


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
        },
        "$unset": {"lock": "", "d": ""},
    }
    effect = Effect(
        document["type"],
        document["_id"],
        blocked=1,
        deferred=-int(document.get("d", False)),
        size_bytes=_grown(document, kept),
    )
    return Step(held_by(document, owner) | {"kids": document["kids"]}, update, effect)


def queue_step(document: Document, *, due_ms: int, now_ms: int, **fields: Any) -> Step:
    """A paused or held job becomes eligible at due_ms."""
    deferred = due_ms > now_ms
    update: dict[str, dict[str, Any]] = {"$set": {"s": schema.QUEUED, "at": due_ms, "due": due_ms, **fields}}
    if deferred:
        update["$set"]["d"] = True
    effect = Effect(document["type"], document["_id"], blocked=-1, deferred=int(deferred))
    return Step(as_read(document), update, effect)


def _queue_again(
    document: Document,
    release: Retry | Rearm,
    result: Kept | None,
    data: Kept | None,
    condition: Document,
    now_ms: int,
) -> Step:
    rearmed = isinstance(release, Rearm)
    kept = outcome_document(release.outcome, result if rearmed else None)
    deferred = release.dt_ms > now_ms
    update: dict[str, dict[str, Any]] = {
        "$set": {"s": schema.QUEUED, "at": release.dt_ms, "due": release.dt_ms, "done": now_ms, "out": kept},
        "$unset": {"lock": ""},
    }
    if deferred:
        update["$set"]["d"] = True
    else:
        update["$unset"]["d"] = ""
    if rearmed:
        update["$set"]["attempts"] = 0
    size_bytes = _grown(document, kept)
    if release.data is not None:
        update["$set"] |= data_fields(data or b"", len(release.data))
        size_bytes += len(release.data) - document["size"]
        condition = condition | {"size": document["size"], "rev": document.get("rev")}
    change = int(deferred) - int(document.get("d", False))
    effect = Effect(document["type"], document["_id"], deferred=change, size_bytes=size_bytes)
    effect = of_run(effect, release.outcome, document["due"])
    return Step(condition, update, effect)


def _grown(document: Document, kept: Document) -> int:
    """By how much the new outcome takes more room than the one before."""
    return outcome_bytes({"out": kept}) - outcome_bytes(document)
