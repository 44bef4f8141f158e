"""Turns that wait for a token of a rate domain: they are opened as tokens come, one for each.

A claim that finds no token for the first job of a turn closes the turn with the domain, and notes in `token_waits` when
the domain has its next. A later claim looks at the domains whose time has come, and opens as many turns as there are
tokens, in order of their tags. So a turn without a token is looked at once, however long it waits and however many wait
with it, and keys that may run never stand behind it.

Ensures: a type has a row for every domain that closed turns of it wait for.
"""

from collections.abc import Iterable
from typing import Final

from store.sqlite.file.connection import fetch
from store.sqlite.file.writer import Tx
from store.sqlite.queue.rates import Rates

_MOST_DOMAINS: Final = 200
_MOST_OPENED: Final = 200
"""Turns of one domain, in one claim."""

WAITING: Final = "SELECT turn FROM turns WHERE type = ? AND domain = ? AND open = 0 ORDER BY tag, turn LIMIT ?"


def note_waits(tx: Tx, number: int, rates: Rates, domains: Iterable[str]) -> None:
    """Turns of the type were closed because these domains have no token."""
    sql = (
        "INSERT INTO token_waits (type, domain, at) VALUES (?, ?, ?)"
        " ON CONFLICT DO UPDATE SET at = min(at, excluded.at)"
    )
    tx.conn.executemany(sql, [(number, domain, rates.next_ms(domain)) for domain in domains])


def open_for_tokens(tx: Tx, number: int, rates: Rates, now_ms: int) -> None:
    """Open a turn for each token that came since."""
    sql = "SELECT domain FROM token_waits WHERE type = ? AND at <= ? ORDER BY at LIMIT ?"
    for (domain,) in fetch(tx.conn, sql, (number, now_ms, _MOST_DOMAINS)):
        most = rates.count(domain, _MOST_OPENED)
        turns = fetch(tx.conn, WAITING, (number, domain, most))
        tx.conn.executemany("UPDATE turns SET open = 1 WHERE turn = ?", turns)
        if len(turns) < most:
            tx.conn.execute("DELETE FROM token_waits WHERE type = ? AND domain = ?", (number, domain))
        else:
            at_ms = rates.next_ms(domain, most)
            tx.conn.execute("UPDATE token_waits SET at = ? WHERE type = ? AND domain = ?", (at_ms, number, domain))
