"""Turns: the queues of keys. The jobs of a type that have the same key are one turn.

A turn is open if it may have something to offer. A claim takes open turns in order of their tags, and closes one that
has nothing now: until a time (`at`), until a rate domain has a token (`domain`, token_waits.py), or until something
changes. Whatever changes a job of a turn opens it again:
entering here, all other changes by triggers (file/schema.py). So a claim never walks turns that may not run, and none
is forgotten.

The tag is the runner time that a turn has used, in microseconds, and `types.served` the tag of the turn that was last
served. A turn that jobs enter, or that opens again, goes on at most KEY_CREDIT_US before that one: a key that had
little to do is next, and one that had nothing to do for long, or nothing that was due, has saved up no more than that.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import apsw

from store.claim_rules import MOST_WOKEN
from store.names import JOB_COST_US, KEY_CREDIT_US, PRIORITIES
from store.sqlite.file.connection import fetch
from store.sqlite.file.schema import QUEUED, State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.taking import COLUMNS
from store.values.jobs import KeyState

_WAKE: Final = (
    "UPDATE turns SET open = 1 WHERE turn IN"
    " (SELECT turn FROM turns WHERE type = ? AND open = 0 AND at IS NOT NULL AND at <= ? LIMIT ?)"
)
RAISE: Final = "UPDATE turns SET tag = ?2 WHERE type = ?1 AND open = 1 AND tag < ?2"
"""Open turns are served in order of their tags, so only those that opened since the last claim are that far behind."""
OPEN: Final = "SELECT turn, tag FROM turns WHERE type = ? AND open = 1 ORDER BY tag, turn LIMIT ?"
_OF_TURN: Final = f"turn = ?1 AND turn IS NOT NULL AND state {QUEUED}"
HEAD: Final = f"SELECT {COLUMNS}, lane FROM jobs WHERE {_OF_TURN} AND prio = ?2 AND due <= ?3 ORDER BY due, id LIMIT ?4"
_NEXT: Final = f"SELECT due FROM jobs WHERE {_OF_TURN} AND prio = ?2 ORDER BY due LIMIT 1"
_RETRIED: Final = f"SELECT {COLUMNS}, lane FROM jobs WHERE {_OF_TURN} AND begun IS NOT NULL ORDER BY due, id LIMIT 1"
RUNNING: Final = (
    f"SELECT count(*) FROM (SELECT 1 FROM jobs WHERE turn = ? AND turn IS NOT NULL AND state = {State.RUNNING} LIMIT ?)"
)


class Turn(NamedTuple):
    turn: int
    tag: int


class Rest(NamedTuple):
    """What becomes of a turn that a claim looked at: whether it stays open, and if not until when, or until which rate
    domain has a token."""

    turn: int
    taken: int
    open: bool
    at_ms: int | None
    domain: str | None = None


def make_turn(tx: Tx, number: int, key: str) -> int:
    sql = (
        "INSERT INTO turns (type, key, tag) SELECT type, ?, served - ? FROM types WHERE type = ? ON CONFLICT DO NOTHING"
    )
    tx.conn.execute(sql, (key, KEY_CREDIT_US, number))
    turn: int = tx.conn.execute("SELECT turn FROM turns WHERE type = ? AND key = ?", (number, key)).get
    return turn


def turns_of(tx: Tx, types: Sequence[int], keys: Sequence[str]) -> list[int | None]:
    """The column of turns, made where they are new; None without a key."""
    made = {pair: make_turn(tx, *pair) for pair in dict.fromkeys(zip(types, keys, strict=True)) if pair[1]}
    return [made.get(pair) for pair in zip(types, keys, strict=True)]


def enter(tx: Tx, turns: Sequence[int]) -> None:
    """New jobs are in these turns."""
    sql = (
        "UPDATE turns SET open = 1, stored = stored + ?,"
        " tag = max(tag, (SELECT served - ? FROM types t WHERE t.type = turns.type)) WHERE turn = ?"
    )
    tx.conn.executemany(sql, [(count, KEY_CREDIT_US, turn) for turn, count in Counter(turns).items()])


def get_key_state(conn: apsw.Connection, jobtype: str, key: str, limit: int, now_ms: int) -> KeyState:
    sql = "SELECT turn FROM turns u JOIN types t ON t.type = u.type WHERE t.jobtype = ? AND u.key = ?"
    turn = conn.execute(sql, (jobtype, key)).get
    running = f"SELECT id FROM jobs WHERE turn = ? AND turn IS NOT NULL AND state = {State.RUNNING} LIMIT ?"
    retried = f"SELECT id FROM jobs WHERE {_OF_TURN} AND begun IS NOT NULL ORDER BY due, id LIMIT 1"
    ids = [job_id for (job_id,) in conn.execute(running, (turn, limit))]
    head = f"SELECT id FROM jobs WHERE {_OF_TURN} AND prio = ?2 AND due <= ?3 ORDER BY due, id LIMIT 1"
    heads = (conn.execute(head, (turn, priority, now_ms)).get for priority in PRIORITIES)
    first = next((job_id for job_id in heads if job_id), "")
    return KeyState(tuple(sorted(ids)), conn.execute(retried, (turn,)).get or "", first)


def wake(tx: Tx, number: int, now_ms: int) -> None:
    """Open the turns whose time has come, and take from those that opened, for whatever reason, what they have saved up
    beyond their credit."""
    tx.conn.execute(_WAKE, (number, now_ms, MOST_WOKEN))
    served = tx.conn.execute("SELECT served FROM types WHERE type = ?", (number,)).get
    tx.conn.execute(RAISE, (number, served - KEY_CREDIT_US))


def open_turns(tx: Tx, number: int, limit: int) -> list[Turn]:
    return [Turn(*row) for row in fetch(tx.conn, OPEN, (number, limit))]


def places_left(tx: Tx, turn: int, max_per_key: int | None, most: int) -> int:
    """How many more jobs of the turn may run, and no more than most."""
    if max_per_key is None:
        return most
    return min(most, max_per_key - int(tx.conn.execute(RUNNING, (turn, max_per_key)).get))


def retried(tx: Tx, turn: int) -> Sequence[Any] | None:
    """The first job that is between two attempts."""
    row: Sequence[Any] | None = tx.conn.execute(_RETRIED, (turn,)).get
    return row


def first_jobs(tx: Tx, turn: int, now_ms: int, limit: int) -> list[Sequence[Any]]:
    rows: list[Sequence[Any]] = []
    for priority in PRIORITIES:
        if len(rows) < limit:
            rows += fetch(tx.conn, HEAD, (turn, priority, now_ms, limit - len(rows)))
    return rows


def next_due_ms(tx: Tx, turn: int) -> int | None:
    """When the next of its queued jobs is due."""
    found = [tx.conn.execute(_NEXT, (turn, priority)).get for priority in PRIORITIES]
    return min([due for due in found if due is not None], default=None)


def settle(tx: Tx, number: int, served: Sequence[Turn], rests: Sequence[Rest]) -> None:
    """Write what became of turns after the jobs that were taken are locked, which opens them."""
    sql = "UPDATE turns SET open = ?, at = ?, domain = ?, tag = tag + ? WHERE turn = ?"
    changed = [(rest.open, rest.at_ms, rest.domain, JOB_COST_US * rest.taken, rest.turn) for rest in rests]
    tx.conn.executemany(sql, changed)
    if served:
        tag = min(turn.tag for turn in served)
        tx.conn.execute("UPDATE types SET served = max(served, ?) WHERE type = ?", (tag, number))
