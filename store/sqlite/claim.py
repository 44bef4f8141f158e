"""Claiming: the next jobs of a type by priority, due time and id, past domains that have no token.

The cost is that of the jobs taken and of one index seek per lane; what waits behind them is not looked at.
"""

import heapq
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from store.sqlite.catalog import Lane
from store.sqlite.moves import put_in_queue
from store.sqlite.rates import Rates
from store.sqlite.rows import data_key, read_blob
from store.sqlite.schema import INLINE_BYTES
from store.sqlite.writer import Tx
from store.values.jobs import Job

_COLUMNS: Final = (
    "due, id, n, state, data_bytes, data, token, attempts, created"
    ", retry_after, options, seq, repeat, uniq, parent"
)
_QUEUED: Final = (
    f"SELECT {_COLUMNS} FROM jobs WHERE state <= 1 AND lane = ? AND due <= ? ORDER BY due, id LIMIT ?"
)
_INDEXED: Final = (
    f"SELECT {_COLUMNS}, lane FROM jobs WHERE type = ? AND seq IS NOT NULL AND seq > ? AND seq <= ?"
    " AND state <= 1 AND due <= ? ORDER BY seq"
)
_LOCK: Final = (
    "UPDATE jobs SET state = 2, lock = ?, lease = ?, claimed = ?, token = token + 1, attempts = attempts + 1"
    " WHERE n = ?"
)


class Claim(NamedTuple):
    jobtype: str
    limit: int
    owner: str
    lease_ms: int
    now_ms: int
    max_bytes: int
    ahead: int | None


class _Candidate(NamedTuple):
    """Ordered by due time and id among those of one priority; no two have the same id."""

    row: tuple[Any, ...]
    lane: Lane


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
        candidates = _in_order(tx, groups, rates, claim)
    else:
        candidates = _by_seq(tx, number, groups, rates, processed, claim)
    taken = _choose(candidates, rates, claim)
    rates.write(tx)
    return _lock(tx, taken, claim)


def _in_order(
    tx: Tx, groups: tuple[tuple[Lane, ...], ...], rates: Rates, claim: Claim
) -> Iterator[_Candidate]:
    for group in groups:
        if len(group) == 1:
            yield from _of_lane(tx, group[0], rates, claim)
        else:
            yield from heapq.merge(*(_of_lane(tx, lane, rates, claim) for lane in group))


def _of_lane(tx: Tx, lane: Lane, rates: Rates, claim: Claim) -> Iterator[_Candidate]:
    if rates.allows(lane.domain):
        for row in tx.conn.execute(_QUEUED, (lane.lane, claim.now_ms, claim.limit)):
            if not rates.allows(lane.domain):
                return
            yield _Candidate(row, lane)


def _by_seq(
    tx: Tx, number: int, groups: tuple[tuple[Lane, ...], ...], rates: Rates, processed: int, claim: Claim
) -> Iterator[_Candidate]:
    lanes = {lane.lane: lane for group in groups for lane in group}
    window = (number, processed, processed + (claim.ahead or 0), claim.now_ms)
    for *row, lane in tx.conn.execute(_INDEXED, window):
        if rates.allows(lanes[lane].domain):
            yield _Candidate(tuple(row), lanes[lane])


def _choose(candidates: Iterator[_Candidate], rates: Rates, claim: Claim) -> list[_Candidate]:
    """The first candidates that fit the limits on count and bytes; a token is taken for each."""
    taken: list[_Candidate] = []
    total_bytes = 0
    for candidate in candidates:
        total_bytes += candidate.row[4]
        if taken and total_bytes > claim.max_bytes:
            break
        if candidate.lane.domain:
            rates.take(candidate.lane.domain)
        taken.append(candidate)
        if len(taken) == claim.limit:
            break
    return taken


def _lock(tx: Tx, taken: list[_Candidate], claim: Claim) -> list[Job]:
    jobs = []
    updates = []
    for row, lane in taken:
        (due, job_id, n, _state, data_bytes, data, token, attempts, created) = row[:9]
        (retry_after, options, seq, repeat, unique, parent) = row[9:]
        lease = claim.now_ms + (retry_after or claim.lease_ms)
        if data_bytes > INLINE_BYTES:
            data = read_blob(tx.conn, data_key(n))
        updates.append((claim.owner, lease, claim.now_ms, n))
        jobs.append(
            Job(
                job_id,
                claim.jobtype,
                data,
                lease,
                claim.owner,
                token + 1,
                attempts + 1,
                lane.priority,
                due,
                created,
                lane.domain,
                options or "",
                retry_after,
                seq,
                repeat or "",
                unique or "",
                parent or "",
            )
        )
    tx.conn.executemany(_LOCK, updates)
    for (number, state), count in Counter([(lane.lane, row[3]) for row, lane in taken]).items():
        put_in_queue(tx, number, state, -count)
        tx.tally.lane(number, running=count)
    return jobs
