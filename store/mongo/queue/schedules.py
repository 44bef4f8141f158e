"""What a change makes of the place of a job, and of what is kept of one that repeats. Pure."""

from typing import NamedTuple

from store.mongo.queue.endings import is_paused
from store.mongo.server import schema
from store.mongo.server.driver import Document
from store.refusals import check_extra
from store.values.job_changes import JobChange, Timing
from store.values.schedules import Standing, planned, schedule_fields, schedule_from


class Placed(NamedTuple):
    """Fields to set and to drop, and what changes of the counts of deferred and of paused jobs."""

    fields: Document
    dropped: Document
    deferred: int = 0
    blocked: int = 0


def placed(document: Document, change: JobChange, now_ms: int) -> Placed:
    """Of a live job. One that runs, or waits for relatives, stays where it is. Raises Conflict."""
    if not change.is_of_schedule:
        return Placed({}, {}) if change.dt_ms is None else _moved(document, change.dt_ms, document["s"], now_ms)
    state, schedule = document["s"], schedule_from(document.get("sched"))
    in_queue, on_hold = state == schema.QUEUED, state == schema.HELD and is_paused(document)
    has_begun = document["attempts"] > 0 or "planned" in document
    if change.timing is Timing.EXTRA:
        is_due = in_queue and document["due"] <= now_ms
        check_extra(document["_id"], is_between_rounds=(in_queue or on_hold) and not has_begun and not is_due)
    due_ms: int = document["next"] if _is_after_round(document) else document["due"]
    plan = planned(schedule, change, Standing(in_queue, on_hold, has_begun, due_ms))
    found = Placed({}, {})
    if in_queue or on_hold:
        found = _moved(document, plan.due_ms, schema.HELD if plan.on_hold else schema.QUEUED, now_ms)
        if plan.is_anew:
            found.fields["attempts"] = 0
            found.dropped.update({"begun": "", "planned": "", "past": ""})
    elif plan.due_ms != due_ms:
        found = _moved(document, plan.due_ms, state, now_ms)
    kept = schedule_fields(plan.schedule)
    return found._replace(fields=found.fields | {"sched": kept}) if kept or "sched" in document else found


def _moved(document: Document, due_ms: int, state: str, now_ms: int) -> Placed:
    fields, dropped = {"at": due_ms, "due": due_ms, "s": state}, {}
    if _is_after_round(document):
        fields["next"] = due_ms
    is_deferred = state == schema.QUEUED and due_ms > now_ms
    if is_deferred:
        fields["d"] = True
    elif "d" in document:
        dropped["d"] = ""
    changes = int(is_deferred) - int(document.get("d", False))
    return Placed(fields, dropped, changes, int(state == schema.HELD) - int(document["s"] == schema.HELD))


def _is_after_round(document: Document) -> bool:
    """Whether its round is over, and it waits for children of that."""
    return document["s"] == schema.PAUSED and "next" in document
