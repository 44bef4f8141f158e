"""A job as a document, and back. Pure.

Fields with an empty value are left out: a plain job of a 100-byte payload is about 300 bytes. Beside what
the job says of itself: `d`, counted as deferred; `kin`, has a parent or children, `kids` of them, and
`pend`, a parent waits for it; `join`, under which it is among the `joins` of that parent until it has appeared;
`todo`, steps that follow for relatives; `rev`, grows when data or place are changed; `replays`, how often it began
anew, which gives it no new token; `past`, its history; `claim`, the last claim;
`sched`, what is kept of one that repeats (schedule_fields); `repeat` is empty of one that has stopped to repeat;
`next`, when a paused job is due again if not at once; `head`, the beginning of a payload over HEAD_FROM_BYTES; `ops`,
the last changes that the ledger counted. A job with a `key` is in the queue of its key: its `dom` is null, which no
claim of jobs without a key looks for, and its rate domain is `kdom`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bson import ObjectId

from store.mongo.server import schema
from store.mongo.server.blobs import Kept
from store.mongo.server.driver import Document
from store.names import DONE_LOCK, DONE_OFFSET_MS, MAX_BEGIN_BYTES, PAUSED_LOCK, number_of
from store.values.jobs import Attempt, Job, JobRecord, NewJob, Outcome
from store.values.schedules import schedule_from
from vocabulary.states import Code, JobState

HEAD_FROM_BYTES: Final = 4096
"""The beginning of a larger payload is kept apart: listings show it, and no server returns a part of a field."""

_WITHOUT_TEXTS: Final = {"data": 0, "out.result": 0, "out.log": 0, "past": 0, "ops": 0}
WITH_HEADS: Final = _WITHOUT_TEXTS | {"sched.rounds": 0}
WITH_ROUNDS: Final = _WITHOUT_TEXTS | {"head": 0}
WITHOUT_BYTES: Final = WITH_HEADS | {"head": 0}
"""Projections for listings: with the beginnings of large payloads, with the rounds of schedules, and with neither."""


def job_document(job: NewJob, data: Kept, *, state: str, deferred: bool, seq: int | None) -> Document:
    """The document of a new job."""
    document: Document = {
        "_id": job.id,
        "type": job.jobtype,
        "s": state,
        "at": job.dt_ms,
        "due": job.dt_ms,
        "prio": job.priority,
        "dom": None if job.key else job.domain,
        "token": 0,
        "attempts": 0,
        "create": job.create_ms,
        **data_fields(data, job.data),
        "kin": bool(job.parent),
    }
    if document["head"] is None:
        del document["head"]
    if deferred:
        document["d"] = True
    if job.parent:
        document |= {"parent": job.parent, "pend": True}
    optional = {
        "opts": job.options,
        "retry_after": job.retry_after_ms,
        "seq": seq,
        "repeat": job.repeat,
        "unique": job.unique,
        "key": job.key,
        "kdom": job.domain if job.key else "",
    }
    document |= {field: value for field, value in optional.items() if value not in {None, ""}}
    return document


def data_fields(kept: Kept, data: bytes) -> Document:
    """The payload, in the document or beside it."""
    head = data[:MAX_BEGIN_BYTES] if len(data) > HEAD_FROM_BYTES else None
    if isinstance(kept, ObjectId):
        return {"data": b"", "blob": kept, "size": len(data), "head": head}
    return {"data": kept, "blob": None, "size": len(data), "head": head}


def kept_data(document: Mapping[str, Any]) -> Kept:
    kept: Kept = document.get("blob") or document["data"]
    return kept


def kept_result(document: Mapping[str, Any]) -> Kept | None:
    last = document.get("out", {})
    kept: Kept | None = last.get("blob") or last.get("result")
    return kept


def job_from(document: Mapping[str, Any], data: bytes) -> Job:
    return Job(
        id=document["_id"],
        jobtype=document["type"],
        data=data,
        dt_ms=document["at"] + (DONE_OFFSET_MS if document["s"] in schema.ARCHIVED_STATES else 0),
        lock=lock_of(document),
        token=document["token"],
        attempts=document["attempts"],
        priority=document["prio"],
        due_ms=document["due"],
        create_ms=document["create"],
        domain=domain_of(document),
        options=document.get("opts", ""),
        retry_after_ms=document.get("retry_after"),
        seq=document.get("seq"),
        repeat=document.get("repeat", ""),
        unique=document.get("unique", ""),
        parent=document.get("parent", ""),
        begun_ms=document.get("begun"),
        planned_ms=document.get("planned"),
        children=document.get("kids", 0),
        key=document.get("key", ""),
    )


def domain_of(document: Mapping[str, Any]) -> str:
    domain: str = document["dom"] or document.get("kdom", "")
    return domain


def lock_of(document: Mapping[str, Any]) -> str:
    state = document["s"]
    if state == schema.RUNNING:
        lock: str = document["lock"]
        return lock
    if state in {schema.PAUSED, schema.HELD}:
        return PAUSED_LOCK
    return DONE_LOCK if state in schema.ARCHIVED_STATES else ""


def job_state(document: Mapping[str, Any], now_ms: int) -> JobState:
    state, at_ms = document["s"], document["at"]
    if state == schema.QUEUED:
        return JobState.DEFERRED if at_ms > now_ms else JobState.WAITING
    if state == schema.RUNNING:
        return JobState.RUNNING if at_ms > now_ms else JobState.LAPSED
    return JobState.PAUSED if state in {schema.PAUSED, schema.HELD} else JobState.ARCHIVED


def outcome_document(outcome: Outcome, result: Kept | None) -> Document:
    """The last outcome of a job."""
    document: Document = {"code": outcome.code.value, "exit": outcome.exitcode, "started": outcome.started_ms}
    optional = {
        "us": outcome.duration_us,
        "log": outcome.log,
        "version": outcome.handler_version,
        "isolation": outcome.isolation,
        "fingerprint": outcome.fingerprint,
        "message": outcome.message,
    }
    document |= {field: value for field, value in optional.items() if value}
    if outcome.log:
        document["log_size"] = len(outcome.log)
    if result is not None and outcome.result is not None:
        document["blob" if isinstance(result, ObjectId) else "result"] = result
        document["size"] = len(outcome.result)
    return document


def outcome_from(document: Mapping[str, Any] | None, result: bytes | None) -> Outcome | None:
    if document is None:
        return None
    return Outcome(
        code=Code(document["code"]),
        exitcode=document["exit"],
        started_ms=document["started"],
        duration_us=document.get("us", 0),
        result=result,
        log=bytes(document.get("log", b"")),
        handler_version=document.get("version", 0),
        isolation=document.get("isolation", ""),
        fingerprint=document.get("fingerprint", ""),
        message=document.get("message", ""),
    )


def outcome_bytes(document: Mapping[str, Any]) -> int:
    """What the last outcome of a job document takes: its result and its log."""
    kept = document.get("out", {})
    size_bytes: int = kept.get("size", 0) + kept.get("log_size", 0)
    return size_bytes


def record_from(
    document: Mapping[str, Any], data: bytes, result: bytes | None, children: tuple[int, int], now_ms: int
) -> JobRecord:
    return JobRecord(
        job=job_from(document, data),
        state=job_state(document, now_ms),
        outcome=outcome_from(document.get("out"), result),
        claimed_ms=document.get("claimed", 0),
        done_ms=document.get("done", 0),
        data_bytes=document["size"],
        result_bytes=document.get("out", {}).get("size", 0),
        children=children[0],
        pending_children=children[1],
        history=history_from(document),
        number=number_of(document.get("no")),
        schedule=schedule_from(document.get("sched")),
    )


def history_documents(history: Sequence[Attempt]) -> list[Document]:
    return [attempt._asdict() | {"code": attempt.code.value} for attempt in history]


def history_from(document: Mapping[str, Any]) -> tuple[Attempt, ...]:
    return tuple(Attempt(**fields)._replace(code=Code(fields["code"])) for fields in document.get("past", ()))
