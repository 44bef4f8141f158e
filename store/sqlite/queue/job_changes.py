"""Changes of single jobs by their tenant: update, cancel, replay, delete; the progress of indexed queues."""

from collections.abc import Container, Sequence
from typing import Final, NamedTuple

import apsw

from store.errors import NotFound
from store.refusals import check_cancel, check_family, check_move, check_update
from store.sqlite.file.buckets import CODE_NUMBER
from store.sqlite.file.schema import LIVE, State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.deleted import keep_ids
from store.sqlite.queue.endings import COLUMNS, Row, cancelled, move_next_round
from store.sqlite.queue.families import end_jobs, is_noted
from store.sqlite.queue.row_changes import (
    Spot,
    change_due,
    change_payload,
    change_priority,
    count_fitting,
    count_removable,
    delete_rows,
    drop_result,
    leave,
    put_in_queue,
    queued_state,
)
from store.sqlite.queue.rows import disposition
from store.sqlite.queue.schedules import change_schedule
from store.sqlite.queue.turns import make_turn
from store.sqlite.queue.window import is_beyond, numbers_all
from store.values.job_changes import JobChange
from store.values.jobs import IndexState, state_of
from vocabulary.states import Code, JobState

_OF_TENANT: Final = f"SELECT {COLUMNS} FROM jobs j JOIN types t ON t.type = j.type WHERE j.id = ? AND t.tenant = ?"

_REPLAY: Final = (
    "UPDATE jobs SET state = ?, due = ?, attempts = 0, begun = NULL, planned = NULL, lock = NULL, lease = NULL"
    " WHERE n = ?"
)
_KEEP_ROUNDS: Final = (
    "UPDATE jobs SET schedule = json_remove(schedule, '$.pause', '$.regular', '$.ending')"
    " WHERE n = ? AND schedule IS NOT NULL"
)
"""Of a job that had ended, and runs again."""


_REPLAYED_AT_ONCE: Final = 100
"""In one transaction, for which all others wait."""
_REJOIN: Final = f"UPDATE jobs SET pending = pending + 1 WHERE id = ? AND state {LIVE} RETURNING n"


class Move(NamedTuple):
    """What `move_job` is to make of a job."""

    jobtype: str
    dt_ms: int
    data: bytes | None
    token: int | None


def _find(tx: Tx, tenant: str, job_id: str) -> Row | None:
    found = tx.conn.execute(_OF_TENANT, (job_id, tenant)).get
    return None if found is None else Row._make(found)


def _must_find(tx: Tx, tenant: str, job_id: str) -> Row:
    row = _find(tx, tenant, job_id)
    if row is None:
        raise NotFound(f"tenant {tenant} has no job {job_id}")
    return row


def update_job(tx: Tx, tenant: str, job_id: str, change: JobChange, now_ms: int) -> JobState:
    row = _must_find(tx, tenant, job_id)
    delivery = row.token if row.state == State.RUNNING else None
    check_update(job_id, change, delivery, repeat=row.repeat or "", has_ended=row.state == State.ARCHIVED)
    if change.data is not None:
        change_payload(tx, row.n, change.data)
    if change.is_of_schedule:
        change_schedule(tx, row, change, now_ms)
    elif change.dt_ms is not None:
        change_due(tx, Spot(row.n, row.state, row.type, row.lane), change.dt_ms, now_ms)
        if row.state == State.BLOCKED:
            move_next_round(tx, job_id, change.dt_ms)
    if change.priority is not None:
        change_priority(tx, row.n, change.priority)
    sql = "SELECT state, due, lease, done, lock FROM jobs WHERE n = ?"
    return state_of(*disposition(*tx.conn.execute(sql, (row.n,)).get), now_ms)


def cancel_job(tx: Tx, tenant: str, job_id: str, now_ms: int, *, running: bool) -> list[str]:
    """Returns the parents that have more children to be cancelled (families.py)."""
    row = _must_find(tx, tenant, job_id)
    if row.state == State.ARCHIVED and row.code == CODE_NUMBER[Code.CANCELLED]:
        return [job_id] if is_noted(tx, job_id) else []
    check_cancel(job_id, is_running=row.state == State.RUNNING and not running, has_ended=row.state == State.ARCHIVED)
    return end_jobs(tx, [cancelled(row)], now_ms)


def replay_jobs(
    tx: Tx, tenant: str, job_ids: Sequence[str], earlier: Container[str], dt_ms: int, now_ms: int, data: bytes | None
) -> tuple[list[str], Sequence[str]]:
    """One step. Returns the jobs that were replayed, and those that it did not come to. earlier: those of the steps
    before."""
    replayed: list[str] = []
    rows = [_find(tx, tenant, job_id) for job_id in job_ids[:_REPLAYED_AT_ONCE]]
    count = count_fitting([0 if row is None else row.result_bytes + len(data or b"") for row in rows])
    for row in rows[:count]:
        if row is None or row.state != State.ARCHIVED or is_noted(tx, row.id) or not _take_name(tx, row):
            continue
        drop_result(tx, row.n, row.type, row.result_bytes)
        if data is not None:
            change_payload(tx, row.n, data)
        state = State.HELD if is_beyond(tx, row.n) else queued_state(dt_ms, now_ms)
        tx.conn.execute(_REPLAY, (state, dt_ms, row.n))
        tx.conn.execute(_KEEP_ROUNDS, (row.n,))
        if row.parent not in replayed and row.parent not in earlier:  # that was over at the call
            _rejoin_parent(tx, row)
        if state == State.HELD:
            tx.tally.blocked(row.type, 1)
        else:
            put_in_queue(tx, row.lane, state, due_ms=dt_ms)
        replayed.append(row.id)
    return replayed, job_ids[count:]


