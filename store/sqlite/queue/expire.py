"""Upkeep of jobs in bounded steps: lapsed leases, due jobs that still count as deferred, old jobs.

What is old is looked for on a reading connection and only named to the writer, which looks again at each
before it touches it: so a search over many types keeps no other write waiting.
"""

from typing import Final, NamedTuple

import apsw

from store.names import AHEAD_MS
from store.sqlite.file.buckets import CODE_NUMBER
from store.sqlite.file.connection import fetch
from store.sqlite.file.schema import LIVE, QUEUED, State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.endings import (
    COLUMNS,
    Duty,
    Family,
    Row,
    abandoned,
    between_rounds,
    count_endings,
    end_round,
    enter_place,
)
from store.sqlite.queue.families import end_jobs, follow
from store.sqlite.queue.listing_ranges import ENDED, archived_pairs
from store.sqlite.queue.rates import collect_full
from store.sqlite.queue.release import requeue
from store.sqlite.queue.row_changes import count_removable, delete_rows, leave, put_in_queue, queued_state
from store.sqlite.queue.rows import decode_history, encode_history
from store.values.jobs import ABANDONED, ExpireReport, lost, with_attempt
from vocabulary.states import FAILED_CODES, FINAL_CODES

_FAILED: Final = frozenset(CODE_NUMBER[code] for code in FAILED_CODES)
_WAITED: Final = (
    f"state {QUEUED} AND due < ?2 AND max(created, done, claimed) < ?2"
    " AND (ifnull(repeat, '') = '' OR json_extract(schedule, '$.regular') IS NOT NULL)"
)
"""Waits since before then: since it was due and in the queue, or came back to it after a run. Of what repeats only the
extra rounds: a schedule does not end because its type was busy or paused."""
WAITING_LONG: Final = (
    "SELECT n FROM lanes l CROSS JOIN jobs j ON j.lane = l.lane WHERE l.waiting + l.deferred > 0"
    f" AND (?1 IS NULL OR l.type IN (SELECT type FROM types WHERE tenant = ?1)) AND {_WAITED} LIMIT ?3"
)
"""In one statement, for a tenant may have very many lanes."""
WAITING_LONG_OF_TYPE: Final = (
    "SELECT n FROM lanes l CROSS JOIN jobs j ON j.lane = l.lane WHERE l.type = (SELECT type FROM types WHERE"
    f" jobtype = ?1) AND l.waiting + l.deferred > 0 AND {_WAITED} LIMIT ?3"
)
_UNASKED: Final = (
    f"NOT EXISTS (SELECT 1 FROM jobs p WHERE p.id = j.parent AND p.state {LIVE}"
    " AND (ifnull(p.repeat, '') = '' OR j.created >= ifnull(p.planned, p.due)))"
)
"""No parent asks for it any more: it is over, or repeats and is in a later round, or waits for it."""


_CUT: Final = (
    "UPDATE jobs SET lease = ?1 + min(lease - claimed, max(?3, ifnull(retry_after, 0))), claimed = min(claimed, ?1)"
    f" WHERE n IN (SELECT n FROM jobs WHERE state = {State.RUNNING} AND lease > ?2"
    " AND (claimed > ?2 OR retry_after IS NULL AND lease > ?2 + ?3) LIMIT ?4)"
)


_DROP: Final = (
    "UPDATE jobs SET state = ?2, due = ?3, done = ?4, code = ?5, exitcode = ?6, attempts = 0, begun = NULL,"
    " planned = NULL, history = NULL, started = ifnull(started, 0), duration = ifnull(duration, 0),"
    " version = ifnull(version, 0) WHERE n = ?1"
)
_NOTE: Final = "UPDATE jobs SET history = ? WHERE n = ?"
COMING_DUE: Final = f"SELECT n, lane, due FROM jobs WHERE state = {State.DEFERRED} AND due <= ? ORDER BY due LIMIT ?"


def expire_locks(tx: Tx, now_ms: int, limit: int, owner: str | None) -> int:
    which, value = ("j.lease <= ?", now_ms) if owner is None else ("j.lock = ?", owner)
    columns = f"j.claimed, j.lock, {COLUMNS}"
    sql = f"SELECT {columns} FROM jobs j WHERE j.state = {State.RUNNING} AND {which} ORDER BY j.lease LIMIT ?"
    found = fetch(tx.conn, sql, (value, limit))
    lapsed = [Row(*row) for _, _, *row in found]
    requeue(tx, lapsed, [queued_state(row.due, now_ms) for row in lapsed])  # each has begun, and goes on
    noted: list[tuple[str | None, int]] = []
    for row, (claimed_ms, lock, *_) in zip(lapsed, found, strict=True):
        run = lost(claimed_ms, now_ms, is_fixed=row.retry_after_ms is not None)
        noted.append((encode_history(with_attempt(decode_history(row.history), row.attempts, run, lock)), row.n))
    tx.conn.executemany(_NOTE, noted)
    _promote_due(tx, now_ms, limit)
    collect_full(tx, now_ms, limit)
    return len(lapsed)


