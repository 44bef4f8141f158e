"""Renewing and ending deliveries, each on condition of its owner and token.

The condition is checked with one query for the whole batch, inside the write transaction; the changes then go
by row number.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, TypeGuard

import apsw

from store.sqlite.file.bulk import arrays, job_ids, numbers
from store.sqlite.file.schema import INLINE_BYTES, State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.bulk_archive import archive_in_bulk
from store.sqlite.queue.endings import (
    COLUMNS,
    Duty,
    Ending,
    Family,
    Place,
    Row,
    archive_jobs,
    between_rounds,
    count_endings,
    end_round,
    enter_place,
    planned_ms,
    queue_again,
)
from store.sqlite.queue.families import follow
from store.sqlite.queue.row_changes import change_payload, leave, queued_state
from store.sqlite.queue.rows import decode_history, decode_schedule, encode_history
from store.values.jobs import (
    Archive,
    Finish,
    Lease,
    Outcome,
    Rearm,
    Release,
    ReleaseReport,
    RenewReport,
    Retry,
    with_attempt,
)
from store.values.schedules import is_on_hold
from vocabulary.columns import fields
from vocabulary.states import FINAL_CODES, Code

_ALONE: Final = "j.parent IS NULL AND j.pending = 0 AND j.code IS NULL AND j.repeat IS NULL"
HELD: Final = (
    f"SELECT {arrays('j.token', _ALONE, 'j.n', 'j.type', 'j.lane', 'max(j.due, j.created)')}"
    f" FROM carray(?) AS e LEFT JOIN jobs j ON j.id = e.value AND j.state = {State.RUNNING} AND j.lock = ?"
)
"""A place per id, in their order, NULL where the owner has no such delivery. The second column says that the job has
no relatives, does not repeat and never ended before, the last since when it could run."""

_OWNED: Final = (
    f"SELECT {COLUMNS} FROM carray(?) AS e CROSS JOIN jobs j ON j.id = e.value"
    f" WHERE j.state = {State.RUNNING} AND j.lock = ?"
)
_ID, _TOKEN, _OUTCOME = fields(Archive, "id"), fields(Archive, "token"), fields(Archive, "outcome")
"""The first two are the same of every release."""
_RESULT: Final = fields(Outcome, "result")
_LEASES: Final = (
    "SELECT j.id, j.token, j.lease FROM carray(?) AS e CROSS JOIN jobs j"
    f" ON j.id = e.value WHERE j.lock = ? AND j.state = {State.RUNNING}"
)
_RENEW: Final = "UPDATE jobs SET lease = ? WHERE n IN (SELECT value FROM carray(?))"


def _owned(tx: Tx, owner: str, leases: Sequence[Lease | Release]) -> dict[str, Row]:
    """The current deliveries among those named, by id."""
    if not leases:
        return {}
    tokens = {lease.id: lease.token for lease in leases}
    found = [Row._make(row) for row in tx.conn.execute(_OWNED, (job_ids(list(tokens)), owner))]
    return {row.id: row for row in found if tokens[row.id] == row.token}


def owned_ids(tx: Tx, owner: str, leases: Sequence[Lease | Release]) -> set[str]:
    """Whose deliveries among these are still the owner's."""
    return set(_owned(tx, owner, leases))


def renew_locks(tx: Tx, owner: str, leases: Sequence[Lease], lease_ms: int, now_ms: int) -> RenewReport:
    owned = _owned(tx, owner, leases)
    fixed = tuple(row.id for row in owned.values() if row.retry_after_ms is not None)
    renewed = [row.n for row in owned.values() if row.retry_after_ms is None]
    if renewed:
        tx.conn.execute(_RENEW, (now_ms + lease_ms, numbers(renewed)))
    stale = tuple(lease.id for lease in leases if lease.id not in owned)
    return RenewReport(len(renewed), fixed, stale)


def get_leases(conn: apsw.Connection, owner: str, leases: Sequence[Lease]) -> dict[Lease, int]:
    if not leases:
        return {}
    asked = set(leases)
    rows = conn.execute(_LEASES, (job_ids([lease.id for lease in leases]), owner))
    return {lease: until_ms for job_id, token, until_ms in rows if (lease := Lease(job_id, token)) in asked}


def release_jobs(tx: Tx, owner: str, releases: Sequence[Release], now_ms: int) -> ReleaseReport:
    """Most deliveries end for good, with a small result, and concern no other job: those go in bulk. The rest, few
    as a rule, goes row by row."""
    if not releases:
        return ReleaseReport(0, (), ())
    row = tx.conn.execute(HELD, (job_ids(list(map(_ID, releases))), owner)).get
    held = list(map(json.loads, row))
    if _fit_bulk(releases, held):
        archive_in_bulk(tx, held[2:], releases, now_ms)
        return ReleaseReport(len(releases), (), ())
    rows: list[list[int]] = []
    lone: list[Archive] = []
    others: list[Release] = []
    stale: list[str] = []
    for release, (token, is_alone, *row) in zip(releases, zip(*held, strict=True), strict=True):
        if token != release.token:
            stale.append(release.id)
        elif is_alone and isinstance(release, Archive) and len(release.outcome.result or b"") <= INLINE_BYTES:
            rows.append(row)
            lone.append(release)
        else:
            others.append(release)
    if lone:
        archive_in_bulk(tx, list(zip(*rows, strict=True)), lone, now_ms)
    paused = _release_each(tx, owner, _owned(tx, owner, others), others, now_ms)
    return ReleaseReport(len(releases) - len(stale), tuple(stale), paused)