def move_job(tx: Tx, tenant: str, job_id: str, move: Move, now_ms: int) -> None:
    row = _must_find(tx, tenant, job_id)
    sql = (
        "SELECT j.uniq, j.seq, l.domain, l.priority, u.key FROM jobs j JOIN lanes l USING (lane)"
        " LEFT JOIN turns u ON u.turn = j.turn WHERE j.n = ?"
    )
    unique, seq, domain, priority, key = tx.conn.execute(sql, (row.n,)).get
    is_at_rest = row.state <= State.DEFERRED or row.state == State.ARCHIVED
    delivery = row.token if row.state == State.RUNNING else None
    is_bound, is_consumed = bool(unique or seq), numbers_all(tx, move.jobtype)
    check_move(job_id, move.token, delivery, is_at_rest=is_at_rest, is_bound=is_bound, is_consumed=is_consumed)
    check_family(job_id, is_being_cancelled=is_noted(tx, job_id))
    if row.state == State.ARCHIVED:
        drop_result(tx, row.n, row.type, row.result_bytes)
    if move.data is not None:
        change_payload(tx, row.n, move.data)
    number = tx.catalog.make_type(move.jobtype)
    lane = tx.catalog.make_lane(number, domain, priority, keyed=key is not None)
    turn = None if key is None else make_turn(tx, number, key)
    state = queued_state(move.dt_ms, now_ms)
    sizes = "SELECT data_bytes + result_bytes + log_bytes FROM jobs WHERE n = ?"
    size_bytes = tx.conn.execute(sizes, (row.n,)).get
    leave(tx, row.state, row.type, row.lane)
    tx.tally.lane(row.lane, stored=-1)
    tx.tally.size(row.type, -size_bytes)
    tx.conn.execute("UPDATE jobs SET type = ?, lane = ?, turn = ? WHERE n = ?", (number, lane, turn, row.n))
    tx.conn.execute(_REPLAY, (state, move.dt_ms, row.n))
    if row.state == State.ARCHIVED:
        tx.conn.execute(_KEEP_ROUNDS, (row.n,))
    _rejoin_parent(tx, row)
    put_in_queue(tx, lane, state, stored=1, due_ms=move.dt_ms)
    tx.tally.size(number, size_bytes)


def _rejoin_parent(tx: Tx, row: Row) -> None:
    """A child that had ended and runs again: its parent waits for it once more, unless that is over."""
    if row.parent and row.settled and tx.conn.execute(_REJOIN, (row.parent,)).get is not None:
        tx.conn.execute("UPDATE jobs SET settled = 0 WHERE n = ?", (row.n,))


def _take_name(tx: Tx, row: Row) -> bool:
    """Whether the job may have its unique name again. One that a window holds behind it loses the name: it could never
    start, and so never give it back."""
    sql = (
        "SELECT b.n, b.state = ?2 AND b.parent IS NULL AND b.seq > a.seq FROM jobs a"
        f" JOIN jobs b ON b.type = a.type AND b.uniq = a.uniq WHERE a.n = ?1 AND b.uniq IS NOT NULL AND b.state {LIVE}"
    )
    holder = tx.conn.execute(sql, (row.n, State.HELD)).get
    if holder is not None and holder[1]:
        tx.conn.execute("UPDATE jobs SET uniq = NULL WHERE n = ?", (holder[0],))
    return holder is None or bool(holder[1])


def delete_jobs(tx: Tx, tenant: str, job_ids: Sequence[str], now_ms: int) -> tuple[int, Sequence[str]]:
    """One step. Returns how many it removed, and which it has left."""
    found = [_find(tx, tenant, job_id) for job_id in dict.fromkeys(job_ids)]
    archived = [row for row in found if row is not None and row.state == State.ARCHIVED]
    count = count_removable(tx, [row.n for row in archived])
    delete_rows(tx, [row.n for row in archived[:count]])
    keep_ids(tx, [row.id for row in archived[:count]], now_ms)
    return count, [row.id for row in archived[count:]]


def get_index_state(conn: apsw.Connection, jobtype: str) -> IndexState:
    found = conn.execute("SELECT type, head, processed FROM types WHERE jobtype = ?", (jobtype,)).get
    if found is None:
        return IndexState(0, 0, None)
    number, head, processed = found
    sql = "SELECT state, code FROM jobs WHERE type = ? AND seq = ? AND seq IS NOT NULL"
    after = conn.execute(sql, (number, processed + 1)).get
    ended_badly = after is not None and after[0] == State.ARCHIVED and after[1] != CODE_NUMBER[Code.OK]
    return IndexState(head, processed, processed + 1 if ended_badly else None)
