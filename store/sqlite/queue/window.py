"""The window over a numbered type: which jobs it lets into the queue, how far all are over, and what it holds.

`types.released` is the last number that was let in, NULL while the type has no consumer.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import apsw

from store.sqlite.file.buckets import CODE_NUMBER
from store.sqlite.file.bulk import numbers
from store.sqlite.file.connection import fetch
from store.sqlite.file.schema import PAUSED, QUEUED, State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.row_changes import leave, put_in_queue
from store.values.consumers import IndexEnd
from store.values.jobs import NewJob
from vocabulary.columns import fields
from vocabulary.states import Code

_CODES: Final = {number: code for code, number in CODE_NUMBER.items()}
_INDEXED, _PARENT = fields(NewJob, "indexed"), fields(NewJob, "parent")
_OF_RANGE: Final = "type = ?1 AND seq IS NOT NULL AND seq > ?2 AND seq <= ?3"
_WINDOWS: Final = (
    "SELECT t.type, t.released, ifnull(c.pulled, 0) FROM types t LEFT JOIN consumers c ON c.type = t.type"
    " WHERE t.released IS NOT NULL AND t.type IN (SELECT value FROM carray(?))"
)
_ENTER: Final = (
    "UPDATE jobs SET state = (due > ?4), due = max(due, ?4), planned = iif(due < ?4, ifnull(planned, due), planned)"
)
"""It waits from now on, so that it is neither abandoned for its age nor without a retry window."""
_BY_WINDOW: Final = f"state = {State.HELD} AND parent IS NULL AND schedule ->> '$.pause' IS NULL"
"""Of a job that is held: not by its parent, and not because it is paused."""
_LET_IN: Final = f"{_ENTER} WHERE {_OF_RANGE} AND {_BY_WINDOW} RETURNING lane, state, due"
_HELD: Final = f"SELECT n FROM jobs WHERE state {PAUSED} AND type = ? AND {_BY_WINDOW} LIMIT ?"
_LET_GO: Final = f"{_ENTER} WHERE n IN (SELECT value FROM carray(?1)) RETURNING lane, state, due"
_ENDED: Final = f"SELECT seq, state, code, id FROM jobs WHERE {_OF_RANGE} ORDER BY seq"


class Numbered(NamedTuple):
    """Of a type: the last number given, progress, and the last number that was let in (None: no consumer)."""

    type: int
    head: int
    processed: int
    released: int | None


def numbered(conn: apsw.Connection, jobtype: str) -> Numbered | None:
    row = conn.execute("SELECT type, head, processed, released FROM types WHERE jobtype = ?", (jobtype,)).get
    return None if row is None else Numbered(*row)


def give_numbers(
    tx: Tx, jobs: Sequence[NewJob], types: Sequence[int], states: Sequence[int], lanes: Sequence[int]
) -> None:
    """Number new jobs of their batch, in order: those that ask for it, and all of a type with a consumer. The latter
    are held if the window has not come to them. The jobs are the last that were inserted."""
    windows: dict[int, int] = {}
    pulled: set[int] = set()
    for number, released, is_pulled in tx.conn.execute(_WINDOWS, (numbers(set(types)),)):
        if is_pulled:
            pulled.add(number)
        else:
            windows[number] = released
    if not windows and not any(map(_INDEXED, jobs)):
        return
    newest = tx.conn.last_insert_rowid() - len(jobs)
    if len(set(types)) == 1 and types[0] in windows and not any(map(_PARENT, jobs)):
        _number_all(tx, types[0], windows[types[0]], newest, states, lanes)
        return
    wanted = [
        n
        for n, (job, number) in enumerate(zip(jobs, types, strict=True))
        if (job.indexed and number not in pulled) or number in windows
    ]
    heads = {number: _raise_head(tx, number, count) for number, count in Counter(types[n] for n in wanted).items()}
    rows: list[tuple[int, int, int]] = []
    for n in wanted:
        number = types[n]
        seq = heads[number] = heads[number] + 1
        is_held = not jobs[n].parent and number in windows and seq > windows[number]
        rows.append((seq, State.HELD if is_held else states[n], newest + 1 + n))
        if is_held:
            leave(tx, states[n], number, lanes[n])
            tx.tally.blocked(number, 1)
    tx.conn.executemany("UPDATE jobs SET seq = ?, state = ? WHERE n = ?", rows)


def _number_all(tx: Tx, number: int, released: int, newest: int, states: Sequence[int], lanes: Sequence[int]) -> None:
    """The same for a batch of one type with a consumer, in one statement."""
    head = _raise_head(tx, number, len(states))
    tx.conn.execute(
        f"UPDATE jobs SET seq = n + ?1, state = iif(n + ?1 > ?2, {State.HELD}, state) WHERE n > ?3 AND n <= ?4",
        (head - newest, released, newest, newest + len(states)),
    )
    first = max(released - head, 0)
    held = Counter(zip(lanes[first:], states[first:], strict=True))
    for (lane, state), count in held.items():
        put_in_queue(tx, lane, state, -count)
    tx.tally.blocked(number, held.total())


def numbers_all(tx: Tx, jobtype: str) -> bool:
    """Whether all new jobs of a type get a number: it has a consumer, which is not pulled."""
    sql = (
        "SELECT ifnull(c.pulled, 0) = 0 FROM types t LEFT JOIN consumers c ON c.type = t.type"
        " WHERE t.jobtype = ? AND t.released IS NOT NULL"
    )
    return bool(tx.conn.execute(sql, (jobtype,)).get)


def is_beyond(tx: Tx, n: int) -> bool:
    """Whether the window over the type of a job has not come to its number. That of a child does not matter."""
    sql = "SELECT j.seq > t.released AND j.parent IS NULL FROM jobs j JOIN types t USING (type) WHERE j.n = ?"
    return bool(tx.conn.execute(sql, (n,)).get)


def place_last(tx: Tx, number: int, seq: int, job_id: str) -> None:
    """A job that is in the queue gets this number, the next of its type, and is held if the window has not come to
    it."""
    released = tx.conn.execute(
        "UPDATE types SET head = ? WHERE type = ? RETURNING ifnull(released, 0)", (seq, number)
    ).get
    tx.conn.execute("UPDATE jobs SET seq = ? WHERE id = ?", (seq, job_id))
    if seq > released:
        hold(tx, number, seq - 1, seq)


def _raise_head(tx: Tx, number: int, count: int) -> int:
    """Returns where it was."""
    head: int = tx.conn.execute("UPDATE types SET head = head + ? WHERE type = ? RETURNING head", (count, number)).get
    return head - count


def let_in(tx: Tx, number: int, after: int, until: int, now_ms: int) -> int:
    """Held jobs with these numbers enter the queue."""
    return _count_in(tx, number, fetch(tx.conn, _LET_IN, (number, after, until, now_ms)))


def let_go(tx: Tx, number: int, limit: int, now_ms: int) -> int:
    """Held jobs with any number enter the queue."""
    rows = [n for (n,) in tx.conn.execute(_HELD, (number, limit))]
    return _count_in(tx, number, fetch(tx.conn, _LET_GO, (numbers(rows), None, None, now_ms))) if rows else 0


def _count_in(tx: Tx, number: int, rows: Iterable[tuple[Any, ...]]) -> int:
    counts = Counter(rows)
    for (lane, state, due_ms), count in counts.items():
        put_in_queue(tx, lane, state, count, due_ms=due_ms)
    tx.tally.blocked(number, -counts.total())
    return counts.total()


def hold(tx: Tx, number: int, after: int, until: int) -> int:
    """Queued jobs with these numbers leave the queue."""
    sql = f"SELECT n, lane, state FROM jobs WHERE {_OF_RANGE} AND state {QUEUED} AND parent IS NULL"
    rows = fetch(tx.conn, sql, (number, after, until))
    if rows:
        update = f"UPDATE jobs SET state = {State.HELD} WHERE n IN (SELECT value FROM carray(?))"
        tx.conn.execute(update, (numbers([n for n, _, _ in rows]),))
        for (lane, state), count in Counter((lane, state) for _, lane, state in rows).items():
            put_in_queue(tx, lane, state, -count)
        tx.tally.blocked(number, len(rows))
    return len(rows)


def advanced(
    conn: apsw.Connection, number: int, processed: int, until: int, *, skip_failed: bool
) -> tuple[int, int | None]:
    """How far everything is over, from processed on and no further than until; and which number that ended badly stops
    it."""
    sql = f"SELECT seq, state, code FROM jobs WHERE {_OF_RANGE} ORDER BY seq"
    for seq, state, code in conn.execute(sql, (number, processed, until)):
        if state != State.ARCHIVED:
            return seq - 1, None
        if code != CODE_NUMBER[Code.OK] and not skip_failed:
            return seq - 1, seq
    return max(processed, until), None


def ends(conn: apsw.Connection, number: int, after: int, until: int) -> tuple[IndexEnd, ...]:
    """What is over of these numbers, which were all given."""
    found: list[IndexEnd] = []
    expected = after + 1
    for seq, state, code, job_id in conn.execute(_ENDED, (number, after, until)):
        found += [IndexEnd(missing, "", None) for missing in range(expected, seq)]
        if state == State.ARCHIVED:
            found.append(IndexEnd(seq, job_id, _CODES[code]))
        expected = seq + 1
    return (*found, *(IndexEnd(missing, "", None) for missing in range(expected, until + 1)))
