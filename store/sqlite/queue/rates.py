"""Rate domains: token buckets in the database, so that all daemons draw from the same ones.

The bucket of a limit on a name is in the row of the limit. A domain that a pattern limits has a row in `rate_buckets`
from its first claim until it is full again.
"""

from typing import Final, NamedTuple

import apsw

from store.names import AHEAD_MS, PRIORITIES
from store.rate_rules import (
    MOST_WAIT_MS,
    Bucket,
    Limit,
    Patterns,
    check_limits,
    check_room,
    full_ms,
    grown,
    is_pattern,
    tokens_at,
)
from store.sqlite.file.connection import fetch
from store.sqlite.file.schema import QUEUED
from store.sqlite.file.writer import Tx
from store.values.records import RateDomain, RateState, rate_state
from vocabulary.names import tenant_of
from vocabulary.token_bucket import next_token_ms

_OWN: Final = "SELECT domain, rate, burst, updated, tokens FROM rates WHERE tenant = ? AND domain = ? AND pattern = 0"
_KEPT: Final = "SELECT tokens, updated, rate, burst FROM rate_buckets WHERE tenant = ? AND domain = ?"
_REOPEN: Final = (
    f"UPDATE lanes SET ready = (SELECT due FROM jobs WHERE state {QUEUED} AND lane = lanes.lane ORDER BY due LIMIT 1),"
    " until = 0 WHERE lane IN"
    " (SELECT lane FROM lanes WHERE type = ?1 AND priority = ?2 AND ready > ?3 AND until > ?3 LIMIT ?4)"
)
"""Lanes that wait for a token. The others wait for a job that is due later: looked at before that, they would stay in
the way of every look until something of the type is claimed."""
_REOPEN_WAITS: Final = (
    "UPDATE token_waits SET at = 0 WHERE type = ?1 AND domain IN"
    " (SELECT domain FROM token_waits WHERE type = ?1 AND at > ?2 LIMIT ?3)"
)
"""The same for turns that wait for a token (token_waits.py)."""


class _Held(NamedTuple):
    """The tokens of a domain, and the limit on it."""

    limit: Limit
    tokens: float
    updated_ms: int
    is_own: bool


class Rates:
    """The buckets that one claim may draw from. A domain that nobody limited, and no domain, are always allowed."""

    def __init__(self, tx: Tx, jobtype: str, now_ms: int) -> None:
        self._tx = tx
        self._tenant = tenant_of(jobtype)
        self._now_ms = now_ms
        self._held: dict[str, _Held | None] = {"": None}
        self._taken: set[str] = set()

    def is_limited(self, domain: str) -> bool:
        return self._look(domain) is not None

    def allows(self, domain: str) -> bool:
        held = self._look(domain)
        return held is None or held.tokens >= 1.0

    def count(self, domain: str, most: int) -> int:
        """How many jobs of the domain may start now, and no more than most."""
        held = self._look(domain)
        return most if held is None else max(0, min(most, int(held.tokens)))

    def next_ms(self, domain: str, taken: int = 0) -> int:
        """When to look at a limited domain again after that many tokens more are taken: when it has a token, and before
        long."""
        held = self._look(domain)
        if held is None:
            return self._now_ms
        soonest_ms = next_token_ms(
            held.tokens - taken,
            rate_per_s=held.limit.rate_per_s,
            now_ms=self._now_ms,
            updated_ms=held.updated_ms,
        )
        return min(soonest_ms, self._now_ms + MOST_WAIT_MS)

    def take(self, domain: str) -> None:
        held = self._look(domain)
        if held is not None:
            self._held[domain] = held._replace(tokens=held.tokens - 1.0)
            self._taken.add(domain)

    def write(self) -> None:
        # A daemon whose clock is behind must not move `updated` back: others would refill that time twice.
        own, kept = [], []
        for domain in self._taken:
            held = self._held[domain]
            if held is None:
                continue
            limit, tokens, _, is_own = held
            if is_own:
                own.append((tokens, self._now_ms, self._tenant, domain))
            else:
                at_ms = full_ms(tokens, limit, self._now_ms)
                kept.append((self._tenant, domain, tokens, self._now_ms, limit.rate_per_s, limit.burst, at_ms))
        sql = "UPDATE rates SET tokens = ?, updated = max(updated, ?) WHERE tenant = ? AND domain = ?"
        self._tx.conn.executemany(sql, own)
        sql = (
            "INSERT INTO rate_buckets (tenant, domain, tokens, updated, rate, burst, full) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET tokens = excluded.tokens, updated = max(updated, excluded.updated),"
            " rate = excluded.rate, burst = excluded.burst, full = excluded.full + max(updated - excluded.updated, 0)"
        )
        self._tx.conn.executemany(sql, kept)

    def _look(self, domain: str) -> _Held | None:
        if domain not in self._held:
            patterns = self._tx.catalog.patterns(self._tenant)
            self._held[domain] = _find(self._tx.conn, self._tenant, domain, patterns, self._now_ms)
        return self._held[domain]


def _find(conn: apsw.Connection, tenant: str, domain: str, patterns: Patterns, now_ms: int) -> _Held | None:
    own = conn.execute(_OWN, (tenant, domain)).get
    if own is not None:
        limit, held = Limit(*own[:4]), own[4]
        tokens = grown(held, limit.set_ms, rate_per_s=limit.rate_per_s, burst=limit.burst, now_ms=now_ms)
        return _Held(limit, tokens, limit.set_ms, is_own=True)
    found = patterns.find(domain)
    if found is None:
        return None
    kept = conn.execute(_KEPT, (tenant, domain)).get
    bucket = kept and Bucket(*kept)
    return _Held(found, tokens_at(bucket, found, now_ms), bucket.updated_ms if bucket else now_ms, is_own=False)


