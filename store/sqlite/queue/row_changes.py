"""Changes of place that several verbs share: into the queue, out of it, to another lane, another payload.

Each keeps row, blobs and tally together; none decides anything.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from store.sqlite.file.bulk import numbers
from store.sqlite.file.schema import DEFERRED, INLINE_BYTES, WAITING, State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.rows import data_key, inline, result_key, write_blob

MOST_REMOVED_BYTES: Final = 32 << 20
"""Of payloads and results, in one transaction."""


def queued_state(due_ms: int, now_ms: int) -> int:
    return WAITING if due_ms <= now_ms else DEFERRED


def put_in_queue(tx: Tx, lane: int, state: int, count: int = 1, *, stored: int = 0, due_ms: int = 0) -> None:
    """Count jobs that entered (or with a negative count left) the queue as waiting or deferred. None of them is due
    before due_ms."""
    if state == State.WAITING:
        tx.tally.lane(lane, waiting=count, stored=stored, due_ms=due_ms)
    else:
        tx.tally.lane(lane, deferred=count, stored=stored, due_ms=due_ms)


def leave(tx: Tx, state: int, number: int, lane: int, count: int = 1) -> None:
    """Take jobs out of the count of the state that they were in."""
    if state <= State.DEFERRED:
        put_in_queue(tx, lane, state, -count)
    elif state == State.RUNNING:
        tx.tally.lane(lane, running=-count)
    elif state != State.ARCHIVED:
        tx.tally.blocked(number, -count)


def change_payload(tx: Tx, n: int, data: bytes) -> None:
    number, old_bytes = tx.conn.execute("SELECT type, data_bytes FROM jobs WHERE n = ?", (n,)).get
    sql = "UPDATE jobs SET data = ?, data_bytes = ? WHERE n = ?"
    tx.conn.execute(sql, (inline(data), len(data), n))
    if len(data) > INLINE_BYTES:
        write_blob(tx.conn, data_key(n), data)
    elif old_bytes > INLINE_BYTES:
        tx.conn.execute("DELETE FROM blobs WHERE key = ?", (data_key(n),))
    tx.tally.size(number, len(data) - old_bytes)


def change_priority(tx: Tx, n: int, priority: int) -> None:
    """Of a live job that does not run."""
    sql = "SELECT j.type, j.lane, j.state, j.turn, j.due, l.domain FROM jobs j JOIN lanes l USING (lane) WHERE j.n = ?"
    number, old_lane, state, turn, due_ms, domain = tx.conn.execute(sql, (n,)).get
    lane = tx.catalog.make_lane(number, domain, priority, keyed=turn is not None)
    if lane == old_lane:
        return
    tx.conn.execute("UPDATE jobs SET lane = ? WHERE n = ?", (lane, n))
    if turn is not None:
        tx.conn.execute("UPDATE jobs SET prio = ? WHERE n = ?", (priority, n))
    for place, change in ((old_lane, -1), (lane, 1)):
        if state <= State.DEFERRED:
            put_in_queue(tx, place, state, change, stored=change, due_ms=due_ms)
        else:
            tx.tally.lane(place, stored=change)


class Spot(NamedTuple):
    """Where a job that is not over stands."""

    n: int
    state: int
    type: int
    lane: int


def change_due(tx: Tx, spot: Spot, due_ms: int, now_ms: int) -> None:
    if spot.state > State.DEFERRED:  # held or blocked: it keeps waiting, and its time with it
        tx.conn.execute("UPDATE jobs SET due = ? WHERE n = ?", (due_ms, spot.n))
        return
    state = queued_state(due_ms, now_ms)
    tx.conn.execute("UPDATE jobs SET due = ?, state = ? WHERE n = ?", (due_ms, state, spot.n))
    leave(tx, spot.state, spot.type, spot.lane)
    put_in_queue(tx, spot.lane, state, due_ms=due_ms)


def drop_result(tx: Tx, n: int, number: int, result_bytes: int) -> None:
    """Forget the kept result of a job that is to run again, or of which nobody wants it."""
    tx.conn.execute("UPDATE jobs SET result = NULL, result_bytes = 0 WHERE n = ?", (n,))  # it may be one of 0 bytes
    tx.tally.size(number, -result_bytes)
    if result_bytes > INLINE_BYTES:
        tx.conn.execute("DELETE FROM blobs WHERE key = ?", (result_key(n),))


def drop_log(tx: Tx, n: int, number: int, log_bytes: int) -> None:
    tx.conn.execute("UPDATE jobs SET log = NULL, log_bytes = 0 WHERE n = ?", (n,))
    tx.tally.size(number, -log_bytes)


def count_fitting(sizes_bytes: Sequence[int]) -> int:
    """How many of the first may be removed in one transaction: one at least. It looks at every page of each, and all
    others wait for it."""
    total_bytes = 0
    for count, size_bytes in enumerate(sizes_bytes):
        total_bytes += size_bytes
        if count and total_bytes > MOST_REMOVED_BYTES:
            return count
    return len(sizes_bytes)


def count_removable(tx: Tx, rows: Sequence[int]) -> int:
    """The same of jobs."""
    sql = "SELECT n, data_bytes + result_bytes FROM jobs WHERE n IN (SELECT value FROM carray(?))"
    sizes = dict(tx.conn.execute(sql, (numbers(rows),))) if rows else {}
    return count_fitting([sizes.get(n, 0) for n in rows])


def delete_rows(tx: Tx, rows: Sequence[int]) -> None:
    """Remove jobs in any state with all that belongs to them."""
    for n in rows:
        sql = "DELETE FROM jobs WHERE n = ? RETURNING id, type, lane, state, data_bytes, result_bytes, log_bytes"
        row = tx.conn.execute(sql, (n,)).get
        if row is None:
            continue
        job_id, number, lane, state, data_bytes, result_bytes, log_bytes = row
        leave(tx, state, number, lane)
        if state == State.BLOCKED:  # what is noted of its next round; its tenant is deleted
            tx.conn.execute("DELETE FROM families WHERE parent = ?", (job_id,))
        tx.tally.lane(lane, stored=-1)
        tx.tally.size(number, -(data_bytes + result_bytes + log_bytes))
        if data_bytes > INLINE_BYTES or result_bytes > INLINE_BYTES:
            tx.conn.execute("DELETE FROM blobs WHERE key IN (?, ?)", (data_key(n), result_key(n)))
