"""Turns that wait for a token of a rate domain: they are opened as tokens come, one for each.

A claim that finds no token for the first job of a turn closes the turn with the domain, and notes in `token_waits` when
the domain has its next. A later claim looks at the domains whose time has come, and opens as many turns as there are
tokens, in order of their tags. So a turn without a token is looked at once, however long it waits and however many wait
with it, and keys that may run never stand behind it.

Where it was the claim that named the domain, both have its name with OF_CLAIMS before it. A claim that names another
opens these turns, whatever tokens there are.

Ensures: a type has a row for every domain that closed turns of it wait for.
"""

from collections.abc import Iterable
from typing import Final

from store.claim_rules import OF_CLAIMS, OF_CLAIMS_END
from store.sqlite.file.connection import fetch
from store.sqlite.file.writer import Tx
from store.sqlite.queue.rates import Rates
from store.values.claims import Claim

_MOST_DOMAINS: Final = 200
_MOST_OPENED: Final = 200
"""Turns of one domain, in one claim."""

NAMED_BEFORE: Final = (
    "SELECT domain FROM token_waits WHERE type = ?1 AND domain >= ?2 AND domain < ?3 AND domain <> ?4 LIMIT ?5"
)
WAITING: Final = "SELECT turn FROM turns WHERE type = ? AND domain = ? AND open = 0 ORDER BY tag, turn LIMIT ?"


def note_waits(tx: Tx, number: int, rates: Rates, domains: Iterable[str]) -> None:
    """Turns of the type were closed because these domains have no token."""
    sql = (
        "INSERT INTO token_waits (type, domain, at) VALUES (?, ?, ?)"
        " ON CONFLICT DO UPDATE SET at = min(at, excluded.at)"
    )
    rows = [(number, domain, rates.next_ms(domain.removeprefix(OF_CLAIMS))) for domain in domains]
    tx.conn.executemany(sql, rows)


def open_for_tokens(tx: Tx, number: int, rates: Rates, claim: Claim) -> None:
    """Open a turn for each token that came since, and those that wait for a domain which claims named before."""
    mine = OF_CLAIMS + claim.domain
    for (domain,) in fetch(tx.conn, NAMED_BEFORE, (number, OF_CLAIMS, OF_CLAIMS_END, mine, _MOST_DOMAINS)):
        _open(tx, number, domain, _MOST_OPENED, claim.now_ms)
    sql = "SELECT domain FROM token_waits WHERE type = ? AND at <= ? ORDER BY at LIMIT ?"
    for (domain,) in fetch(tx.conn, sql, (number, claim.now_ms, _MOST_DOMAINS)):
        if domain == mine or not domain.startswith(OF_CLAIMS):
            name = domain.removeprefix(OF_CLAIMS)
            most = rates.count(name, _MOST_OPENED)
            _open(tx, number, domain, most, rates.next_ms(name, most))


def _open(tx: Tx, number: int, domain: str, most: int, next_ms: int) -> None:
    """Up to that many. If there may be more, the domain is looked at again then."""
    turns = fetch(tx.conn, WAITING, (number, domain, most))
    tx.conn.executemany("UPDATE turns SET open = 1 WHERE turn = ?", turns)
    if len(turns) < most:
        tx.conn.execute("DELETE FROM token_waits WHERE type = ? AND domain = ?", (number, domain))
    else:
        tx.conn.execute("UPDATE token_waits SET at = ? WHERE type = ? AND domain = ?", (next_ms, number, domain))
