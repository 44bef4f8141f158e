"""The content as values, page by page along the primary keys."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import apsw

from store.sqlite.file.connection import fetch
from store.sqlite.file.schema import State
from store.sqlite.queue import families
from store.sqlite.queue.deleted import POSITION, position_from
from store.sqlite.queue.rows import RECORD, record_from_row
from store.sqlite.records.alerts import ALERT_COLUMNS
from store.sqlite.records.consumers import CONSUMER, CONSUMERS, consumer_from
from store.sqlite.records.contents import CONTENT_COLUMNS
from store.sqlite.records.daemons import last_sysid
from store.sqlite.records.import_note import READERS
from store.sqlite.records.secrets import SECRET_COLUMNS
from store.sqlite.records.tenants import KEY, TENANT, key_from, tenant_from
from store.sqlite.records.webhooks import WEBHOOK_COLUMNS
from store.transfers import decode_cursor, encode_cursor, size_of
from store.values.alerts import AlertRecord
from store.values.histogram import Histogram
from store.values.records import AuditEvent, Content, Handler, RateDomain, Secret
from store.values.scoreboard import Bucket, FailureGroup
from store.values.transfer import (
    SYSIDS,
    AuditRecord,
    DeletedRecord,
    ExportPage,
    JobCopy,
    NumberRecord,
    OnceRecord,
    Part,
    RateBucketRecord,
    RateRecord,
    Record,
    SeriesRecord,
    TypeRecord,
)
from store.values.webhooks import WebhookRecord

Row = tuple[Any, ...]


class _Table(NamedTuple):
    """Where the records of a part are: key columns, other columns, tables, and what is made of a row of the latter."""

    key: tuple[str, ...]
    columns: str
    source: str
    make: Callable[[Row], Record]


_TABLES: Final = {
    Part.TENANTS: _Table(("name",), TENANT, "tenants", tenant_from),
    Part.KEYS: _Table(("key_id",), KEY, "keys", key_from),
    Part.TYPES: _Table(
        ("type",),
        "jobtype, paused, ok, failed, retry, error, abandoned, cancelled, head, processed, handler, last_handler,"
        " released",
        "types",
        lambda row: TypeRecord(row[0], bool(row[1]), *row[2:]),
    ),
    Part.HANDLERS: _Table(
        ("h.type", "h.version"),
        "t.jobtype, h.version, h.created, h.lang, h.data, h.author, h.restored_from, h.tree",
        "handlers h JOIN types t USING (type)",
        lambda row: Handler(*row),
    ),
    Part.CONTENTS: _Table(("tenant", "digest"), CONTENT_COLUMNS, "contents", lambda row: Content(*row)),
    Part.CONSUMERS: _Table(("c.tenant", "c.name"), CONSUMER, CONSUMERS, consumer_from),
    Part.RATES: _Table(
        ("tenant", "domain"),
        "tenant, domain, rate, burst, tokens, updated",
        "rates",
        lambda row: RateRecord(RateDomain(*row[:4]), *row[4:]),
    ),
    Part.RATE_BUCKETS: _Table(
        ("tenant", "domain"),
        "tenant, domain, rate, burst, tokens, updated, full",
        "rate_buckets",
        lambda row: RateBucketRecord(RateDomain(*row[:4]), *row[4:]),
    ),
    Part.ONCE: _Table(("tenant", "key"), "tenant, key, value, expires", "once", lambda row: OnceRecord(*row)),
    Part.NUMBERS: _Table(("tenant",), "tenant, last", "numbers", lambda row: NumberRecord(*row)),
    Part.SECRETS: _Table(("tenant", "name"), SECRET_COLUMNS, "secrets", lambda row: Secret(*row)),
    Part.ALERTS: _Table(("tenant", "name"), ALERT_COLUMNS, "alerts", lambda row: AlertRecord(*row)),
    Part.WEBHOOKS: _Table(("tenant", "name"), WEBHOOK_COLUMNS, "webhooks", lambda row: WebhookRecord(*row)),
    Part.BUCKETS: _Table(
        ("b.width", "b.start", "b.type"),
        "t.jobtype, b.start, b.width, b.ok, b.failed, b.retry, b.error, b.abandoned, b.cancelled, b.runner,"
        " b.duration, b.wait",
        "buckets b JOIN types t USING (type)",
        lambda row: Bucket._make((*row[:10], Histogram.decode(row[10]), Histogram.decode(row[11]))),
    ),
    Part.FAILURES: _Table(
        ("f.type", "f.fingerprint"),
        "t.jobtype, f.fingerprint, f.message, f.runs, f.first, f.last, f.example",
        "failures f JOIN types t USING (type)",
        lambda row: FailureGroup(*row),
    ),
    Part.AUDIT: _Table(
        ("n",),
        "n, at, actor, action, tenant, detail",
        "audit",
        lambda row: AuditRecord(row[0], AuditEvent(*row[1:])),
    ),
    Part.POSITIONS: _Table(("reader",), POSITION, READERS, position_from),
    Part.DELETED: _Table(
        ("lock", "id"),
        "id, done",
        f"(SELECT lock, id, done FROM jobs WHERE state = {State.DELETED})",
        lambda row: DeletedRecord(*row),
    ),
}


def export(conn: apsw.Connection, part: Part, cursor: str | None, limit: int, max_bytes: int) -> ExportPage:
    after = decode_cursor(part, cursor)
    if part is Part.JOBS:
        return _cut(part, _jobs(conn, after, limit + 1), limit, max_bytes)
    if part is Part.SERIES:
        return ExportPage((SeriesRecord(SYSIDS, last_sysid(conn)),), None)
    return _cut(part, _records(conn, _TABLES[part], after, limit + 1), limit, max_bytes)


def _cut(part: Part, found: Iterator[tuple[Record, list[Any]]], limit: int, max_bytes: int) -> ExportPage:
    """The first of the records, each with its key, that keep within the bounds; at least one."""
    records: list[Record] = []
    key: list[Any] = []
    for record, its_key in found:
        max_bytes -= size_of(record)
        if records and (len(records) == limit or max_bytes < 0):
            return ExportPage(tuple(records), encode_cursor(part, key))
        records.append(record)
        key = its_key
    return ExportPage(tuple(records), None)


def _records(
    conn: apsw.Connection, table: _Table, after: list[Any] | None, limit: int
) -> Iterator[tuple[Record, list[Any]]]:
    key = ", ".join(table.key)
    where = "" if after is None else f"WHERE ({key}) > ({', '.join('?' * len(table.key))})"
    sql = f"SELECT {key}, {table.columns} FROM {table.source} {where} ORDER BY {key} LIMIT ?"
    for row in conn.execute(sql, (*(after or ()), limit)):
        yield table.make(row[len(table.key) :]), list(row[: len(table.key)])


def _jobs(conn: apsw.Connection, after: list[Any] | None, limit: int) -> Iterator[tuple[Record, list[Any]]]:
    rows = fetch(conn, RECORD + "WHERE j.id > ? ORDER BY j.id LIMIT ?", (after[0] if after else "", limit))
    for row in rows:
        yield _job(conn, row), [row[0]]


def _job(conn: apsw.Connection, row: Row) -> JobCopy:
    state, number = row[2], row[-1]
    record = record_from_row(conn, row, 0, whole=True)
    settled = record.job.parent != "" and bool(conn.execute("SELECT settled FROM jobs WHERE n = ?", (number,)).get)
    return JobCopy(
        record.job,
        record.outcome,
        record.claimed_ms,
        record.done_ms,
        held=state == State.HELD,
        settled=settled,
        children=record.children,
        pending=record.pending_children,
        history=record.history,
        number=record.number,
        next_ms=families.next_round(conn, record.job.id) if state == State.BLOCKED else None,
        schedule=record.schedule,
    )
