"""Jobs as the protocol shows them: states by its names, times as SQLite writes them, data as JSON."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from store.base import Code, JobRecord, JobState
from vocabulary.time_text import iso_time

QUEUED: Final = "QUEUED"
RUNNING: Final = "RUNNING"
RUNQUEUED: Final = "RUNQUEUED"
PAUSED: Final = "PAUSED"
FINISHED: Final = "FINISHED"
FAILED: Final = "FAILED"
CANCELLED: Final = "CANCELLED"

_STATES: Final = {JobState.WAITING: QUEUED, JobState.DEFERRED: QUEUED, JobState.PAUSED: PAUSED}
_ENDED: Final = {Code.OK: FINISHED, Code.CANCELLED: CANCELLED}
_ANYTHING: Final = msgspec.json.Decoder(msgspec.Raw)
_SECONDS: Final = len("2026-11-14T23:59:59")


def state_of(record: JobRecord) -> str:
    if record.state is JobState.ARCHIVED:
        return _ENDED.get(record.outcome.code, FAILED) if record.outcome is not None else FAILED
    if record.state in {JobState.RUNNING, JobState.LAPSED}:
        return RUNNING if record.job.retry_after_ms is None else RUNQUEUED
    return _STATES[record.state]


def is_running(record: JobRecord) -> bool:
    return state_of(record) in {RUNNING, RUNQUEUED}


def time_text(time_ms: int) -> str:
    """`2014-12-29 07:38:51`; empty for a time that never was."""
    return iso_time(time_ms)[:_SECONDS].replace("T", " ") if time_ms else ""


def next_run(record: JobRecord) -> str:
    """When it runs, or ran, as planned; of a job that is handed out again unless it is finished, when that is."""
    return time_text(record.job.dt_ms if state_of(record) == RUNQUEUED else record.job.due_ms)


def retry_after(record: JobRecord) -> str:
    length_ms = record.job.retry_after_ms
    return "" if length_ms is None else f"+{length_ms / 1000:g} SECONDS"


def data_json(payload: bytes) -> msgspec.Raw:
    """A payload as JSON: as it stands if it is an object or an array, otherwise its text; bytes that are no text in
    base64."""
    if payload[:1] in (b"{", b"["):
        try:
            _ANYTHING.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        else:
            return msgspec.Raw(payload)
    try:
        return msgspec.Raw(msgspec.json.encode(payload.decode()))
    except UnicodeDecodeError:
        return msgspec.Raw(msgspec.json.encode({"base64": b64encode(payload).decode()}))


def object_json(fields: Mapping[str, Any]) -> bytes:
    """Fields in the order of their names, whatever their letter case, as the original writes them."""
    return msgspec.json.encode({name: fields[name] for name in sorted(fields, key=str.lower)})
