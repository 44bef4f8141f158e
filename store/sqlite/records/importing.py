"""Taking over records of another store as they are, each idempotent by its key."""

import json
from collections.abc import Callable, Sequence
from operator import sub
from typing import Any, Final

from store.names import DONE_LOCK, PAUSED_LOCK, number_key
from store.rate_rules import is_pattern
from store.sqlite.file.buckets import CODE_NUMBER
from store.sqlite.file.schema import INLINE_BYTES, State
from store.sqlite.file.totals import COUNTS, add_totals
from store.sqlite.file.writer import Tx
from store.sqlite.queue import families
from store.sqlite.queue.add import keep_position
from store.sqlite.queue.deleted import put_deleted
from store.sqlite.queue.row_changes import put_in_queue, queued_state
from store.sqlite.queue.rows import data_key, encode_history, encode_schedule, inline, result_key, write_blob
from store.sqlite.queue.turns import enter, make_turn
from store.sqlite.records.alerts import ALERT_COLUMNS
from store.sqlite.records.consumers import put_consumer
from store.sqlite.records.contents import put_contents
from store.sqlite.records.daemons import raise_sysids
from store.sqlite.records.import_note import move_note
from store.sqlite.records.secrets import SECRET_COLUMNS
from store.sqlite.records.webhooks import put_webhook
from store.values.alerts import AlertRecord
from store.values.consumers import ConsumerRecord
from store.values.jobs import Outcome
from store.values.positions import JournalPosition
from store.values.records import ApiKey, Content, Handler, Secret, Tenant
from store.values.scoreboard import Bucket, FailureGroup
from store.values.transfer import (
    AuditRecord,
    DeletedRecord,
    ImportPlace,
    JobCopy,
    NumberRecord,
    OnceRecord,
    RateBucketRecord,
    RateRecord,
    Record,
    SeriesRecord,
    TypeRecord,
)
from store.values.webhooks import WebhookRecord
from vocabulary.names import tenant_of

_JOB_COLUMNS: Final = (
    "id", "type", "lane", "state", "due", "token", "attempts", "created", "lock", "lease", "claimed", "done",
    "data_bytes", "retry_after", "seq", "uniq", "parent", "settled", "children", "pending", "options", "repeat", "data",
    "history",
    "code", "exitcode", "started", "duration", "version", "isolation", "fingerprint", "message",
    "result", "result_bytes", "log", "log_bytes", "begun", "planned", "number", "turn", "prio",
    "schedule",
)  # fmt: skip
_JOB: Final = (
    f"INSERT INTO jobs ({', '.join(_JOB_COLUMNS)}) VALUES ({', '.join('?' * len(_JOB_COLUMNS))})"
    " ON CONFLICT (id) DO NOTHING RETURNING n"
)
_NO_OUTCOME: Final = (None, None, None, None, None, None, None, None, None, 0, None, 0)


def import_records(tx: Tx, records: Sequence[Record], after: ImportPlace, now_ms: int) -> None:
    for record in records:
        if isinstance(record, JobCopy):
            _put_job(tx, record, now_ms)
        else:
            _PUT[type(record)](tx, record)
    move_note(tx, after)


def _put_job(tx: Tx, copy: JobCopy, now_ms: int) -> None:
    job = copy.job
    number = tx.catalog.make_type(job.jobtype)
    lane = tx.catalog.make_lane(number, job.domain, job.priority, keyed=bool(job.key))
    turn = make_turn(tx, number, job.key) if job.key else None
    state = _state(copy, now_ms)
    running = state == State.RUNNING
    values = (
        job.id, number, lane, state, job.due_ms, job.token, job.attempts, job.create_ms,
        job.lock if running else None, job.dt_ms if running else None, copy.claimed_ms, copy.done_ms,
        len(job.data), job.retry_after_ms, job.seq, job.unique or None, job.parent or None, copy.settled,
        copy.children, copy.pending, job.options or None, _repeat(copy), inline(job.data),
        encode_history(copy.history), *_outcome(copy.outcome), job.begun_ms, job.planned_ms,
        None if copy.number is None else number_key(tenant_of(job.jobtype), copy.number),
        turn, None if turn is None else job.priority, encode_schedule(copy.schedule),
    )  # fmt: skip
    n = tx.conn.execute(_JOB, values).get
    if n is None:
        return  # it is there, and was counted
    if turn is not None:
        enter(tx, [turn])
    if copy.next_ms is not None:
        families.note_next_round(tx, job.id, copy.next_ms)
    size_bytes = len(job.data)
    if size_bytes > INLINE_BYTES:
        write_blob(tx.conn, data_key(n), job.data)
    if copy.outcome is not None:
        result = copy.outcome.result or b""
        size_bytes += len(result) + len(copy.outcome.log)
        if len(result) > INLINE_BYTES:
            write_blob(tx.conn, result_key(n), result)
    _count(tx, number, lane, state, job.due_ms)
    tx.tally.size(number, size_bytes)


def _state(copy: JobCopy, now_ms: int) -> int:
    lock = copy.job.lock
    if lock == "":
        return queued_state(copy.job.due_ms, now_ms)
    if lock == DONE_LOCK:
        return State.ARCHIVED
    if lock == PAUSED_LOCK:
        return State.HELD if copy.held else State.BLOCKED
    return State.RUNNING


def _repeat(copy: JobCopy) -> str | None:
    return copy.job.repeat or (None if copy.schedule.pause is None else "")


