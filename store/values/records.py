"""Everything that is not a job: handlers, tenants, keys, daemons, rate domains, audit events."""

from typing import NamedTuple

from store.rate_rules import is_pattern
from vocabulary.token_bucket import next_token_ms


class Handler(NamedTuple):
    """One version of the code for a jobtype. data is the application's own document; the store never reads it.

    version grows with every change of that jobtype, also after a delete, and is never used twice. created_ms is when it
    was asked for: what it takes to save it, such as packages, may take minutes.
    restored_from is the version that a roll-back copied, or 0. tree is the digest of the list of its files, if it is a
    folder.
    """

    jobtype: str
    version: int
    created_ms: int
    lang: str
    data: bytes
    author: str = ""
    restored_from: int = 0
    tree: str = ""


class NewHandler(NamedTuple):
    """A version that is to be made; created_ms and the others are as in `Handler`."""

    jobtype: str
    lang: str
    data: bytes
    created_ms: int
    author: str = ""
    tree: str = ""
    restored_from: int = 0

    def numbered(self, version: int) -> Handler:
        return Handler(
            self.jobtype, version, self.created_ms, self.lang, self.data, self.author, self.restored_from, self.tree
        )


class HandlerSummary(NamedTuple):
    """A handler without its data. current: this is the version in force."""

    jobtype: str
    version: int
    created_ms: int
    lang: str
    author: str
    restored_from: int
    size_bytes: int
    current: bool


class Tenant(NamedTuple):
    """limits is the application's own text (JSON by custom). deleting: `delete_tenant` has begun."""

    name: str
    created_ms: int
    weight: int = 1
    limits: str = ""
    suspended: bool = False
    deleting: bool = False


class ApiKey(NamedTuple):
    """A key by its public id. hash is of the secret, which the store never sees. tenant "" is the operator."""

    key_id: str
    tenant: str
    hash: bytes
    scopes: tuple[str, ...]
    created_ms: int
    expires_ms: int | None = None
    label: str = ""


class Secret(NamedTuple):
    """A value of a tenant under a name, sealed by the application with the key key_id. Without data: it was deleted.

    version grows by one with every change of that name, also after a delete, and is never used twice.
    """

    tenant: str
    name: str
    version: int
    created_ms: int
    author: str
    key_id: str
    data: bytes


class Content(NamedTuple):
    """A piece of a file, or a list of files, of a tenant. digest is the SHA-256 of data, in hex; the caller's word."""

    tenant: str
    digest: str
    touched_ms: int
    data: bytes


class ContentSummary(NamedTuple):
    """A piece without its data."""

    digest: str
    size_bytes: int
    touched_ms: int


class AuditEvent(NamedTuple):
    """Something an operator or a key did. detail is the application's own text."""

    at_ms: int
    actor: str
    action: str
    tenant: str = ""
    detail: str = ""


class AuditPage(NamedTuple):
    events: tuple[AuditEvent, ...]
    cursor: str | None


class Daemon(NamedTuple):
    """A daemon that holds a sysid until until_ms. info is its own text (JSON by custom), renewed with the lease.

    paused is set by an operator and is how the daemon learns of it: every renewal returns this record.
    """

    sysid: str
    reserved_ms: int
    until_ms: int
    info: str
    paused: bool


class RateDomain(NamedTuple):
    """A token bucket of a tenant, shared by all daemons: rate_per_s jobs a second, at most burst at once. Or such a
    limit for each domain that a pattern matches."""

    tenant: str
    domain: str
    rate_per_s: float
    burst: int

    @property
    def is_pattern(self) -> bool:
        return is_pattern(self.domain)


class RateState(NamedTuple):
    """A bucket at a time. next_ms: when there is a whole token again (now or before: there is one)."""

    domain: RateDomain
    tokens: float
    next_ms: int


def rate_state(domain: RateDomain, tokens: float, updated_ms: int, now_ms: int) -> RateState:
    """Of a bucket that holds those tokens now. What a full one keeps of the next token is not told."""
    next_ms = next_token_ms(tokens, rate_per_s=domain.rate_per_s, now_ms=now_ms, updated_ms=updated_ms)
    return RateState(domain, min(tokens, float(domain.burst)), next_ms)


class DeleteReport(NamedTuple):
    """What one bounded step removed. more: call again."""

    removed: int
    more: bool
