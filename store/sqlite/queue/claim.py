"""Claiming: the next jobs of a type by priority, due time and id, past domains that have no token.

The cost is that of the jobs taken and of one index seek per lane; jobs behind them cost nothing.
"""

import heapq
from collections.abc import Iterator
from typing import Final

from store.sqlite.file.catalog import Lane
from store.sqlite.file.connection import fetch
from store.sqlite.file.writer import Tx
from store.sqlite.queue.bulk_claim import IN_ORDER, find_first_deliveries, first_deliveries
from store.sqlite.queue.keyed_claim import take_turns
from store.sqlite.queue.rates import Rates
from store.sqlite.queue.taking import COLUMNS, Room, Row, Taken, delivered, lock
from store.values.jobs import Claim, Job

_QUEUED: Final = f"SELECT {COLUMNS} FROM jobs WHERE {IN_ORDER}"


def claim_jobs(tx: Tx, claim: Claim) -> list[Job]:
    number = tx.catalog.type_of(claim.jobtype)
    if number is None:
        return []
    groups = tx.catalog.lanes_of(number)
    keyed = tx.catalog.keyed_lanes(number)
    domains = {lane.domain for group in groups for lane in group} | {lane.domain for lane in keyed.values()}
    rates = Rates(tx, claim.jobtype, domains, claim.now_ms)
    room = Room(claim)
    if not keyed:
        taken = _in_order(tx, number, groups, rates, room, claim)
    else:
        room.keep(claim.for_keys)
        taken = _in_order(tx, number, groups, rates, room, claim)
        room.use_kept()
        taken += take_turns(tx, number, rates, room, claim)
        taken += _in_order(tx, number, groups, rates, room, claim)
    rates.write(tx)
    return [job for each in taken for job in each.jobs]


def _in_order(
    tx: Tx, number: int, groups: tuple[tuple[Lane, ...], ...], rates: Rates, room: Room, claim: Claim
) -> list[Taken]:
    """Jobs without a key."""
    taken: list[Taken] = []
    for group in groups:
        if room.jobs == 0:
            break
        if len(group) == 1 and not rates.limits(group[0].domain):
            taken.append(_first_of(tx, number, group[0], room, claim))
        else:
            taken += _merged(tx, number, group, rates, room, claim)
    lock(tx, taken, claim)
    return taken


def _first_of(tx: Tx, number: int, lane: Lane, room: Room, claim: Claim) -> Taken:
    fresh = find_first_deliveries(tx.conn, number, lane.lane, claim.now_ms, room.jobs)
    if fresh is not None and room.fits(sum(fresh.sizes_bytes)):
        room.take(fresh.sizes_bytes)
        lease = claim.now_ms + claim.lease_ms
        jobs = first_deliveries(fresh, claim.jobtype, lease, claim.owner, lane.priority, lane.domain)
        return Taken(lane, jobs, fresh.numbers, fresh.deferred)
    rows = fetch(tx.conn, _QUEUED, (number, lane.lane, claim.now_ms, room.jobs))
    return delivered(tx, lane, rows[: room.take([row[4] for row in rows])], claim)


def _merged(tx: Tx, number: int, group: tuple[Lane, ...], rates: Rates, room: Room, claim: Claim) -> Iterator[Taken]:
    """From lanes of one priority and several domains, one by one in common order, while the rates allow."""
    for row, lane in heapq.merge(*(_of_lane(tx, number, lane, rates, claim) for lane in group)):
        if room.take([row[4]]):
            rates.take(lane.domain)
            yield delivered(tx, lane, [row], claim)
        if room.jobs == 0:
            return


def _of_lane(tx: Tx, number: int, lane: Lane, rates: Rates, claim: Claim) -> Iterator[tuple[Row, Lane]]:
    if rates.allows(lane.domain):
        for row in tx.conn.execute(_QUEUED, (number, lane.lane, claim.now_ms, claim.limit)):
            if not rates.allows(lane.domain):
                return
            yield row, lane
