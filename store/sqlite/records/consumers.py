"""Consumers: their records, their leaders, and moves of their windows."""

from collections.abc import Sequence
from typing import Any, Final

import apsw

from store.errors import Conflict, NotFound
from store.names import AHEAD_MS
from store.refusals import check_append, check_start
from store.sqlite.file.connection import fetch
from store.sqlite.file.writer import Tx
from store.sqlite.queue.add import add_jobs
from store.sqlite.queue.window import advanced, ends, hold, let_go, let_in, numbered, place_last
from store.values.consumers import (
    MAX_WINDOW,
    ConsumerRecord,
    EndReport,
    HoldReport,
    WindowMove,
    WindowReport,
)
from store.values.jobs import NewJob

CONSUMER: Final = (
    "c.tenant, c.name, t.jobtype, c.settings, c.created, c.running, c.ending, c.note, c.leader, c.token, c.until,"
    " c.pulled"
)
CONSUMERS: Final = "consumers c JOIN types t ON t.type = c.type"
_READ: Final = f"SELECT {CONSUMER} FROM {CONSUMERS}"
_BY_NAME: Final = "ORDER BY c.tenant, c.name"


def set_consumer(tx: Tx, consumer: ConsumerRecord, start_index: int | None) -> bool:
    number = tx.catalog.make_type(consumer.jobtype)
    there = get_consumer(tx.conn, consumer.tenant, consumer.name)
    if there is not None:
        if there.is_ending:
            raise Conflict(f"consumer {consumer.name} is being deleted: repeat the call when that is done")
        if there.jobtype != consumer.jobtype:
            raise Conflict(f"consumer {consumer.name} works on {there.jobtype}: delete it first, or choose a new name")
        if there.is_pulled != consumer.is_pulled:
            raise Conflict(f"consumer {consumer.name} cannot change whether its jobs are pulled: delete it first")
        sql = "UPDATE consumers SET settings = ? WHERE tenant = ? AND name = ?"
        tx.conn.execute(sql, (consumer.settings, consumer.tenant, consumer.name))
        return False
    other = tx.conn.execute("SELECT name FROM consumers WHERE type = ?", (number,)).get
    if other is not None:
        raise Conflict(f"{consumer.jobtype} has a consumer already: {other}")
    check_start(consumer, start_index, tx.conn.execute("SELECT head FROM types WHERE type = ?", (number,)).get)
    put_consumer(tx, consumer)
    sql = "UPDATE types SET processed = ifnull(?1, processed), released = ifnull(?1, processed) WHERE type = ?2"
    tx.conn.execute(sql, (None if start_index is None else start_index - 1, number))
    return True


