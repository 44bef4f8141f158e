"""Adding jobs: in bulk from a journal, or one with a unique name or a parent."""

from collections.abc import Sequence
from typing import Any, Final

from store.errors import Conflict, NotFound
from store.refusals import check_holder
from store.sqlite.file.bulk import Bulk, alike, by_key
from store.sqlite.file.schema import DEFERRED, INLINE_BYTES, LIVE, WAITING, State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.deleted import POSITION
from store.sqlite.queue.endings import COLUMNS, Row
from store.sqlite.queue.row_changes import change_payload, change_priority, put_in_queue
from store.sqlite.queue.rows import data_key, decode_schedule, disposition, inline, read_blob, write_blob
from store.sqlite.queue.schedules import change_schedule
from store.sqlite.queue.turns import enter, turns_of
from store.sqlite.queue.window import give_numbers
from store.values.again import says_it_again, takes_time
from store.values.job_changes import JobChange, Timing
from store.values.jobs import AddReport, CreateReport, NewJob, state_of
from store.values.positions import JournalPosition
from vocabulary.names import tenant_of
from vocabulary.states import JobState

_PLAIN: Final = "id, type, lane, state, due, created, data_bytes, data"
_SELDOM: Final = "options, retry_after, repeat"
INSERT_PLAIN: Final = Bulk(f"INSERT INTO jobs ({_PLAIN})", 8, "ON CONFLICT (id) DO NOTHING")
_INSERT: Final = Bulk(f"INSERT INTO jobs ({_PLAIN}, {_SELDOM})", 11, "ON CONFLICT (id) DO NOTHING")
_INSERT_KEYED: Final = Bulk(f"INSERT INTO jobs ({_PLAIN}, {_SELDOM}, turn, prio)", 13, "ON CONFLICT (id) DO NOTHING")
_BY_WIDTH: Final = {bulk.width: bulk for bulk in (INSERT_PLAIN, _INSERT, _INSERT_KEYED)}
_KEEP_POSITION: Final = (
    f"INSERT INTO positions ({POSITION}) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (reader) DO UPDATE SET"
    " segment = excluded.segment, offset = excluded.offset, line = excluded.line, passed = excluded.passed,"
    " sources = excluded.sources WHERE excluded.passed >= passed OR excluded.sources <> sources"
)
_HOLDER: Final = (
    f"SELECT {COLUMNS} FROM jobs j WHERE j.type = ? AND j.uniq = ? AND j.uniq IS NOT NULL AND j.state {LIVE}"
)


def add_jobs(tx: Tx, jobs: Sequence[NewJob], now_ms: int, position: JournalPosition | None) -> AddReport:
    added = len(insert_jobs(tx, jobs, now_ms))
    if position is not None:
        keep_position(tx, position)
    return AddReport(added, len(jobs) - added)


def keep_position(tx: Tx, position: JournalPosition) -> None:
    *place, sources = position
    tx.conn.execute(_KEEP_POSITION, (*place, " ".join(sources)))


def insert_jobs(tx: Tx, jobs: Sequence[NewJob], now_ms: int, *, is_gated: bool = True) -> Sequence[NewJob]:
    """Into the queue, or held if a consumer says so. Returns those that were new. Without is_gated none is numbered."""
    if not jobs:
        return ()
    columns = columns_of(tx, jobs, now_ms)
    changes = tx.conn.total_changes()
    _BY_WIDTH[len(columns)].run(tx.conn, columns)
    added = tx.conn.total_changes() - changes
    if added == 0:
        return ()
    if added < len(jobs):
        jobs = those_added(tx, added, jobs)
        columns = columns_of(tx, jobs, now_ms)
    _, types, lanes, states, due, _, sizes_bytes, *_ = columns
    if len(columns) == _INSERT_KEYED.width:
        enter(tx, [turn for turn in columns[11] if turn is not None])
    for (number, lane, state), (sizes, its_due) in by_key([types, lanes, states], [sizes_bytes, due]):
        put_in_queue(tx, lane, state, len(sizes), stored=len(sizes), due_ms=min(its_due))
        tx.tally.size(number, sum(sizes))
    if is_gated:
        give_numbers(tx, jobs, types, states, lanes)
    if max(sizes_bytes) > INLINE_BYTES:
        _write_big(tx, jobs)
    return jobs


def columns_of(tx: Tx, jobs: Sequence[NewJob], now_ms: int) -> list[Sequence[Any]]:
    """What is bound to _INSERT_KEYED, or without its last columns to _INSERT or INSERT_PLAIN."""
    ids, jobtypes, payloads, due, created, priorities, domains, options, retry_afters, _, repeats, _, _, keys = zip(
        *jobs, strict=True
    )
    keyed = any(keys)
    types, lanes = places_of(tx, jobtypes, domains, priorities, list(map(bool, keys)) if keyed else None)
    sizes_bytes = list(map(len, payloads))
    if max(sizes_bytes) > INLINE_BYTES:
        payloads = tuple(map(inline, payloads))
    states = [WAITING if due_ms <= now_ms else DEFERRED for due_ms in due]
    columns: list[Sequence[Any]] = [ids, types, lanes, states, due, created, sizes_bytes, payloads]
    if keyed or any(options) or any(retry_afters) or any(repeats):
        columns += [[text or None for text in options], retry_afters, [text or None for text in repeats]]
    if keyed:
        turns = turns_of(tx, types, keys)
        columns += [turns, [None if turn is None else p for turn, p in zip(turns, priorities, strict=True)]]
    return columns


