"""Claiming: the next jobs of a type by priority, due time and id, past domains that have no token.

The cost is that of the jobs taken; jobs behind them, and domains that may not run, cost nothing.
"""

from typing import Final

from store.names import PRIORITIES
from store.sqlite.file.catalog import Kinds, Lane
from store.sqlite.file.connection import fetch
from store.sqlite.file.writer import Tx
from store.sqlite.queue.bulk_claim import IN_ORDER, IS_OPEN, find_first_deliveries, first_deliveries
from store.sqlite.queue.domain_claim import take_from_domains
from store.sqlite.queue.keyed_claim import take_turns
from store.sqlite.queue.next_token import find_next_look, plain_token_ms
from store.sqlite.queue.rates import Rates
from store.sqlite.queue.taking import COLUMNS, Room, Taken, delivered, lock
from store.values.claims import Claim, ClaimedJobs

_QUEUED: Final = f"SELECT {COLUMNS} FROM jobs WHERE {IN_ORDER}"
_PLAIN: Final = Kinds(has_domains=False, has_keys=False)


def claim_jobs(tx: Tx, claim: Claim) -> ClaimedJobs:
    number = tx.catalog.type_of(claim.jobtype)
    if number is None:
        return ClaimedJobs()
    kinds = tx.catalog.kinds(number)
    room, next_ms = Room(claim), None
    rates = Rates(tx, claim.jobtype, claim.now_ms)
    if claim.domain:
        if rates.is_limited(claim.domain):
            kinds = kinds._replace(has_domains=True)
        else:
            claim = claim._replace(domain="")
    if kinds == _PLAIN:
        taken = _first_of_all(tx, number, room, claim)
    elif not tx.conn.execute(f"SELECT {IS_OPEN}", (number, claim.tenant_created_ms)).get:
        taken = []
    else:
        taken = _take_all_kinds(tx, number, kinds, rates, room, claim)
        if kinds.has_domains and room.jobs > 0:
            token_ms = plain_token_ms(tx, number, rates, claim)
            next_ms = find_next_look(tx, number, token_ms, has_keys=kinds.has_keys, now_ms=claim.now_ms)
    return ClaimedJobs([job for each in taken for job in each.jobs], next_ms)


def _take_all_kinds(tx: Tx, number: int, kinds: Kinds, rates: Rates, room: Room, claim: Claim) -> list[Taken]:
    if kinds.has_keys:
        room.keep(claim.for_keys)
        taken = _without_key(tx, number, kinds, rates, room, claim)
        room.use_kept()
        taken += take_turns(tx, number, rates, room, claim)
        taken += _without_key(tx, number, kinds, rates, room, claim)
    else:
        taken = _without_key(tx, number, kinds, rates, room, claim)
    rates.write()
    return taken


def _without_key(tx: Tx, number: int, kinds: Kinds, rates: Rates, room: Room, claim: Claim) -> list[Taken]:
    if not kinds.has_domains:
        return _first_of_all(tx, number, room, claim)
    taken: list[Taken] = []
    plain = tx.catalog.plain_lanes(number)
    for priority in PRIORITIES:
        if room.jobs == 0:
            break
        taken += take_from_domains(tx, number, priority, plain.get(priority), rates, room, claim)
    return taken


def _first_of_all(tx: Tx, number: int, room: Room, claim: Claim) -> list[Taken]:
    """Jobs without a domain and without a key."""
    taken: list[Taken] = []
    for lane in tx.catalog.plain_lanes(number).values():
        if room.jobs == 0:
            break
        taken.append(_first_of(tx, number, lane, room, claim))
    lock(tx, taken, claim)
    return taken


def _first_of(tx: Tx, number: int, lane: Lane, room: Room, claim: Claim) -> Taken:
    place = number, claim.tenant_created_ms, lane.lane, claim.now_ms, room.jobs
    fresh = find_first_deliveries(tx.conn, *place)
    if fresh is not None and room.fits(sum(fresh.sizes_bytes)):
        room.take(fresh.sizes_bytes)
        lease = claim.now_ms + claim.lease_ms
        jobs = first_deliveries(fresh, claim.jobtype, lease, claim.owner, lane.priority, lane.domain)
        return Taken(lane, jobs, fresh.numbers, fresh.deferred)
    rows = fetch(tx.conn, _QUEUED, place)
    return delivered(tx, lane, rows[: room.take([row[4] for row in rows])], claim)
