"""Rate domains: token buckets in the database, so that all daemons draw from the same ones."""

from collections import Counter

import apsw

from store.sqlite.file.writer import Tx
from store.values.records import RateDomain, RateState
from vocabulary.names import tenant_of
from vocabulary.token_bucket import next_token_ms, refill


class Rates:
    """The buckets that one claim may draw from. A domain that nobody limited, and no domain, are always allowed."""

    def __init__(self, tx: Tx, jobtype: str, domains: set[str], now_ms: int) -> None:
        self._tenant = tenant_of(jobtype)
        self._now_ms = now_ms
        self._tokens: dict[str, float] = {}
        self._rates: dict[str, float] = {}
        self._taken: Counter[str] = Counter()
        if domains == {""}:
            return
        sql = "SELECT domain, rate, burst, tokens, updated FROM rates WHERE tenant = ?"
        for domain, rate, burst, tokens, updated in tx.conn.execute(sql, (self._tenant,)):
            if domain in domains:
                self._rates[domain] = rate
                self._tokens[domain] = refill(tokens, updated, rate_per_s=rate, burst=burst, now_ms=now_ms)

    def limits(self, domain: str) -> bool:
        return domain in self._tokens

    def allows(self, domain: str) -> bool:
        tokens = self._tokens.get(domain)
        return tokens is None or tokens >= 1.0

    def next_ms(self, domain: str) -> int:
        """When a limited domain has a token."""
        return next_token_ms(self._tokens[domain], rate_per_s=self._rates[domain], now_ms=self._now_ms)

    def take(self, domain: str) -> None:
        if domain in self._tokens:
            self._tokens[domain] -= 1.0
            self._taken[domain] += 1

    def write(self, tx: Tx) -> None:
        if not self._taken:
            return
        # A daemon whose clock is behind must not move `updated` back: others would refill that time twice.
        tx.conn.executemany(
            "UPDATE rates SET tokens = ?, updated = max(updated, ?) WHERE tenant = ? AND domain = ?",
            [(self._tokens[domain], self._now_ms, self._tenant, domain) for domain in self._taken],
        )


def set_rate_domain(tx: Tx, limit: RateDomain, now_ms: int) -> None:
    sql = "SELECT rate, burst, tokens, updated FROM rates WHERE tenant = ? AND domain = ?"
    old = tx.conn.execute(sql, (limit.tenant, limit.domain)).get
    tokens = float(limit.burst)
    if old is not None:
        rate, burst, held, updated = old
        tokens = min(tokens, refill(held, updated, rate_per_s=rate, burst=burst, now_ms=now_ms))
        now_ms = max(now_ms, updated)
    tx.conn.execute(
        "INSERT OR REPLACE INTO rates (tenant, domain, rate, burst, tokens, updated) VALUES (?, ?, ?, ?, ?, ?)",
        (limit.tenant, limit.domain, float(limit.rate_per_s), limit.burst, tokens, now_ms),
    )


def list_rate_domains(conn: apsw.Connection, tenant: str, now_ms: int) -> list[RateState]:
    sql = "SELECT domain, rate, burst, tokens, updated FROM rates WHERE tenant = ? ORDER BY domain"
    states = []
    for domain, rate, burst, held, updated in conn.execute(sql, (tenant,)):
        tokens = refill(held, updated, rate_per_s=rate, burst=burst, now_ms=now_ms)
        soonest = next_token_ms(tokens, rate_per_s=rate, now_ms=now_ms)
        states.append(RateState(RateDomain(tenant, domain, rate, burst), tokens, soonest))
    return states
