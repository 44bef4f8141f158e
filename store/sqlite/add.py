"""Adding jobs: in bulk from a journal, or one with a unique name or a parent."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from store.errors import Conflict, NotFound
from store.names import tenant_of
from store.sqlite.moves import change_payload, change_priority, put_in_queue
from store.sqlite.rows import data_key, disposition, write_blob
from store.sqlite.schema import DEFERRED, INLINE_BYTES, WAITING, State
from store.sqlite.writer import Tx
from store.values.jobs import AddReport, CreateReport, JobState, JournalPosition, NewJob, state_of

INSERT: Final = (
    "INSERT INTO jobs (id, type, lane, state, due, created, data_bytes, data, options, retry_after, repeat)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)


def add_jobs(tx: Tx, jobs: Sequence[NewJob], now_ms: int, position: JournalPosition | None) -> AddReport:
    newest = tx.conn.execute("SELECT max(n) FROM jobs").get or 0
    rows = _rows(tx, jobs, now_ms)
    changes = tx.conn.total_changes()
    tx.conn.executemany(INSERT, rows)
    added = tx.conn.total_changes() - changes
    duplicates = len(jobs) - added
    if duplicates:
        jobs, rows = _those_added(tx, newest, jobs, rows)
    _count(tx, rows)
    for job in jobs:
        if job.indexed:
            _give_seq(tx, job)
        if len(job.data) > INLINE_BYTES:
            n = tx.conn.execute("SELECT n FROM jobs WHERE id = ?", (job.id,)).get
            write_blob(tx.conn, data_key(n), job.data)
    if position is not None:
        tx.conn.execute("INSERT OR REPLACE INTO positions VALUES (?, ?, ?, ?)", position)
    return AddReport(added, duplicates)


def _rows(tx: Tx, jobs: Sequence[NewJob], now_ms: int) -> list[tuple[Any, ...]]:
    places: dict[tuple[str, str, int], tuple[int, int]] = {}
    rows = []
    for job_id, jobtype, data, due, created, priority, domain, options, retry_after, _, repeat, _, _ in jobs:
        place = places.get((jobtype, domain, priority))
        if place is None:
            number = tx.catalog.make_type(jobtype)
            place = (number, tx.catalog.make_lane(number, domain, priority))
            places[jobtype, domain, priority] = place
        size_bytes = len(data)
        rows.append(
            (
                job_id,
                *place,
                WAITING if due <= now_ms else DEFERRED,
                due,
                created,
                size_bytes,
                data if size_bytes <= INLINE_BYTES else None,
                options or None,
                retry_after,
                repeat or None,
            )
        )
    return rows


def _those_added(
    tx: Tx, newest: int, jobs: Sequence[NewJob], rows: list[tuple[Any, ...]]
) -> tuple[list[NewJob], list[tuple[Any, ...]]]:
    """Of a batch with duplicates, what was inserted: rows get numbers above all that were there before."""
    inserted = {job_id for (job_id,) in tx.conn.execute("SELECT id FROM jobs WHERE n > ?", (newest,))}
    kept_jobs, kept_rows = [], []
    for job, row in zip(jobs, rows, strict=True):
        if job.id in inserted:
            inserted.remove(job.id)  # a second one with this id in the batch is a duplicate
            kept_jobs.append(job)
            kept_rows.append(row)
    return kept_jobs, kept_rows


def _count(tx: Tx, rows: list[tuple[Any, ...]]) -> None:
    for (lane, state), count in Counter([(row[2], row[3]) for row in rows]).items():
        put_in_queue(tx, lane, state, count, stored=count)
    sizes: Counter[int] = Counter()
    for row in rows:
        sizes[row[1]] += row[6]
    for number, size_bytes in sizes.items():
        tx.tally.size(number, size_bytes)


def _give_seq(tx: Tx, job: NewJob) -> None:
    number = tx.catalog.make_type(job.jobtype)
    seq = tx.conn.execute("UPDATE types SET head = head + 1 WHERE type = ? RETURNING head", (number,)).get
    tx.conn.execute("UPDATE jobs SET seq = ? WHERE id = ?", (seq, job.id))


def create_job(tx: Tx, job: NewJob, now_ms: int) -> CreateReport:
    if tx.conn.execute("SELECT 1 FROM jobs WHERE id = ?", (job.id,)).get:
        return CreateReport(job.id, created=False, state=_state(tx, job.id, now_ms))
    if job.unique:
        number = tx.catalog.make_type(job.jobtype)
        sql = "SELECT n, id FROM jobs WHERE type = ? AND uniq = ? AND uniq IS NOT NULL AND state < 5"
        holder = tx.conn.execute(sql, (number, job.unique)).get
        if holder is not None:
            n, holder_id = holder
            change_payload(tx, n, job.data)
            change_priority(tx, n, job.priority)
            tx.conn.execute("UPDATE jobs SET repeat = ? WHERE n = ?", (job.repeat or None, n))
            return CreateReport(holder_id, created=False, state=_state(tx, holder_id, now_ms))
    held = _join_parent(tx, job) if job.parent else False
    add_jobs(tx, [job], now_ms, None)
    sql = "UPDATE jobs SET uniq = ?, parent = ? WHERE id = ?"
    tx.conn.execute(sql, (job.unique or None, job.parent or None, job.id))
    if held:
        _hold(tx, job.id)
    return CreateReport(job.id, created=True, state=_state(tx, job.id, now_ms))


def _state(tx: Tx, job_id: str, now_ms: int) -> JobState:
    sql = "SELECT state, due, lease, done, lock FROM jobs WHERE id = ?"
    return state_of(*disposition(*tx.conn.execute(sql, (job_id,)).get), now_ms)


def _join_parent(tx: Tx, job: NewJob) -> bool:
    """Count the child with its parent. Answers whether it must wait for the parent to finish."""
    sql = "SELECT j.n, j.state, t.tenant FROM jobs j JOIN types t ON t.type = j.type WHERE j.id = ?"
    parent = tx.conn.execute(sql, (job.parent,)).get
    if parent is None or parent[2] != tenant_of(job.jobtype):
        raise NotFound(f"job {job.parent}, named as the parent of {job.id}, does not exist")
    n, state, _ = parent
    if state not in {State.RUNNING, State.HELD, State.BLOCKED}:
        raise Conflict(f"job {job.parent} is neither running nor paused: it cannot get a child now")
    tx.conn.execute("UPDATE jobs SET children = children + 1, pending = pending + 1 WHERE n = ?", (n,))
    return bool(state == State.RUNNING)


def _hold(tx: Tx, job_id: str) -> None:
    sql = "SELECT n, type, lane, state FROM jobs WHERE id = ?"
    n, number, lane, state = tx.conn.execute(sql, (job_id,)).get
    tx.conn.execute("UPDATE jobs SET state = ? WHERE n = ?", (State.HELD, n))
    put_in_queue(tx, lane, state, -1)
    tx.tally.blocked(number, 1)