def _fit_bulk(releases: Sequence[Release], held: Sequence[Sequence[Any]]) -> TypeGuard[Sequence[Archive]]:
    """Whether all of them go in bulk: in one look at each column, because nearly always they do."""
    tokens, alone, *_ = held
    return (
        set(map(type, releases)) == {Archive}
        and tokens == list(map(_TOKEN, releases))
        and all(alone)
        and max(map(len, filter(None, map(_RESULT, map(_OUTCOME, releases)))), default=0) <= INLINE_BYTES
    )


def _release_each(tx: Tx, owner: str, owned: dict[str, Row], releases: list[Release], now_ms: int) -> tuple[str, ...]:
    """Returns the parents that were paused."""
    archived: list[Ending] = []
    blocked: list[Ending] = []
    queued: list[Ending] = []
    places: list[Place] = []
    given_back: list[Row] = []
    for release in releases:
        row = owned[release.id]
        if isinstance(release, Retry | Rearm) and release.data is not None:
            change_payload(tx, row.n, release.data)
        if isinstance(release, Archive | Finish | Rearm) and row.pending and release.outcome.code == Code.OK:
            blocked.append(Ending(row, release.outcome))
            if isinstance(release, Finish):
                change_payload(tx, row.n, release.data)
        elif isinstance(release, Archive | Finish):
            archived.append(Ending(row, release.outcome))
        elif isinstance(release, Retry | Rearm):
            queued.append(Ending(row, release.outcome))
            places.append(_place(tx, row, release, owner, now_ms))
        else:
            given_back.append(row)
    _run_again(tx, queued, places, now_ms)
    _give_back(tx, given_back, now_ms)
    for ending in blocked:
        _block_parent(tx, ending, now_ms)
    families = [Family(ending.row.id, Duty.FREE) for ending in blocked]
    families += archive_jobs(tx, archived, now_ms, owner)
    families += [
        Family(row.id, Duty.CANCEL, due_ms=place.due_ms)
        for (row, outcome, _), place in zip(queued, places, strict=True)
        if row.pending and outcome.code in FINAL_CODES
    ]
    follow(tx, families, now_ms)
    return tuple([ending.row.id for ending in blocked])


def _place(tx: Tx, row: Row, release: Retry | Rearm, owner: str, now_ms: int) -> Place:
    """A new round starts anew; another attempt belongs to the round and to the retry window of the first."""
    if isinstance(release, Rearm):
        state, due_ms = between_rounds(end_round(tx, Ending(row, release.outcome), owner), release.dt_ms, now_ms)
        return Place(state, due_ms, 0)
    state = queued_state(release.dt_ms, now_ms)
    begun_ms = row.due if row.begun is None else row.begun
    history = with_attempt(decode_history(row.history), row.attempts, release.outcome, owner)
    return Place(state, release.dt_ms, row.attempts, begun_ms, planned_ms(row), encode_history(history))


def _run_again(tx: Tx, endings: list[Ending], places: list[Place], now_ms: int) -> None:
    queue_again(tx, endings, places, now_ms)
    count_endings(tx, endings, now_ms)
    for ending, place in zip(endings, places, strict=True):
        leave(tx, State.RUNNING, ending.row.type, ending.row.lane)
        enter_place(tx, place.state, ending.row.type, ending.row.lane, place.due_ms)


def _give_back(tx: Tx, rows: list[Row], now_ms: int) -> None:
    requeue(tx, rows, [_state_given_back(row, now_ms) for row in rows])
    undo = "UPDATE jobs SET attempts = attempts - 1 WHERE n = ?"
    tx.conn.executemany(undo, [(row.n,) for row in rows])


def _state_given_back(row: Row, now_ms: int) -> int:
    """A schedule that was paused meanwhile does not begin the round that this would have been."""
    has_begun = row.attempts > 1 or row.planned is not None
    on_hold = is_on_hold(decode_schedule(row.schedule), has_begun=has_begun)
    return State.HELD if on_hold else queued_state(row.due, now_ms)


def requeue(tx: Tx, rows: list[Row], states: list[int]) -> None:
    """Put running jobs back at their old place, each in its state."""
    sql = "UPDATE jobs SET state = ?, lock = NULL, lease = NULL WHERE n = ?"
    tx.conn.executemany(sql, [(state, row.n) for state, row in zip(states, rows, strict=True)])
    for row, state in zip(rows, states, strict=True):
        leave(tx, State.RUNNING, row.type, row.lane)
        enter_place(tx, state, row.type, row.lane, row.due)


def _block_parent(tx: Tx, ending: Ending, now_ms: int) -> None:
    """A parent that ended well waits for its children."""
    row = ending.row
    queue_again(tx, [ending], [Place(State.BLOCKED, now_ms, 0, None, planned_ms(row), row.history)], now_ms)
    leave(tx, State.RUNNING, row.type, row.lane)
    tx.tally.blocked(row.type, 1)
