"""Claiming: the next jobs of a type by priority, due time and id, past domains that have no token.

The cost is that of the jobs taken and of one index seek per lane; jobs behind them cost nothing.
"""

import heapq
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from store.sqlite.file.bulk import by_key, numbers
from store.sqlite.file.catalog import Lane
from store.sqlite.file.connection import fetch
from store.sqlite.file.schema import DEFERRED, INLINE_BYTES, State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.bulk_claim import IN_ORDER, find_first_deliveries, first_deliveries
from store.sqlite.queue.rates import Rates
from store.sqlite.queue.rows import data_key, read_blob
from store.values.jobs import Claim, Job
from vocabulary.columns import fields

_COLUMNS: Final = (
    "due, id, n, state, data_bytes, data, token + 1, attempts + 1, created,"
    " retry_after, options, seq, repeat, uniq, parent, begun, planned, children"
)
_QUEUED: Final = f"SELECT {_COLUMNS} FROM jobs WHERE {IN_ORDER}"
LOCK: Final = (
    f"UPDATE jobs SET state = {State.RUNNING}, lock = ?, lease = ?, claimed = ?,"
    " token = token + 1, attempts = attempts + 1 WHERE n IN (SELECT value FROM carray(?))"
)
_LEASE: Final = fields(Job, "dt_ms")


Row = tuple[Any, ...]
"""_COLUMNS of a job; sorts by due time and id, and no two jobs have the same id."""


def claim_jobs(tx: Tx, claim: Claim) -> list[Job]:
    number = tx.catalog.type_of(claim.jobtype)
    if number is None:
        return []
    groups = tx.catalog.lanes_of(number)
    rates = Rates(tx, claim.jobtype, {lane.domain for group in groups for lane in group}, claim.now_ms)
    taken = _in_order(tx, number, groups, rates, claim)
    rates.write(tx)
    _lock(tx, taken, claim)
    return [job for each in taken for job in each.jobs]


class _Taken(NamedTuple):
    """Jobs of one lane: as they will be delivered, their row numbers, and how many of them count as deferred."""

    lane: Lane
    jobs: list[Job]
    numbers: list[int]
    deferred: int


class _Room:
    """What a claim may still take."""

    def __init__(self, claim: Claim) -> None:
        self.jobs = claim.limit
        self._bytes_left = claim.max_bytes
        self._limit = claim.limit

    def fits(self, size_bytes: int) -> bool:
        return size_bytes <= self._bytes_left

    def take(self, sizes_bytes: Sequence[int]) -> int:
        """How many of the first jobs fit; when one does not, there is no room any more."""
        for taken, size_bytes in enumerate(sizes_bytes):
            if size_bytes > self._bytes_left and self.jobs < self._limit:
                self.jobs = 0
                return taken
            self._bytes_left -= size_bytes
            self.jobs -= 1
        return len(sizes_bytes)


def _in_order(tx: Tx, number: int, groups: tuple[tuple[Lane, ...], ...], rates: Rates, claim: Claim) -> list[_Taken]:
    room = _Room(claim)
    taken: list[_Taken] = []
    for group in groups:
        if len(group) == 1 and not rates.limits(group[0].domain):
            taken.append(_first_of(tx, number, group[0], room, claim))
        else:
            taken += _merged(tx, number, group, rates, room, claim)
        if room.jobs == 0:
            break
    return taken


def _first_of(tx: Tx, number: int, lane: Lane, room: _Room, claim: Claim) -> _Taken:
    fresh = find_first_deliveries(tx.conn, number, lane.lane, claim.now_ms, room.jobs)
    if fresh is not None and room.fits(sum(fresh.sizes_bytes)):
        room.take(fresh.sizes_bytes)
        lease = claim.now_ms + claim.lease_ms
        jobs = first_deliveries(fresh, claim.jobtype, lease, claim.owner, lane.priority, lane.domain)
        return _Taken(lane, jobs, fresh.numbers, fresh.deferred)
    rows = fetch(tx.conn, _QUEUED, (number, lane.lane, claim.now_ms, room.jobs))
    return _delivered(tx, lane, rows[: room.take([row[4] for row in rows])], claim)


def _merged(tx: Tx, number: int, group: tuple[Lane, ...], rates: Rates, room: _Room, claim: Claim) -> Iterator[_Taken]:
    """From lanes of one priority and several domains, one by one in common order, while the rates allow."""
    for row, lane in heapq.merge(*(_of_lane(tx, number, lane, rates, claim) for lane in group)):
        if room.take([row[4]]):
            rates.take(lane.domain)
            yield _delivered(tx, lane, [row], claim)
        if room.jobs == 0:
            return


def _of_lane(tx: Tx, number: int, lane: Lane, rates: Rates, claim: Claim) -> Iterator[tuple[Row, Lane]]:
    if rates.allows(lane.domain):
        for row in tx.conn.execute(_QUEUED, (number, lane.lane, claim.now_ms, claim.limit)):
            if not rates.allows(lane.domain):
                return
            yield row, lane


def _lock(tx: Tx, taken: Sequence[_Taken], claim: Claim) -> None:
    """Lock jobs of any lanes, and count them. Those with a lease of their own length are a group for each length."""
    if not any(each.jobs for each in taken):
        return
    for lane, jobs, _, deferred in taken:
        tx.tally.lane(lane.lane, waiting=deferred - len(jobs), deferred=-deferred, running=len(jobs))
    leases = [lease for each in taken for lease in map(_LEASE, each.jobs)]
    row_numbers = [n for each in taken for n in each.numbers]
    for (lease,), (chosen,) in by_key([leases], [row_numbers]):
        tx.conn.execute(LOCK, (claim.owner, lease, claim.now_ms, numbers(chosen)))


def _delivered(tx: Tx, lane: Lane, rows: Sequence[Sequence[Any]], claim: Claim) -> _Taken:
    """Rows of one lane as they will be delivered."""
    jobtype, _, owner, usual_ms, now_ms, _ = claim
    _, domain, priority = lane
    jobs = []
    for row in rows:
        due, job_id, n, _, size, data, token, attempts, created, own_ms, options, seq, repeat, unique, parent, *rest = (
            row
        )
        if size > INLINE_BYTES:
            data = read_blob(tx.conn, data_key(n))
        job = Job(
            job_id, jobtype, data, now_ms + (own_ms or usual_ms), owner, token, attempts, priority, due, created,
            domain, options or "", own_ms, seq, repeat or "", unique or "", parent or "", *rest,
        )  # fmt: skip
        jobs.append(job)
    return _Taken(lane, jobs, [row[2] for row in rows], [row[3] for row in rows].count(DEFERRED))
