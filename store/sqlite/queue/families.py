"""What the end of a parent means for its children: they may run, or are cancelled, and theirs with them.

A transaction changes at most MAX_CHILDREN of them, because all other tenants wait for it. What is left of a family is
noted in the table `families`, in the transaction that ended the parent, and is done in later ones: by whoever cancelled
the parent, and by expire_locks.

Ensures: a parent with a note is paused or archived and stays so until its children are done. So it has no run that
could make new ones, which a late step would reach. A child that is held stays held until its step. One that is queued
and whose parent was cancelled can be claimed before its step, and then runs, as if it had run at the cancel.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import apsw

from store.claim_rules import MAX_CHILDREN
from store.sqlite.file.connection import fetch
from store.sqlite.file.schema import QUEUED, State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.endings import (
    COLUMNS,
    Duty,
    Ending,
    Family,
    Row,
    archive_jobs,
    between_rounds,
    cancelled,
    enter_place,
)
from store.sqlite.queue.row_changes import leave, put_in_queue, queued_state
from store.sqlite.queue.rows import decode_schedule

_NEXT: Final = f"SELECT {COLUMNS} FROM jobs j WHERE j.parent = ? AND j.id > ?"
_HELD: Final = f"{_NEXT} AND j.state = {State.HELD} ORDER BY j.id LIMIT ?"
_NOT_RUNNING: Final = (
    f"{_NEXT} AND j.settled = 0 AND j.state NOT IN ({State.RUNNING}, {State.ARCHIVED}) ORDER BY j.id LIMIT ?"
)
_NOTE: Final = "REPLACE INTO families (parent, duty, after, due) VALUES (?, ?, ?, ?)"
"""With a new number: the family goes behind those that wait."""
_ENTER: Final = (
    "UPDATE jobs SET state = ?1, due = max(due, ?2), planned = iif(due < ?2, ifnull(planned, due), planned)"
    " WHERE n = ?3"
)
"""It waits from now on, so that it is neither abandoned for its age nor without a retry window."""
_TAKE: Final = "DELETE FROM families WHERE parent = ? RETURNING parent, duty, after, due"


def end_jobs(tx: Tx, endings: Sequence[Ending], now_ms: int) -> list[str]:
    """Archive jobs, and begin with what follows for their children. Returns the parents that have more of them."""
    return follow(tx, archive_jobs(tx, endings, now_ms), now_ms)


def follow(tx: Tx, families: Iterable[Family], now_ms: int) -> list[str]:
    """Change up to MAX_CHILDREN of them, and note what is left. Returns the parents of those."""
    left, limit = deque(families), MAX_CHILDREN
    while left and limit > 0:
        family = left.popleft()
        tx.conn.execute("DELETE FROM families WHERE parent = ?", (family.parent,))  # this comes after what was noted
        if not _holds(tx, family):  # an earlier one of this step has cancelled the parent
            continue
        sql = _NOT_RUNNING if family.duty == Duty.STOP else _HELD
        found = [Row(*row) for row in fetch(tx.conn, sql, (family.parent, family.after, limit + 1))]
        children = found[:limit]
        if family.duty == Duty.FREE:
            _free(tx, children, now_ms)
        else:
            left.extend(archive_jobs(tx, [cancelled(child) for child in children], now_ms))
        if len(found) > limit:
            left.append(family._replace(after=children[-1].id))
        elif family.due_ms is not None:
            _end_round(tx, family.parent, family.due_ms, now_ms)
        limit -= max(len(children), 1)
    for family in left:  # the cancel of a parent comes after what it had to do before
        _note(tx, family, now_ms)
    return [family.parent for family in left]


def _note(tx: Tx, family: Family, now_ms: int) -> None:
    if family.due_ms is not None:
        _pause_parent(tx, family.parent, now_ms)
    tx.conn.execute(_NOTE, family)


def noted(conn: apsw.Connection) -> list[str]:
    """Parents with children that are still to hear of their end, those first that wait for the longest time."""
    sql = f"SELECT parent FROM families WHERE duty <> {Duty.WAIT} ORDER BY n LIMIT ?"
    return [parent for (parent,) in fetch(conn, sql, (MAX_CHILDREN,))]


def next_round(conn: apsw.Connection, parent: str) -> int | None:
    """For when it is planned, if it waits for children that were replayed."""
    sql = f"SELECT due FROM families WHERE parent = ? AND duty = {Duty.WAIT}"
    due_ms: int | None = conn.execute(sql, (parent,)).get
    return due_ms


def note_next_round(tx: Tx, parent: str, due_ms: int) -> None:
    """It waits for children that were replayed, and is paused already."""
    tx.conn.execute(_NOTE, Family(parent, Duty.WAIT, due_ms=due_ms))


def is_noted(tx: Tx, parent: str) -> bool:
    return tx.conn.execute("SELECT 1 FROM families WHERE parent = ?", (parent,)).get is not None


def carry_on(tx: Tx, parents: Sequence[str], now_ms: int) -> list[str]:
    """One more step for these. Returns the parents for which there is more to do, of these and of their children."""
    taken = [tx.conn.execute(_TAKE, (parent,)).get for parent in parents[:MAX_CHILDREN]]
    families = [Family(parent, Duty(duty), after, due_ms) for parent, duty, after, due_ms in filter(None, taken)]
    return [*follow(tx, families, now_ms), *parents[MAX_CHILDREN:]]


def _holds(tx: Tx, family: Family) -> bool:
    """Whether the parent is as its end left it. If all the children that it waits for ended, it may run again. And if
    it was cancelled since, that has a duty of its own, which this one must not replace."""
    state = tx.conn.execute("SELECT state FROM jobs WHERE id = ?", (family.parent,)).get
    if family.duty == Duty.FREE:
        return bool(state == State.BLOCKED)
    return bool(state != State.RUNNING and (family.due_ms is None or state != State.ARCHIVED))


def _free(tx: Tx, children: Sequence[Row], now_ms: int) -> None:
    for child in children:
        state, due_ms = queued_state(child.due, now_ms), max(child.due, now_ms)
        tx.conn.execute(_ENTER, (state, now_ms, child.n))
        leave(tx, State.HELD, child.type, child.lane)
        put_in_queue(tx, child.lane, state, due_ms=due_ms)


def _end_round(tx: Tx, parent: str, due_ms: int, now_ms: int) -> None:
    """Its held children are cancelled. If others run again, its next round waits for them (endings.py)."""
    if tx.conn.execute("SELECT pending FROM jobs WHERE id = ?", (parent,)).get:
        _note(tx, Family(parent, Duty.WAIT, due_ms=due_ms), now_ms)
    else:
        _queue_parent(tx, parent, due_ms, now_ms)


def _pause_parent(tx: Tx, parent: str, now_ms: int) -> None:
    """Its next round waits until the children of the last one are done."""
    sql = f"SELECT n, type, lane, state FROM jobs WHERE id = ? AND (state {QUEUED} OR state = {State.HELD})"
    found = tx.conn.execute(sql, (parent,)).get
    if found is not None:
        n, number, lane, state = found
        tx.conn.execute("UPDATE jobs SET state = ?, due = ? WHERE n = ?", (State.BLOCKED, now_ms, n))
        leave(tx, state, number, lane)
        tx.tally.blocked(number, 1)


def _queue_parent(tx: Tx, parent: str, due_ms: int, now_ms: int) -> None:
    """Its next round comes at its time, also if the end of its last child has just woken it."""
    sql = (
        f"SELECT n, type, lane, state, schedule FROM jobs WHERE id = ? AND (state {QUEUED} OR state = {State.BLOCKED})"
    )
    found = tx.conn.execute(sql, (parent,)).get
    if found is not None:
        n, number, lane, state, schedule = found
        after, due_ms = between_rounds(decode_schedule(schedule), due_ms, now_ms)
        tx.conn.execute("UPDATE jobs SET state = ?, due = ? WHERE n = ?", (after, due_ms, n))
        leave(tx, state, number, lane)
        enter_place(tx, after, number, lane, due_ms)
