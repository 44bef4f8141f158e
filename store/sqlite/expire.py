"""Upkeep of jobs in bounded steps: lapsed leases, due jobs that still count as deferred, old jobs.

What is old is looked for on a reading connection and only named to the writer, which looks again at each
before it touches it: so a search over many types keeps no other write waiting.
"""

from typing import NamedTuple

import apsw

from store.sqlite.connection import fetch
from store.sqlite.endings import COLUMNS, Row, abandoned, end_jobs
from store.sqlite.listing import ENDED, archived_pairs
from store.sqlite.moves import delete_rows, leave, put_in_queue
from store.sqlite.release import requeue
from store.sqlite.schema import State
from store.sqlite.writer import Tx
from store.values.jobs import FINAL_CODES, ExpireReport


def expire_locks(tx: Tx, now_ms: int, limit: int) -> int:
    sql = f"SELECT {COLUMNS} FROM jobs j WHERE j.state = 2 AND j.lease <= ? ORDER BY j.lease LIMIT ?"
    lapsed = [Row(*row) for row in tx.conn.execute(sql, (now_ms, limit))]
    requeue(tx, lapsed, now_ms)
    _promote_due(tx, now_ms, limit)
    return len(lapsed)


def _promote_due(tx: Tx, now_ms: int, limit: int) -> None:
    """Count deferred jobs that came due as waiting, so that readers need not look for them."""
    sql = "SELECT n, lane FROM jobs WHERE state = 1 AND lane = ? AND due <= ? LIMIT ?"
    lanes = [int(row[0]) for row in tx.conn.execute("SELECT lane FROM lanes WHERE deferred > 0")]
    for lane in lanes:
        due = tx.conn.execute(sql, (lane, now_ms, limit)).fetchall()
        tx.conn.executemany("UPDATE jobs SET state = 0 WHERE n = ?", [(n,) for n, _ in due])
        leave(tx, State.DEFERRED, 0, lane, len(due))
        put_in_queue(tx, lane, State.WAITING, len(due))
        limit -= len(due)
        if limit <= 0:
            return


class Old(NamedTuple):
    """Row numbers that were found to be old, and whether there may be more."""

    archived: list[int]
    waiting: list[int]
    more: bool


def find_old(conn: apsw.Connection, tenant: str | None, done_before_ms: int, waiting_before_ms: int, limit: int) -> Old:
    types = fetch(conn, f"SELECT t.type, {ENDED} FROM types t WHERE ?1 IS NULL OR t.tenant = ?1", (tenant,))
    archived: list[int] = []
    sql = "SELECT n FROM jobs WHERE state = 5 AND type = ? AND code = ? AND done < ? ORDER BY done LIMIT ?"
    for pair in archived_pairs(types, FINAL_CODES):
        left = limit - len(archived)
        if left <= 0:
            break
        archived.extend(n for (n,) in fetch(conn, sql, (*pair, done_before_ms, left)))
    waiting: list[int] = []
    sql = "SELECT n FROM jobs WHERE state <= 1 AND lane = ? AND due < ? ORDER BY due LIMIT ?"
    lanes = (
        "SELECT l.lane FROM lanes l JOIN types t ON t.type = l.type"
        " WHERE l.waiting + l.deferred > 0 AND (?1 IS NULL OR t.tenant = ?1)"
    )
    for (lane,) in fetch(conn, lanes, (tenant,)):
        left = limit - len(archived) - len(waiting)
        if left <= 0:
            break
        waiting.extend(n for (n,) in fetch(conn, sql, (lane, waiting_before_ms, left)))
    return Old(archived, waiting, more=len(archived) + len(waiting) >= limit)


def expire_jobs(tx: Tx, old: Old, done_before_ms: int, waiting_before_ms: int, now_ms: int) -> ExpireReport:
    still = "SELECT 1 FROM jobs WHERE n = ? AND state = 5 AND done < ?"
    purged = [n for n in old.archived if tx.conn.execute(still, (n, done_before_ms)).get]
    delete_rows(tx, purged)
    sql = f"SELECT {COLUMNS} FROM jobs j WHERE j.n = ? AND j.state <= 1 AND j.due < ?"
    found = [tx.conn.execute(sql, (n, waiting_before_ms)).get for n in old.waiting]
    rows = [Row(*row) for row in found if row is not None]
    end_jobs(tx, [abandoned(row) for row in rows], now_ms)
    return ExpireReport(len(purged), len(rows), old.more)
