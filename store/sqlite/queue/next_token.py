"""When to claim again after a claim that found less than it was to take: what waits for a token is looked for by index,
so the cost does not grow with the number of domains that may not run."""

from typing import Final

from store.claim_rules import NEXT_LANES, next_look_ms
from store.names import PRIORITIES
from store.sqlite.file.connection import fetch
from store.sqlite.file.schema import QUEUED
from store.sqlite.file.writer import Tx
from store.sqlite.queue.rates import Rates
from store.values.claims import Claim

FIRST_LANES: Final = (
    "SELECT ready, until FROM lanes WHERE type = ? AND priority = ? AND ready IS NOT NULL ORDER BY ready LIMIT ?"
)
FIRST_TURN: Final = (
    "SELECT CASE WHEN EXISTS (SELECT 1 FROM turns WHERE type = ?1 AND open = 1) THEN 0"
    " ELSE (SELECT at FROM token_waits WHERE type = ?1 ORDER BY at LIMIT 1) END"
)
"""A turn that is open was left by a claim that had looked at enough of them."""
_DUE: Final = f"SELECT 1 FROM jobs WHERE state {QUEUED} AND lane = ? AND due <= ? LIMIT 1"


def plain_token_ms(tx: Tx, number: int, rates: Rates, claim: Claim) -> int | None:
    """When the next job of the type that has no domain of its own has a token. None if none waits for one."""
    if not claim.domain or rates.allows(claim.domain):
        return None
    lanes = tx.catalog.plain_lanes(number).values()
    is_waiting = any(tx.conn.execute(_DUE, (lane.lane, claim.now_ms)).get for lane in lanes)
    return rates.next_ms(claim.domain) if is_waiting else None


def find_next_look(tx: Tx, number: int, token_ms: int | None, *, has_keys: bool, now_ms: int) -> int | None:
    lanes = [] if token_ms is None else [(token_ms, token_ms)]
    for priority in PRIORITIES:
        lanes += fetch(tx.conn, FIRST_LANES, (number, priority, NEXT_LANES))
    turns_ms = tx.conn.execute(FIRST_TURN, (number,)).get if has_keys else None
    return next_look_ms(lanes, turns_ms, now_ms)
