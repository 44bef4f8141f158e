"""How runs and jobs end: what is written of an outcome, what is counted, which relatives are to hear of it."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from store.sqlite.file.buckets import CODE_NUMBER
from store.sqlite.file.schema import INLINE_BYTES, State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.row_changes import leave, put_in_queue, queued_state
from store.sqlite.queue.rows import decode_schedule, encode_schedule, result_key, write_blob
from store.values.jobs import ABANDONED, CANCELLED, Outcome
from store.values.schedules import Round, Schedule, after_round
from vocabulary.states import Code

COLUMNS: Final = (
    "j.n, j.id, j.type, j.lane, j.state, j.due, j.token, j.attempts, j.retry_after, j.code,"
    " j.result_bytes, j.log_bytes, j.parent, j.settled, j.pending, j.begun, j.planned, j.history, j.repeat, j.schedule,"
    " max(j.due, j.created, j.done)"
)


class Row(NamedTuple):
    """What must be known of a job to change its state: COLUMNS of `jobs j`, in that order."""

    n: int
    id: str
    type: int
    lane: int
    state: int
    due: int
    token: int
    attempts: int
    retry_after_ms: int | None
    code: int | None
    result_bytes: int
    log_bytes: int
    parent: str | None
    settled: int
    pending: int
    begun: int | None
    planned: int | None
    history: str | None
    repeat: str | None
    schedule: str | None
    since: int
    """When it could first run: a time that lay back when it entered the queue does not count."""


class Place(NamedTuple):
    """Where a job goes that is not over. begun_ms and planned_ms as in Job: None in a new round."""

    state: int
    due_ms: int
    attempts: int
    begun_ms: int | None = None
    planned_ms: int | None = None
    history: str | None = None


class Ending(NamedTuple):
    """A job and the outcome to keep with it. ran: a run ended, so its duration and wait count."""

    row: Row
    outcome: Outcome
    ran: bool = True


class Duty(IntEnum):
    """What the end of a parent means for its children, `families.duty`."""

    WAIT = -1  # nothing is left to do: its next round waits for children that were replayed
    FREE = 0  # it waits for them: those that are held may run
    CANCEL = 1  # it did not end well: those that are held are cancelled
    STOP = 2  # it was cancelled: all that do not run are


class Family(NamedTuple):
    """The children of a parent that ended. after: they are done up to the one with this id. due_ms: for when the next
    round of the parent is planned, which comes when all are done."""

    parent: str
    duty: Duty
    after: str = ""
    due_ms: int | None = None


_OUTCOME: Final = (
    "UPDATE jobs SET code = ?2, exitcode = ?3, started = ?4, duration = ?5, done = ?6, version = ?7,"
    " isolation = ?8, fingerprint = ?9, message = ?10, result = ?11, result_bytes = ?12, log = ?13, log_bytes = ?14"
)
_END_UNRUN: Final = (
    f"UPDATE jobs SET code = ?2, exitcode = ?3, done = ?4, state = {State.ARCHIVED}, settled = 1,"
    " started = ifnull(started, 0), duration = ifnull(duration, 0), version = ifnull(version, 0) WHERE n = ?1"
)
"""Result, log and the rest of the last run stay."""
ARCHIVE: Final = f"{_OUTCOME}, state = {State.ARCHIVED}, settled = 1 WHERE n = ?1"
_QUEUE: Final = (
    f"{_OUTCOME}, state = ?15, due = ?16, attempts = ?17, begun = ?18, planned = ?19, history = ?20,"
    " lock = NULL, lease = NULL WHERE n = ?1"
)
_TAKE_ROUND: Final = "DELETE FROM families WHERE parent = ? AND due IS NOT NULL RETURNING due"
"""For when the next round is planned of a parent that did not end well. No child of the last one is left."""


_NEXT_ROUND: Final = "SELECT due FROM families WHERE parent = ? AND due IS NOT NULL"
_MOVE_ROUND: Final = "UPDATE families SET due = ? WHERE parent = ? AND due IS NOT NULL"


def archive_jobs(tx: Tx, endings: Sequence[Ending], now_ms: int, owner: str = "") -> list[Family]:
    """Archive jobs with final outcomes, of runs by owner or without a run, and wake parents whose last child ended.
    Returns the families of those that have children to be cancelled now: the held ones of parents that did not end
    well, and of those that were cancelled all that do not run."""
    tx.conn.executemany(ARCHIVE, _keep(tx, [ending for ending in endings if ending.ran], now_ms))
    unrun = [(row.n, CODE_NUMBER[outcome.code], outcome.exitcode, now_ms) for row, outcome, ran in endings if not ran]
    tx.conn.executemany(_END_UNRUN, unrun)
    for ending in endings:
        if ending.row.repeat:
            end_round(tx, ending, owner)
    places = Counter([(row.state, row.type, row.lane) for row, _, _ in endings])
    for (state, number, lane), count in places.items():
        leave(tx, state, number, lane, count)
    count_endings(tx, endings, now_ms)
    _settle_parents(tx, [row.parent for row, _, _ in endings if row.parent and not row.settled], now_ms)
    return [
        Family(row.id, Duty.STOP if outcome.code == Code.CANCELLED else Duty.CANCEL)
        for row, outcome, _ in endings
        if row.pending and outcome.code != Code.OK
    ]


def queue_again(tx: Tx, endings: Sequence[Ending], places: Sequence[Place], now_ms: int) -> None:
    """Keep the outcomes of running jobs that are not over, and put each in its place; the caller counts."""
    kept = zip(_keep(tx, endings, now_ms), places, strict=True)
    tx.conn.executemany(_QUEUE, [(*values, *place) for values, place in kept])


def end_round(tx: Tx, ending: Ending, owner: str) -> Schedule:
    """Note how a round of a job ended that repeats. Returns what is known of its schedule as it was before."""
    row, outcome, _ = ending
    ended = Round(
        planned_ms(row), outcome.started_ms, outcome.duration_us, outcome.code, outcome.exitcode, outcome.message,
        row.attempts, outcome.handler_version, owner,
    )  # fmt: skip
    schedule = decode_schedule(row.schedule)
    keep_schedule(tx, row.n, after_round(schedule, ended))
    return schedule


def keep_schedule(tx: Tx, n: int, schedule: Schedule) -> None:
    tx.conn.execute("UPDATE jobs SET schedule = ? WHERE n = ?", (encode_schedule(schedule), n))


def between_rounds(schedule: Schedule, due_ms: int, now_ms: int) -> tuple[int, int]:
    """The state and the time of a job between two rounds, of which the next would be due then."""
    due_ms = due_ms if schedule.regular_ms is None else schedule.regular_ms
    return State.HELD if schedule.pause else queued_state(due_ms, now_ms), due_ms


def get_next_round(tx: Tx, parent: str) -> int | None:
    """For when it is planned, of a parent whose round has ended, and which waits for the children of that."""
    due_ms: int | None = tx.conn.execute(_NEXT_ROUND, (parent,)).get
    return due_ms


def move_next_round(tx: Tx, parent: str, due_ms: int) -> None:
    tx.conn.execute(_MOVE_ROUND, (due_ms, parent))


def enter_place(tx: Tx, state: int, number: int, lane: int, due_ms: int) -> None:
    """Count a job that left another state, and is queued now or out of the queue."""
    if state <= State.DEFERRED:
        put_in_queue(tx, lane, state, due_ms=due_ms)
    else:
        tx.tally.blocked(number, 1)


def planned_ms(row: Row) -> int:
    """For when the round of a job was planned that is not over."""
    return row.due if row.planned is None else row.planned


def cancelled(row: Row) -> Ending:
    return Ending(row, CANCELLED, ran=False)


def abandoned(row: Row) -> Ending:
    return Ending(row, ABANDONED, ran=False)


def _keep(tx: Tx, endings: Sequence[Ending], now_ms: int) -> list[tuple[Any, ...]]:
    """The parameters that _OUTCOME takes, one set per ending. Big results go beside, and sizes are counted."""
    parameters = []
    changes_bytes: defaultdict[int, int] = defaultdict(int)
    for row, outcome, _ in endings:
        code, exitcode, started_ms, duration_us, result, log, version, isolation, fingerprint, message = outcome
        result_bytes = len(result) if result else 0
        log_bytes = len(log)
        if result and result_bytes > INLINE_BYTES:
            write_blob(tx.conn, result_key(row.n), result)
            result = None
        elif row.result_bytes > INLINE_BYTES:
            tx.conn.execute("DELETE FROM blobs WHERE key = ?", (result_key(row.n),))
        changes_bytes[row.type] += result_bytes + log_bytes - row.result_bytes - row.log_bytes
        parameters.append(
            (
                row.n,
                CODE_NUMBER[code],
                exitcode,
                started_ms,
                duration_us,
                now_ms,
                version,
                isolation or None,
                fingerprint or None,
                message or None,
                result,
                result_bytes,
                log or None,
                log_bytes,
            )
        )
    for number, change_bytes in changes_bytes.items():
        tx.tally.size(number, change_bytes)
    return parameters


def count_endings(tx: Tx, endings: Sequence[Ending], now_ms: int) -> None:
    by_type: defaultdict[int, list[Ending]] = defaultdict(list)
    for ending in endings:
        by_type[ending.row.type].append(ending)
    for number, mine in by_type.items():
        for code, count in Counter([outcome.code for _, outcome, _ in mine]).items():
            tx.tally.ended(number, code, count, now_ms)
        durations_us = [outcome.duration_us for _, outcome, ran in mine if ran]
        waits_us = [(outcome.started_ms - row.since) * 1000 for row, outcome, ran in mine if ran]
        tx.tally.ran(number, durations_us, waits_us, now_ms)
        for row, outcome, _ in mine:
            if outcome.fingerprint:
                tx.tally.failed(number, outcome, row.id, now_ms)


def _settle_parents(tx: Tx, parents: list[str], now_ms: int) -> None:
    for parent, count in Counter(parents).items():
        tx.conn.execute("UPDATE jobs SET pending = pending - ? WHERE id = ?", (count, parent))
        sql = f"SELECT n, type, lane, schedule FROM jobs WHERE id = ? AND state = {State.BLOCKED} AND pending = 0"
        woken = tx.conn.execute(sql, (parent,)).get
        if woken is not None:
            n, number, lane, schedule = woken
            due_ms = tx.conn.execute(_TAKE_ROUND, (parent,)).get
            if due_ms is None:
                state, due_ms = int(State.WAITING), now_ms
            else:
                state, due_ms = between_rounds(decode_schedule(schedule), due_ms, now_ms)
            tx.conn.execute("UPDATE jobs SET state = ?, due = ?, attempts = 0 WHERE n = ?", (state, due_ms, n))
            leave(tx, State.BLOCKED, number, lane)
            enter_place(tx, state, number, lane, due_ms)
