"""When to claim again after a claim that found less than it was to take: what waits for a token is looked for by index,
so the cost does not grow with the number of domains that may not run."""

from typing import Final

from store.claim_rules import NEXT_LANES, next_look_ms
from store.names import PRIORITIES
from store.sqlite.file.connection import fetch
from store.sqlite.file.writer import Tx

FIRST_LANES: Final = (
    "SELECT ready, until FROM lanes WHERE type = ? AND priority = ? AND ready IS NOT NULL ORDER BY ready LIMIT ?"
)
FIRST_TURN: Final = (
    "SELECT CASE WHEN EXISTS (SELECT 1 FROM turns WHERE type = ?1 AND open = 1) THEN 0"
    " ELSE (SELECT at FROM token_waits WHERE type = ?1 ORDER BY at LIMIT 1) END"
)
"""A turn that is open was left by a claim that had looked at enough of them."""


def find_next_look(tx: Tx, number: int, *, has_keys: bool, now_ms: int) -> int | None:
    lanes: list[tuple[int, int]] = []
    for priority in PRIORITIES:
        lanes += fetch(tx.conn, FIRST_LANES, (number, priority, NEXT_LANES))
    turns_ms = tx.conn.execute(FIRST_TURN, (number,)).get if has_keys else None
    return next_look_ms(lanes, turns_ms, now_ms)