def _outcome(outcome: Outcome | None) -> tuple[Any, ...]:
    if outcome is None:
        return _NO_OUTCOME
    code, exitcode, started_ms, duration_us, result, log, version, isolation, fingerprint, message = outcome
    return (
        CODE_NUMBER[code], exitcode, started_ms, duration_us, version, isolation or None, fingerprint or None,
        message or None, inline(result), len(result or b""), log or None, len(log),
    )  # fmt: skip


def _count(tx: Tx, number: int, lane: int, state: int, due_ms: int) -> None:
    if state <= State.DEFERRED:
        put_in_queue(tx, lane, state, stored=1, due_ms=due_ms)
    else:
        tx.tally.lane(lane, running=int(state == State.RUNNING), stored=1)
        if state in {State.HELD, State.BLOCKED}:
            tx.tally.blocked(number, 1)


def _put_tenant(tx: Tx, tenant: Tenant) -> None:
    tx.conn.execute("INSERT OR REPLACE INTO tenants VALUES (?, ?, ?, ?, ?, ?)", tenant)


def _put_key(tx: Tx, key: ApiKey) -> None:
    values = (*key[:3], json.dumps(key.scopes), *key[4:])
    tx.conn.execute("INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)", values)


def _put_type(tx: Tx, record: TypeRecord) -> None:
    jobtype, *values = record
    tx.conn.execute(
        "UPDATE types SET paused = ?, ok = ?, failed = ?, retry = ?, error = ?, abandoned = ?, cancelled = ?,"
        " head = ?, processed = ?, handler = ?, last_handler = ?, released = ? WHERE type = ?",
        (*values, tx.catalog.make_type(jobtype)),
    )


def _put_handler(tx: Tx, handler: Handler) -> None:
    tx.conn.execute(
        "INSERT OR REPLACE INTO handlers (type, version, created, lang, data, author, restored_from, tree)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (tx.catalog.make_type(handler.jobtype), *handler[1:]),
    )


def _put_content(tx: Tx, content: Content) -> None:
    put_contents(tx, [content])


def _put_numbers(tx: Tx, record: NumberRecord) -> None:
    tx.conn.execute("INSERT OR REPLACE INTO numbers (tenant, last) VALUES (?, ?)", record)


def _put_rate(tx: Tx, record: RateRecord) -> None:
    values = (*record.domain, record.tokens, record.updated_ms, is_pattern(record.domain.domain))
    tx.conn.execute(
        "INSERT OR REPLACE INTO rates (tenant, domain, rate, burst, tokens, updated, pattern)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        values,
    )
    tx.catalog.forget_patterns(record.domain.tenant)


def _put_rate_bucket(tx: Tx, record: RateBucketRecord) -> None:
    tx.conn.execute(
        "INSERT OR REPLACE INTO rate_buckets (tenant, domain, rate, burst, tokens, updated, full)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*record.domain, *record[1:]),
    )


def _put_once(tx: Tx, record: OnceRecord) -> None:
    tx.conn.execute("INSERT OR REPLACE INTO once VALUES (?, ?, ?, ?)", record)


def _put_secret(tx: Tx, secret: Secret) -> None:
    tx.conn.execute(f"INSERT OR REPLACE INTO secrets ({SECRET_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", secret)


def _put_alert(tx: Tx, alert: AlertRecord) -> None:
    tx.conn.execute(f"INSERT OR REPLACE INTO alerts ({ALERT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", alert)


def _put_webhook(tx: Tx, webhook: WebhookRecord) -> None:
    put_webhook(tx, webhook)


def _put_bucket(tx: Tx, bucket: Bucket) -> None:
    jobtype, start, width, *counts, duration, wait = bucket
    number = tx.catalog.make_type(jobtype)
    sql = f"SELECT {', '.join(COUNTS)} FROM buckets WHERE width = ? AND start = ? AND type = ?"
    before = tx.conn.execute(sql, (width, start, number)).get or [0] * len(COUNTS)
    add_totals(tx.conn, {(tenant_of(jobtype), width, start): list(map(sub, counts, before))})
    tx.conn.execute(
        "INSERT OR REPLACE INTO buckets (type, start, width, ok, failed, retry, error, abandoned, cancelled, runner,"
        " duration, wait) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (number, start, width, *counts, duration.encode(), wait.encode()),
    )


def _put_failures(tx: Tx, group: FailureGroup) -> None:
    jobtype, *values = group
    tx.conn.execute(
        "INSERT OR REPLACE INTO failures (type, fingerprint, message, runs, first, last, example)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (tx.catalog.make_type(jobtype), *values),
    )


def _put_audit(tx: Tx, record: AuditRecord) -> None:
    tx.conn.execute(
        "INSERT OR REPLACE INTO audit (n, at, actor, action, tenant, detail) VALUES (?, ?, ?, ?, ?, ?)",
        (record.number, *record.event),
    )


def _put_series(tx: Tx, series: SeriesRecord) -> None:
    raise_sysids(tx, series.last)


def _put_deleted(tx: Tx, record: DeletedRecord) -> None:
    put_deleted(tx, [record])


_PUT: Final[dict[type[Record], Callable[[Tx, Any], None]]] = {
    Tenant: _put_tenant,
    ApiKey: _put_key,
    TypeRecord: _put_type,
    Content: _put_content,
    Handler: _put_handler,
    ConsumerRecord: put_consumer,
    RateRecord: _put_rate,
    RateBucketRecord: _put_rate_bucket,
    OnceRecord: _put_once,
    NumberRecord: _put_numbers,
    Secret: _put_secret,
    AlertRecord: _put_alert,
    WebhookRecord: _put_webhook,
    Bucket: _put_bucket,
    FailureGroup: _put_failures,
    AuditRecord: _put_audit,
    JournalPosition: keep_position,
    DeletedRecord: _put_deleted,
    SeriesRecord: _put_series,
}