def places_of(
    tx: Tx,
    jobtypes: Sequence[str],
    domains: Sequence[str],
    priorities: Sequence[int],
    keyed: Sequence[bool] | None = None,
) -> tuple[Sequence[int], Sequence[int]]:
    """The columns of types and lanes, made where they are new."""
    if keyed is None and alike([jobtypes, domains, priorities]):
        number, lane = _place(tx, jobtypes[0], domains[0], priorities[0])
        return [number] * len(jobtypes), [lane] * len(jobtypes)
    keys = list(zip(jobtypes, domains, priorities, keyed or [False] * len(jobtypes), strict=True))
    places = {key: _place(tx, *key) for key in dict.fromkeys(keys)}
    chosen = [places[key] for key in keys]
    return [number for number, _ in chosen], [lane for _, lane in chosen]


def _place(tx: Tx, jobtype: str, domain: str, priority: int, keyed: bool = False) -> tuple[int, int]:
    number = tx.catalog.make_type(jobtype)
    return number, tx.catalog.make_lane(number, domain, priority, keyed=keyed)


def those_added(tx: Tx, added: int, jobs: Sequence[NewJob]) -> list[NewJob]:
    """Of a batch with duplicates, what was inserted: those rows have the highest numbers, one after the other."""
    newest = tx.conn.last_insert_rowid() - added
    inserted = {job_id for (job_id,) in tx.conn.execute("SELECT id FROM jobs WHERE n > ?", (newest,))}
    kept = []
    for job in jobs:
        if job.id in inserted:
            inserted.remove(job.id)  # a second one with this id in the batch is a duplicate
            kept.append(job)
    return kept


def _write_big(tx: Tx, jobs: Sequence[NewJob]) -> None:
    for job in jobs:
        if len(job.data) > INLINE_BYTES:
            n = tx.conn.execute("SELECT n FROM jobs WHERE id = ?", (job.id,)).get
            write_blob(tx.conn, data_key(n), job.data)


def create_job(tx: Tx, job: NewJob, keeps: frozenset[str], now_ms: int) -> CreateReport:
    if tx.conn.execute("SELECT 1 FROM jobs WHERE id = ?", (job.id,)).get:
        return CreateReport(job.id, created=False, state=_state(tx, job.id, now_ms))
    if job.unique:
        number = tx.catalog.make_type(job.jobtype)
        found = tx.conn.execute(_HOLDER, (number, job.unique)).get
        if found is not None:
            holder = Row._make(found)
            is_running = holder.state == State.RUNNING
            is_same = is_running and _says_it_again(tx, holder.n, holder.repeat or "", job, keeps)
            is_ending = decode_schedule(holder.schedule).ending_ms > now_ms
            is_busy = is_running and not is_same
            check_holder(job, holder.id, holder.parent or "", is_running=is_busy, is_ending=is_ending)
            if not is_running:
                _change_holder(tx, holder, job, keeps, now_ms)
            return CreateReport(holder.id, created=False, state=_state(tx, holder.id, now_ms))
    held = _join_parent(tx, job) if job.parent else False
    add_jobs(tx, [job], now_ms, None)
    sql = "UPDATE jobs SET uniq = ?, parent = ? WHERE id = ?"
    tx.conn.execute(sql, (job.unique or None, job.parent or None, job.id))
    if held:
        _hold(tx, job.id)
    return CreateReport(job.id, created=True, state=_state(tx, job.id, now_ms))


def _says_it_again(tx: Tx, n: int, repeat: str, job: NewJob, keeps: frozenset[str]) -> bool:
    sql = "SELECT l.priority, j.data, j.data_bytes FROM jobs j JOIN lanes l USING (lane) WHERE j.n = ?"
    priority, data, size_bytes = tx.conn.execute(sql, (n,)).get
    if size_bytes > INLINE_BYTES:
        data = read_blob(tx.conn, data_key(n))
    return says_it_again(job, keeps, repeat, priority, bytes(data or b""))


def _change_holder(tx: Tx, holder: Row, job: NewJob, keeps: frozenset[str], now_ms: int) -> None:
    """The time before the priority, which may bring it into another lane."""
    if "data" not in keeps:
        change_payload(tx, holder.n, job.data)
    if takes_time(job, holder.repeat or "", keeps):
        change_schedule(tx, holder, JobChange(dt_ms=job.dt_ms, timing=Timing.ANEW), now_ms)
    if "priority" not in keeps:
        change_priority(tx, holder.n, job.priority)
    if "repeat" not in keeps:
        repeat = job.repeat or (None if holder.repeat is None else "")
        tx.conn.execute("UPDATE jobs SET repeat = ? WHERE n = ?", (repeat, holder.n))


def _state(tx: Tx, job_id: str, now_ms: int) -> JobState:
    sql = "SELECT state, due, lease, done, lock FROM jobs WHERE id = ?"
    return state_of(*disposition(*tx.conn.execute(sql, (job_id,)).get), now_ms)


def _join_parent(tx: Tx, job: NewJob) -> bool:
    """Count the child with its parent. Returns whether it must wait for the parent to finish."""
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
