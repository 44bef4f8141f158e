"""Claiming: the next jobs of a type by priority, due time and id, past domains that have no token.

The cost is that of the jobs taken and of one index seek per lane; what waits behind them is not looked at.
"""

import heapq
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from store.sqlite.bulk import numbers
from store.sqlite.catalog import Lane
from store.sqlite.rates import Rates
from store.sqlite.rows import data_key, read_blob
from store.sqlite.schema import INLINE_BYTES, WAITING
from store.sqlite.writer import Tx
from store.values.jobs import Job

_COLUMNS: Final = (
    "due, id, n, state, data_bytes, data, token + 1, attempts + 1, created,"
    " retry_after, options, seq, repeat, uniq, parent"
)
QUEUED: Final = f"SELECT {_COLUMNS} FROM jobs WHERE state <= 1 AND lane = ? AND due <= ? ORDER BY due, id LIMIT ?"
_INDEXED: Final = (
    f"SELECT {_COLUMNS}, lane FROM jobs WHERE type = ? AND seq IS NOT NULL AND seq > ? AND seq <= ?"
    " AND state <= 1 AND due <= ? ORDER BY seq"
)
LOCK: Final = (
    "UPDATE jobs SET state = 2, lock = ?, lease = ?, claimed = ?, token = token + 1, attempts = attempts + 1"
    " WHERE n IN (SELECT value FROM carray(?))"
)


class Claim(NamedTuple):
    jobtype: str
    limit: int
    owner: str
    lease_ms: int
    now_ms: int
    max_bytes: int
    ahead: int | None


Row = tuple[Any, ...]
"""_COLUMNS of a job; sorts by due time and id, and no two jobs have the same id."""


def claim_jobs(tx: Tx, claim: Claim) -> list[Job]:
    sql = (
        "SELECT t.type, t.processed FROM types t LEFT JOIN tenants o ON o.name = t.tenant"
        " WHERE t.jobtype = ? AND NOT t.paused AND NOT coalesce(o.suspended, 0)"
    )
    found = tx.conn.execute(sql, (claim.jobtype,)).get
    if found is None:
        return []
    number, processed = found
    groups = tx.catalog.lanes_of(number)
    rates = Rates(tx, claim.jobtype, {lane.domain for group in groups for lane in group}, claim.now_ms)
    if claim.ahead is None:
        taken = _in_order(tx, groups, rates, claim)
    else:
        taken = _by_seq(tx, number, groups, rates, processed, claim)
    rates.write(tx)
    _lock(tx, [row for _, rows in taken for row in rows], claim)
    return [job for lane, rows in taken for job in _delivered(tx, lane, rows, claim)]


class _Room:
    """What a claim may still take."""

    def __init__(self, claim: Claim) -> None:
        self.jobs = claim.limit
        self._bytes_left = claim.max_bytes
        self._limit = claim.limit

    def take(self, rows: list[Row]) -> list[Row]:
        """As many of the first rows as fit; when one does not, there is no room any more."""
        taken = 0
        for row in rows:
            self._bytes_left -= row[4]
            if self._bytes_left < 0 and self.jobs < self._limit:
                self.jobs = 0
                break
            taken += 1
            self.jobs -= 1
        return rows if taken == len(rows) else rows[:taken]


def _in_order(tx: Tx, groups: tuple[tuple[Lane, ...], ...], rates: Rates, claim: Claim) -> list[tuple[Lane, list[Row]]]:
    room = _Room(claim)
    taken: list[tuple[Lane, list[Row]]] = []
    for group in groups:
        if len(group) == 1 and not rates.limits(group[0].domain):
            rows = tx.conn.execute(QUEUED, (group[0].lane, claim.now_ms, room.jobs)).fetchall()
            taken.append((group[0], room.take(rows)))
        else:
            taken += _merged(tx, group, rates, room, claim)
        if room.jobs == 0:
            break
    return taken


def _merged(
    tx: Tx, group: tuple[Lane, ...], rates: Rates, room: _Room, claim: Claim
) -> Iterator[tuple[Lane, list[Row]]]:
    """From lanes of one priority and several domains, one by one in common order, while the rates allow."""
    for row, lane in heapq.merge(*(_of_lane(tx, lane, rates, claim) for lane in group)):
        fitting = room.take([row])
        if fitting:
            rates.take(lane.domain)
            yield lane, fitting
        if room.jobs == 0:
            return


def _of_lane(tx: Tx, lane: Lane, rates: Rates, claim: Claim) -> Iterator[tuple[Row, Lane]]:
    if rates.allows(lane.domain):
        for row in tx.conn.execute(QUEUED, (lane.lane, claim.now_ms, claim.limit)):
            if not rates.allows(lane.domain):
                return
            yield row, lane


def _by_seq(
    tx: Tx, number: int, groups: tuple[tuple[Lane, ...], ...], rates: Rates, processed: int, claim: Claim
) -> list[tuple[Lane, list[Row]]]:
    room = _Room(claim)
    lanes = {lane.lane: lane for group in groups for lane in group}
    taken: list[tuple[Lane, list[Row]]] = []
    window = (number, processed, processed + (claim.ahead or 0), claim.now_ms)
    for *row, lane_number in tx.conn.execute(_INDEXED, window):
        lane = lanes[lane_number]
        if not rates.allows(lane.domain):
            continue
        fitting = room.take([tuple(row)])
        if fitting:
            rates.take(lane.domain)
            taken.append((lane, fitting))
        if room.jobs == 0:
            break
    return taken


def _lock(tx: Tx, rows: list[Row], claim: Claim) -> None:
    """Lock jobs of any lanes. Those with a lease of their own length are a group for each length."""
    if any(row[9] for row in rows):
        leases = {row[9] or claim.lease_ms for row in rows}
        groups = [(lease, [row[2] for row in rows if (row[9] or claim.lease_ms) == lease]) for lease in leases]
    else:
        groups = [(claim.lease_ms, [row[2] for row in rows])]
    for lease_ms, chosen in groups:
        if chosen:
            tx.conn.execute(LOCK, (claim.owner, claim.now_ms + lease_ms, claim.now_ms, numbers(chosen)))


def _delivered(tx: Tx, lane: Lane, rows: list[Row], claim: Claim) -> list[Job]:
    """The jobs of one lane that were locked, counted as running."""
    waiting = [row[3] for row in rows].count(WAITING)
    tx.tally.lane(lane.lane, waiting=-waiting, deferred=waiting - len(rows), running=len(rows))
    jobtype, _, owner, usual_ms, now_ms, _, _ = claim
    _, domain, priority = lane
    # `tuple.__new__` is what `Job` itself calls: nothing in the store is made as often.
    make: Final = tuple.__new__
    jobs = []
    for row in rows:
        due, job_id, n, _, size, data, token, attempts, created, own_ms, options, seq, repeat, unique, parent = row
        if size > INLINE_BYTES:
            data = read_blob(tx.conn, data_key(n))
        lease = now_ms + (own_ms or usual_ms)
        values = (
            job_id, jobtype, data, lease, owner, token, attempts, priority, due, created, domain,
            options or "", own_ms, seq, repeat or "", unique or "", parent or "",
        )  # fmt: skip
        jobs.append(make(Job, values))
    return jobs
