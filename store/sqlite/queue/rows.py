"""From rows of `jobs` to the values of the protocol."""

import json
from collections.abc import Sequence
from typing import Any, Final

import apsw

from store.names import DONE_LOCK, DONE_OFFSET_MS, PAUSED_LOCK, number_of
from store.sqlite.file.buckets import CODES
from store.sqlite.file.schema import INLINE_BYTES, State
from store.values.jobs import Attempt, Job, JobRecord, Outcome, state_of
from store.values.schedules import NO_SCHEDULE, Schedule, latest, schedule_fields, schedule_from
from vocabulary.states import Code

RECORD: Final = """
SELECT j.id, t.jobtype, j.state, j.due, j.lease, j.done, j.lock, j.token, j.attempts, l.priority, j.created,
       l.domain, j.options, j.retry_after, j.seq, j.repeat, j.uniq, j.parent,
       j.code, j.exitcode, j.started, j.duration, j.version, j.isolation, j.fingerprint, j.message,
       j.claimed, j.data_bytes, j.result_bytes, j.children, j.pending, j.begun, j.planned, j.history,
       j.number, j.schedule, u.key, j.n
FROM jobs j JOIN lanes l USING (lane) JOIN types t ON t.type = j.type LEFT JOIN turns u ON u.turn = j.turn
"""
"""Everything but the blobs. To be followed by a WHERE clause."""
_PUT_BLOB: Final = "INSERT OR REPLACE INTO blobs (key, body) VALUES (?, ?)"
_PIECE_BYTES: Final = 256 * 1024


def data_key(n: int) -> int:
    return 2 * n


def result_key(n: int) -> int:
    return 2 * n + 1


def read_blob(conn: apsw.Connection, key: int, start: int = 0, length: int | None = None) -> bytes:
    """All of it, or a part without reading the rest into memory."""
    if length is None:
        return bytes(conn.execute("SELECT body FROM blobs WHERE key = ?", (key,)).get)
    blob = conn.blob_open("main", "blobs", "body", key, False)
    try:
        blob.seek(min(start, blob.length()))
        return blob.read(length)
    finally:
        blob.close()


def write_blob(conn: apsw.Connection, key: int, body: bytes) -> None:
    """A large one in pieces: as a parameter SQLite would copy it twice before a page of it is written."""
    if len(body) <= _PIECE_BYTES:
        conn.execute(_PUT_BLOB, (key, body))
        return
    conn.execute(_PUT_BLOB, (key, apsw.zeroblob(len(body))))
    with conn.blob_open("main", "blobs", "body", key, True) as blob:
        for start in range(0, len(body), _PIECE_BYTES):
            blob.write(memoryview(body)[start : start + _PIECE_BYTES])


def inline(body: bytes | None) -> bytes | None:
    """What goes into the row itself of a payload or result: nothing, if it is big."""
    return body if body is not None and len(body) <= INLINE_BYTES else None


def record_from_row(
    conn: apsw.Connection,
    row: tuple[Any, ...],
    now_ms: int,
    *,
    whole: bool,
    max_bytes: int | None = None,
    rounds: int = 0,
) -> JobRecord:
    """The record of a row of RECORD. whole: with data, result and log, of the first two at most max_bytes each, and
    with all rounds; otherwise with so many of them."""
    (job_id, jobtype, state, due, lease, done, lock, token, attempts, priority, created) = row[:11]
    (domain, options, retry_after, seq, repeat, unique, parent) = row[11:18]
    (code, exitcode, started, duration, version, isolation, fingerprint, message) = row[18:26]
    (claimed, data_bytes, result_bytes, children, pending, begun, planned, history, number, schedule, key, n) = row[26:]
    data, result, log = _blobs(conn, n, data_bytes, result_bytes, max_bytes) if whole else (b"", None, b"")
    dt_ms, shown_lock = disposition(state, due, lease, done, lock)
    outcome = None
    if code is not None:
        outcome = Outcome(
            CODES[code], exitcode, started, duration, result, log, version,
            isolation or "", fingerprint or "", message or "",
        )  # fmt: skip
    job = Job(
        job_id, jobtype, data, dt_ms, shown_lock, token, attempts, priority, due, created, domain,
        options or "", retry_after, seq, repeat or "", unique or "", parent or "", begun, planned, children, key or "",
    )  # fmt: skip
    return JobRecord(
        job,
        state_of(dt_ms, shown_lock, now_ms),
        outcome,
        claimed,
        done,
        data_bytes,
        result_bytes,
        children,
        pending,
        decode_history(history) if whole else (),
        number_of(number),
        decode_schedule(schedule) if whole else latest(decode_schedule(schedule), rounds),
    )


def encode_history(history: Sequence[Attempt]) -> str | None:
    return json.dumps(history, separators=(",", ":")) if history else None


def decode_history(text: str | None) -> tuple[Attempt, ...]:
    attempts = [Attempt(*values) for values in json.loads(text or "[]")]
    return tuple(attempt._replace(code=Code(attempt.code)) for attempt in attempts)


def encode_schedule(schedule: Schedule) -> str | None:
    fields = schedule_fields(schedule)
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False) if fields else None


def decode_schedule(text: str | None) -> Schedule:
    return schedule_from(json.loads(text)) if text else NO_SCHEDULE


def disposition(state: int, due: int, lease: int | None, done: int, lock: str | None) -> tuple[int, str]:
    """The pair (dt, lock) of a row."""
    if state <= State.DEFERRED:
        return due, ""
    if state == State.RUNNING:
        return lease or 0, lock or ""
    if state >= State.ARCHIVED:
        return done + DONE_OFFSET_MS, DONE_LOCK
    return due, PAUSED_LOCK


def _blobs(
    conn: apsw.Connection, n: int, data_bytes: int, result_bytes: int, max_bytes: int | None
) -> tuple[bytes, bytes | None, bytes]:
    data, result, log = conn.execute("SELECT data, result, log FROM jobs WHERE n = ?", (n,)).get
    if data_bytes > INLINE_BYTES:
        data = read_blob(conn, data_key(n), 0, max_bytes)
    if result_bytes > INLINE_BYTES:
        result = read_blob(conn, result_key(n), 0, max_bytes)
    return data[:max_bytes], result if result is None else result[:max_bytes], log or b""
