"""Renewing and ending deliveries, each on condition of its owner and token.

The condition is checked with one query for the whole batch, inside the write transaction; the changes then go
by row number.
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Final

from store.sqlite.endings import (
    COLUMNS,
    Ending,
    Place,
    Row,
    count_endings,
    end_jobs,
    held_children,
    queue_again,
)
from store.sqlite.moves import change_payload, leave, put_in_queue, queued_state
from store.sqlite.schema import State
from store.sqlite.writer import Tx
from store.values.jobs import Archive, Code, Lease, Rearm, Release, ReleaseReport, RenewReport, Retry

OWNED: Final = (
    f"SELECT {COLUMNS} FROM json_each(?) AS e CROSS JOIN jobs j ON j.id = e.value WHERE j.state = 2 AND j.lock = ?"
)


def _owned(tx: Tx, owner: str, leases: Sequence[Lease | Release]) -> dict[str, Row]:
    """The current deliveries among those named, by id."""
    tokens = {lease.id: lease.token for lease in leases}
    found = [Row._make(row) for row in tx.conn.execute(OWNED, (json.dumps(list(tokens)), owner))]
    return {row.id: row for row in found if tokens[row.id] == row.token}


def renew_locks(tx: Tx, owner: str, leases: Sequence[Lease], lease_ms: int, now_ms: int) -> RenewReport:
    owned = _owned(tx, owner, leases)
    fixed = tuple(row.id for row in owned.values() if row.retry_after_ms is not None)
    renewed = [row.n for row in owned.values() if row.retry_after_ms is None]
    tx.conn.executemany("UPDATE jobs SET lease = ? WHERE n = ?", [(now_ms + lease_ms, n) for n in renewed])
    stale = tuple(lease.id for lease in leases if lease.id not in owned)
    return RenewReport(len(renewed), fixed, stale)


def release_jobs(tx: Tx, owner: str, releases: Sequence[Release], now_ms: int) -> ReleaseReport:
    owned = _owned(tx, owner, releases)
    archived: list[Ending] = []
    blocked: list[Ending] = []
    queued: list[Ending] = []
    places: list[Place] = []
    given_back: list[Row] = []
    for release in releases:
        row = owned.get(release.id)
        if row is None:
            continue
        if isinstance(release, Archive):
            waits_for_children = row.pending and release.outcome.code == Code.OK
            (blocked if waits_for_children else archived).append(Ending(row, release.outcome))
        elif isinstance(release, Retry | Rearm):
            rearmed = isinstance(release, Rearm)
            outcome = release.outcome if rearmed else release.outcome._replace(result=None)
            queued.append(Ending(row, outcome))
            state = queued_state(release.dt_ms, now_ms)
            places.append(Place(state, release.dt_ms, 0 if rearmed else row.attempts))
            if release.data is not None:
                change_payload(tx, row.n, release.data)
        else:
            given_back.append(row)
    _run_again(tx, queued, places, now_ms)
    _give_back(tx, given_back, now_ms)
    for ending in blocked:
        _block_parent(tx, ending, now_ms)
    end_jobs(tx, archived, now_ms)
    return ReleaseReport(
        applied=len(owned),
        stale=tuple([release.id for release in releases if release.id not in owned]),
        paused=tuple([ending.row.id for ending in blocked]),
    )


def _run_again(tx: Tx, endings: list[Ending], places: list[Place], now_ms: int) -> None:
    queue_again(tx, endings, places, now_ms)
    count_endings(tx, endings, now_ms)
    for ending, place in zip(endings, places, strict=True):
        leave(tx, State.RUNNING, ending.row.type, ending.row.lane)
        put_in_queue(tx, ending.row.lane, place.state)


def _give_back(tx: Tx, rows: list[Row], now_ms: int) -> None:
    requeue(tx, rows, now_ms)
    undo = "UPDATE jobs SET attempts = attempts - 1 WHERE n = ?"
    tx.conn.executemany(undo, [(row.n,) for row in rows])


def requeue(tx: Tx, rows: list[Row], now_ms: int) -> None:
    """Put running jobs back at their old place in the queue."""
    sql = "UPDATE jobs SET state = ?, lock = NULL, lease = NULL WHERE n = ?"
    states = [queued_state(row.due, now_ms) for row in rows]
    tx.conn.executemany(sql, [(state, row.n) for state, row in zip(states, rows, strict=True)])
    changes = Counter((row.lane, row.type, state) for row, state in zip(rows, states, strict=True))
    for (lane, number, state), count in changes.items():
        leave(tx, State.RUNNING, number, lane, count)
        put_in_queue(tx, lane, state, count)


def _block_parent(tx: Tx, ending: Ending, now_ms: int) -> None:
    """A parent that ended well waits for its children, which may run now."""
    row = ending.row
    queue_again(tx, [ending], [Place(State.BLOCKED, now_ms, 0)], now_ms)
    leave(tx, State.RUNNING, row.type, row.lane)
    tx.tally.blocked(row.type, 1)
    for child in held_children(tx, row.id):
        state = queued_state(child.due, now_ms)
        tx.conn.execute("UPDATE jobs SET state = ? WHERE n = ?", (state, child.n))
        leave(tx, State.HELD, child.type, child.lane)
        put_in_queue(tx, child.lane, state)