def put_consumer(tx: Tx, consumer: ConsumerRecord) -> None:
    """As it is given, in place of one of that name."""
    tenant, name, jobtype, settings, created_ms, is_running, *rest = consumer
    number = tx.catalog.make_type(jobtype)
    sql = (
        "INSERT OR REPLACE INTO consumers (tenant, name, type, settings, created, running, ending, note, leader, token,"
        " until, pulled) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    tx.conn.execute(sql, (tenant, name, number, settings, created_ms, is_running, *rest))


def get_consumer(conn: apsw.Connection, tenant: str, name: str) -> ConsumerRecord | None:
    row = conn.execute(f"{_READ} WHERE c.tenant = ? AND c.name = ?", (tenant, name)).get
    return None if row is None else consumer_from(row)


def list_consumers(conn: apsw.Connection, tenant: str | None) -> list[ConsumerRecord]:
    where, values = ("", ()) if tenant is None else ("WHERE c.tenant = ?", (tenant,))
    return [consumer_from(row) for row in conn.execute(f"{_READ} {where} {_BY_NAME}", values)]


def set_consumer_running(tx: Tx, tenant: str, name: str, *, running: bool) -> None:
    sql = (
        "UPDATE consumers SET running = ?1, leader = iif(?1, leader, ''), until = iif(?1, until, 0),"
        " token = token + iif(?1, 0, 1) WHERE tenant = ?2 AND name = ?3 RETURNING 1"
    )
    if tx.conn.execute(sql, (running, tenant, name)).get is None:
        raise NotFound(f"tenant {tenant} has no consumer {name}")


def end_consumer(tx: Tx, tenant: str, name: str, limit: int, now_ms: int, only_ending: bool) -> EndReport:
    sql = (
        "UPDATE consumers SET ending = 1, running = 0, leader = '', until = 0, token = token + 1"
        " WHERE tenant = ? AND name = ? AND ending >= ? RETURNING type"
    )
    number = tx.conn.execute(sql, (tenant, name, only_ending)).get
    if number is None:
        raise NotFound(f"tenant {tenant} has no consumer {name}")
    tx.conn.execute("UPDATE types SET released = NULL WHERE type = ?", (number,))
    freed = let_go(tx, number, limit, now_ms)
    if freed < limit:
        tx.conn.execute("DELETE FROM consumers WHERE tenant = ? AND name = ?", (tenant, name))
    return EndReport(freed, more=freed == limit)


def lead_consumers(tx: Tx, owner: str, lease_ms: int, now_ms: int, limit: int) -> list[ConsumerRecord]:
    tx.conn.execute(
        "UPDATE consumers SET leader = ?1, token = token + 1 WHERE (tenant, name) IN"
        " (SELECT tenant, name FROM consumers WHERE running AND leader != ?1"
        " AND (until <= ?2 OR until > ?3) ORDER BY until LIMIT ?4)",
        (owner, now_ms, now_ms + lease_ms + AHEAD_MS, limit),
    )
    tx.conn.execute("UPDATE consumers SET until = ? WHERE running AND leader = ?", (now_ms + lease_ms, owner))
    return [
        consumer_from(row) for row in fetch(tx.conn, f"{_READ} WHERE c.running AND c.leader = ? {_BY_NAME}", (owner,))
    ]


def resign_consumers(tx: Tx, owner: str) -> None:
    tx.conn.execute("UPDATE consumers SET until = 0 WHERE leader = ?", (owner,))


def move_window(tx: Tx, move: WindowMove, now_ms: int) -> WindowReport:
    jobtype = _jobtype_led(tx.conn, move.tenant, move.name, move.token)
    found = numbered(tx.conn, jobtype)
    assert found is not None
    number, head, processed, before = found
    released = max(before or 0, min(move.released, head))
    until = min(move.processed, released, processed + MAX_WINDOW)
    if until > processed:
        processed, _ = advanced(tx.conn, number, processed, until, skip_failed=move.skip_failed)
    if processed < move.processed:  # who asks is wrong about an index, so it may not start others either
        released = max(before or 0, processed)
    let_in(tx, number, move.after, released, now_ms)
    tx.conn.execute("UPDATE types SET processed = ?, released = ? WHERE type = ?", (processed, released, number))
    sql = "UPDATE consumers SET note = ? WHERE tenant = ? AND name = ? AND note != ?1"
    tx.conn.execute(sql, (move.note, move.tenant, move.name))
    return WindowReport(head, processed, released, ends(tx.conn, number, move.after, min(move.released, released)))


def append_job(tx: Tx, tenant: str, name: str, token: int, seq: int, job: NewJob, now_ms: int) -> bool:
    found = numbered(tx.conn, _jobtype_led(tx.conn, tenant, name, token))
    consumer = get_consumer(tx.conn, tenant, name)
    assert found is not None
    assert consumer is not None
    check_append(consumer, job, seq, max(found.head, found.processed))
    if found.head >= seq:
        return False
    add_jobs(tx, [job], now_ms, None)
    place_last(tx, found.type, seq, job.id)
    return True


def look_at_window(conn: apsw.Connection, jobtype: str, after: int, until: int) -> WindowReport:
    found = numbered(conn, jobtype)
    if found is None:
        return WindowReport(0, 0, 0, ())
    number, head, processed, released = found
    return WindowReport(head, processed, released or 0, ends(conn, number, after, min(until, head)))


def get_last_numbers(conn: apsw.Connection, jobtypes: Sequence[str]) -> list[int]:
    if not jobtypes:
        return []
    sql = "SELECT jobtype, head FROM types WHERE jobtype IN (SELECT value FROM carray(?))"
    heads = dict(fetch(conn, sql, (apsw.carray(tuple(jobtypes)),)))
    return [heads.get(jobtype, 0) for jobtype in jobtypes]


def hold_jobs(tx: Tx, tenant: str, name: str, token: int, after: int, limit: int) -> HoldReport:
    found = numbered(tx.conn, _jobtype_led(tx.conn, tenant, name, token))
    assert found is not None
    first = max(after, found.released or 0)
    until = min(first + limit, found.head)
    return HoldReport(hold(tx, found.type, first, until), until if until < found.head else None)


def _jobtype_led(conn: apsw.Connection, tenant: str, name: str, token: int) -> str:
    consumer = get_consumer(conn, tenant, name)
    if consumer is None or consumer.token != token or not consumer.leader:
        raise Conflict(f"consumer {name} has another leader by now, or was stopped")
    return consumer.jobtype


def consumer_from(row: tuple[Any, ...]) -> ConsumerRecord:
    return ConsumerRecord._make((*row[:5], bool(row[5]), bool(row[6]), *row[7:11], bool(row[11])))