def set_rate_domain(tx: Tx, limit: RateDomain, now_ms: int) -> bool:
    sql = "SELECT rate, burst, tokens, updated FROM rates WHERE tenant = ? AND domain = ?"
    old = tx.conn.execute(sql, (limit.tenant, limit.domain)).get
    tokens, updated_ms = float(limit.burst), now_ms
    has_pattern = is_pattern(limit.domain)
    if old is not None:
        rate, burst, held, updated = old
        tokens = min(tokens, grown(held, updated, rate_per_s=rate, burst=burst, now_ms=now_ms))
        updated_ms = now_ms if updated > now_ms + AHEAD_MS else max(now_ms, updated)
    else:
        check_limits(tx.conn.execute("SELECT count(*) FROM rates WHERE tenant = ?", (limit.tenant,)).get)
        if has_pattern:
            sql = "SELECT count(*) FROM rates WHERE tenant = ? AND pattern = 1"
            check_room(tx.conn.execute(sql, (limit.tenant,)).get)
    tx.conn.execute(
        "INSERT OR REPLACE INTO rates (tenant, domain, rate, burst, tokens, updated, pattern)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (limit.tenant, limit.domain, float(limit.rate_per_s), limit.burst, tokens, updated_ms, has_pattern),
    )
    if has_pattern:
        sql = "DELETE FROM rate_buckets WHERE tenant = ? AND updated > ?"
        tx.conn.execute(sql, (limit.tenant, now_ms + AHEAD_MS))
    tx.catalog.forget_patterns(limit.tenant)
    return old is None or old[:2] != (float(limit.rate_per_s), limit.burst)


def delete_rate_domain(tx: Tx, tenant: str, domain: str) -> bool:
    tx.catalog.forget_patterns(tenant)
    sql = "DELETE FROM rates WHERE tenant = ? AND domain = ? RETURNING 1"
    return tx.conn.execute(sql, (tenant, domain)).get is not None


def reopen_lanes(tx: Tx, tenant: str, now_ms: int, limit: int) -> bool:
    """After a limit changed: lanes and turns without a token may run earlier. One step; returns whether there may be
    more."""
    for (number,) in fetch(tx.conn, "SELECT type FROM types WHERE tenant = ?", (tenant,)):
        kinds = tx.catalog.kinds(number)
        resting: list[tuple[str, tuple[int, ...]]] = []
        if kinds.has_domains:
            resting += [(_REOPEN, (number, priority, now_ms)) for priority in PRIORITIES]
        if kinds.has_keys:  # claims may have named the domain
            resting.append((_REOPEN_WAITS, (number, now_ms)))
        for sql, place in resting:
            before = tx.conn.total_changes()
            tx.conn.execute(sql, (*place, limit))
            limit -= tx.conn.total_changes() - before
            if limit <= 0:
                return True
    return False


def collect_full(tx: Tx, now_ms: int, limit: int) -> None:
    """Remove buckets of patterns that are full: they say nothing. One that a slower limit holds now stays."""
    sql = "SELECT tenant, domain, tokens, updated, rate, burst FROM rate_buckets WHERE full <= ? LIMIT ?"
    for row in fetch(tx.conn, sql, (now_ms, limit)):
        tenant, domain, tokens, updated_ms, rate_per_s, burst = row
        found = tx.catalog.patterns(tenant).find(domain)
        tokens = 0.0 if found is None else tokens_at(Bucket(tokens, updated_ms, rate_per_s, burst), found, now_ms)
        if found is None or tokens >= found.burst:
            tx.conn.execute("DELETE FROM rate_buckets WHERE tenant = ? AND domain = ?", (tenant, domain))
        else:
            tx.conn.execute(
                "UPDATE rate_buckets SET tokens = ?, updated = max(updated, ?), rate = ?, burst = ?, full = ?"
                " WHERE tenant = ? AND domain = ?",
                (tokens, now_ms, found.rate_per_s, found.burst, full_ms(tokens, found, now_ms), tenant, domain),
            )


def list_rate_domains(conn: apsw.Connection, tenant: str, now_ms: int) -> list[RateState]:
    sql = "SELECT domain, rate, burst, tokens, updated, pattern FROM rates WHERE tenant = ? ORDER BY domain"
    states = []
    for domain, rate, burst, held, updated, has_pattern in conn.execute(sql, (tenant,)):
        tokens = float(burst) if has_pattern else grown(held, updated, rate_per_s=rate, burst=burst, now_ms=now_ms)
        states.append(rate_state(RateDomain(tenant, domain, rate, burst), tokens, updated, now_ms))
    return states


def find_rate(conn: apsw.Connection, tenant: str, domain: str, now_ms: int) -> RateState | None:
    sql = "SELECT domain, rate, burst, updated FROM rates WHERE tenant = ? AND pattern = 1"
    patterns = Patterns(Limit(*row) for row in conn.execute(sql, (tenant,)))
    held = _find(conn, tenant, domain, patterns, now_ms)
    if held is None:
        return None
    limit = RateDomain(tenant, held.limit.name, held.limit.rate_per_s, held.limit.burst)
    return rate_state(limit, held.tokens, held.updated_ms, now_ms)