def cut_leases(tx: Tx, now_ms: int, longest_ms: int, limit: int) -> int:
    tx.conn.execute(_CUT, (now_ms, now_ms + AHEAD_MS, longest_ms, limit))
    return tx.conn.changes()


def _promote_due(tx: Tx, now_ms: int, limit: int) -> None:
    """Count deferred jobs that came due as waiting, so that readers need not look for them. By their time: a tenant may
    have very many lanes."""
    due = fetch(tx.conn, COMING_DUE, (now_ms, limit))
    tx.conn.executemany(f"UPDATE jobs SET state = {State.WAITING} WHERE n = ?", [(n,) for n, _, _ in due])
    for _, lane, due_ms in due:
        leave(tx, State.DEFERRED, 0, lane)
        put_in_queue(tx, lane, State.WAITING, due_ms=due_ms)


class Old(NamedTuple):
    """Row numbers that were found to be old, and whether there may be more."""

    archived: list[int]
    waiting: list[int]
    more: bool


class Before(NamedTuple):
    """What ended, or began to wait, before these times is old."""

    done_ms: int
    failed_ms: int
    waiting_ms: int

    def ended_ms(self, code: int) -> int:
        return self.failed_ms if code in _FAILED else self.done_ms


def find_old(conn: apsw.Connection, tenant: str | None, jobtype: str | None, before: Before, limit: int) -> Old:
    which = "?1 IS NULL OR t.tenant = ?1" if jobtype is None else "t.jobtype = ?1"
    types = fetch(conn, f"SELECT t.type, {ENDED} FROM types t WHERE {which}", (jobtype or tenant,))
    archived: list[int] = []
    sql = (
        f"SELECT n FROM jobs j WHERE state = {State.ARCHIVED} AND type = ? AND code = ? AND done < ? AND {_UNASKED}"
        " ORDER BY done LIMIT ?"
    )
    for pair in archived_pairs(types, FINAL_CODES):
        left = limit - len(archived)
        if left <= 0:
            break
        archived.extend(n for (n,) in fetch(conn, sql, (*pair, before.ended_ms(pair[1]), left)))
    waiting: list[int] = []
    if before.waiting_ms > 0 and len(archived) < limit:
        sql = WAITING_LONG if jobtype is None else WAITING_LONG_OF_TYPE
        found = fetch(conn, sql, (jobtype or tenant, before.waiting_ms, limit - len(archived)))
        waiting = [n for (n,) in found]
    return Old(archived, waiting, more=len(archived) + len(waiting) >= limit)


def expire_jobs(tx: Tx, old: Old, before: Before, now_ms: int) -> ExpireReport:
    ended = f"SELECT code, done FROM jobs j WHERE n = ? AND state = {State.ARCHIVED} AND {_UNASKED}"
    found = [(n, tx.conn.execute(ended, (n,)).get) for n in old.archived]
    purged = [n for n, row in found if row is not None and row[1] < before.ended_ms(row[0])]
    count = count_removable(tx, purged)
    delete_rows(tx, purged[:count])
    sql = f"SELECT {COLUMNS} FROM jobs j WHERE n = ?1 AND {_WAITED}"
    due = [tx.conn.execute(sql, (n, before.waiting_ms)).get for n in old.waiting]
    rows = [Row(*row) for row in due if row is not None]
    extra = [row for row in rows if row.repeat]
    end_jobs(tx, [abandoned(row) for row in rows if row not in extra], now_ms)
    follow(tx, [family for row in extra for family in _drop_round(tx, row, now_ms)], now_ms)
    return ExpireReport(count, len(rows), old.more or count < len(purged))


def _drop_round(tx: Tx, row: Row, now_ms: int) -> list[Family]:
    """An extra round is over without a run, and the schedule goes on with its regular one, which waits from now on if
    it is due. Returns the children to be cancelled."""
    ending = abandoned(row)
    state, due_ms = between_rounds(end_round(tx, ending, ""), row.due, now_ms)
    tx.conn.execute(_DROP, (row.n, state, due_ms, now_ms, CODE_NUMBER[ABANDONED.code], ABANDONED.exitcode))
    leave(tx, row.state, row.type, row.lane)
    enter_place(tx, state, row.type, row.lane, due_ms)
    count_endings(tx, [ending], now_ms)
    return [Family(row.id, Duty.CANCEL, due_ms=due_ms)] if row.pending else []
