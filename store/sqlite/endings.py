"""How runs and jobs end: what is written of an outcome, what is counted, which relatives hear of it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from store.sqlite.moves import leave, put_in_queue
from store.sqlite.rows import result_key, write_blob
from store.sqlite.schema import INLINE_BYTES, State
from store.sqlite.tally import CODE_NUMBER
from store.sqlite.writer import Tx
from store.values.jobs import Code, Outcome

CANCELLED_EXITCODE: Final = 499
ABANDONED_EXITCODE: Final = 504

COLUMNS: Final = (
    "j.n, j.id, j.type, j.lane, j.state, j.due, j.token, j.attempts, j.retry_after, j.code,"
    " j.result_bytes, j.log_bytes, j.parent, j.settled, j.pending"
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


class Ending(NamedTuple):
    """A job and the outcome to keep with it. ran: a run ended, so its duration and wait count."""

    row: Row
    outcome: Outcome
    ran: bool = True


_OUTCOME: Final = (
    "code = ?, exitcode = ?, started = ?, duration = ?, done = ?, version = ?, isolation = ?,"
    " fingerprint = ?, message = ?, result = ?, result_bytes = ?, log = ?, log_bytes = ?"
)
ARCHIVE: Final = f"UPDATE jobs SET {_OUTCOME}, state = 5, settled = 1 WHERE n = ?"
QUEUE: Final = (
    f"UPDATE jobs SET {_OUTCOME}, state = ?, due = ?, attempts = ?, lock = NULL, lease = NULL WHERE n = ?"
)


def end_jobs(tx: Tx, endings: Sequence[Ending], now_ms: int) -> None:
    """Archive jobs with final outcomes; wake parents whose last child ended; cancel held children of parents
    that did not end well. Ensures: what follows from an ending is done in the same transaction."""
    while endings:
        write_outcomes(tx, ARCHIVE, endings, now_ms)
        for (state, number, lane), count in Counter(
            (e.row.state, e.row.type, e.row.lane) for e in endings
        ).items():
            leave(tx, state, number, lane, count)
        count_endings(tx, endings, now_ms)
        _settle_parents(tx, (e.row.parent for e in endings if e.row.parent and not e.row.settled), now_ms)
        parents = [e.row.id for e in endings if e.row.pending and e.outcome.code != Code.OK]
        endings = [cancelled(child) for parent in parents for child in held_children(tx, parent)]


def cancelled(row: Row) -> Ending:
    return Ending(row, Outcome(Code.CANCELLED, CANCELLED_EXITCODE, started_ms=0), ran=False)


def abandoned(row: Row) -> Ending:
    return Ending(row, Outcome(Code.ABANDONED, ABANDONED_EXITCODE, started_ms=0), ran=False)


def held_children(tx: Tx, parent: str) -> list[Row]:
    sql = f"SELECT {COLUMNS} FROM jobs j WHERE j.parent = ? AND j.state = 3"
    return [Row(*row) for row in tx.conn.execute(sql, (parent,))]


def write_outcomes(
    tx: Tx, sql: str, endings: Sequence[Ending], now_ms: int, then: Sequence[tuple[Any, ...]] | None = None
) -> None:
    """Run ARCHIVE, QUEUE or the like for every ending; `then` has the further values of each, if it takes any."""
    parameters = []
    changes_bytes: defaultdict[int, int] = defaultdict(int)
    for index, (row, outcome, _) in enumerate(endings):
        code, exitcode, started_ms, duration_us, result, log, version, isolation, fingerprint, message = (
            outcome
        )
        result_bytes = len(result) if result else 0
        if result_bytes > INLINE_BYTES:
            write_blob(tx.conn, result_key(row.n), result or b"")
            result = None
        elif row.result_bytes > INLINE_BYTES:
            tx.conn.execute("DELETE FROM blobs WHERE key = ?", (result_key(row.n),))
        log_bytes = len(log)
        changes_bytes[row.type] += result_bytes + log_bytes - row.result_bytes - row.log_bytes
        parameters.append(
            (
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
                *(then[index] if then else ()),
                row.n,
            )
        )
    tx.conn.executemany(sql, parameters)
    for number, change_bytes in changes_bytes.items():
        tx.tally.size(number, change_bytes)


def count_endings(tx: Tx, endings: Sequence[Ending], now_ms: int) -> None:
    for number in {ending.row.type for ending in endings}:
        mine = [ending for ending in endings if ending.row.type == number]
        for code, count in Counter([ending.outcome.code for ending in mine]).items():
            tx.tally.ended(number, code, count, now_ms)
        runs = [(row.due, outcome.started_ms, outcome.duration_us) for row, outcome, ran in mine if ran]
        if runs:
            durations_us = [duration_us for _, _, duration_us in runs]
            waits_us = [(started_ms - due) * 1000 for due, started_ms, _ in runs]
            tx.tally.ran(number, durations_us, waits_us, now_ms)
        for row, outcome, _ in mine:
            if outcome.fingerprint:
                tx.tally.failed(number, outcome, row.id, now_ms)


def _settle_parents(tx: Tx, parents: Iterable[str | None], now_ms: int) -> None:
    for parent, count in Counter(parents).items():
        tx.conn.execute("UPDATE jobs SET pending = pending - ? WHERE id = ?", (count, parent))
        sql = "SELECT n, type, lane FROM jobs WHERE id = ? AND state = 4 AND pending = 0"
        woken = tx.conn.execute(sql, (parent,)).get
        if woken is not None:
            n, number, lane = woken
            tx.conn.execute("UPDATE jobs SET state = 0, due = ?, attempts = 0 WHERE n = ?", (now_ms, n))
            leave(tx, State.BLOCKED, number, lane)
            put_in_queue(tx, lane, State.WAITING)
