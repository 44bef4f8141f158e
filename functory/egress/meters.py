"""What each tenant uses of the proxy, and what is left of its quotas. Time comes in as an argument.

Three kinds of bounds: how many connections are open, how many bytes go through in an hour, and how fast both may come.
The first two are refused with a reason; the third only makes a tenant wait, and keeps the event loop for others.
"""

from dataclasses import dataclass
from typing import Final

from vocabulary.sizes import MIB

_GB: Final = 1 << 30
_HOUR_S: Final = 3600.0
_PIECE_BYTES: Final = 4096
"""What a piece counts for in the pace: it takes as long as some thousand bytes that are only passed on."""
_ARRIVAL_BYTES: Final = 16 * 1024
"""What an arrival counts for at least: to read and to write a byte takes about as long as to do so with many."""


@dataclass(frozen=True, slots=True)
class EgressLimits:
    """Bounds of one daemon. `context_` is for one context, `tenant_` for all contexts of a tenant."""

    connections: int = 256
    tenant_connections: int = 64
    context_connections: int = 32
    connections_per_s: float = 200.0  # of a tenant
    hourly_bytes: int = 64 * _GB
    tenant_hourly_bytes: int = 16 * _GB
    bytes_per_s: float = 128.0 * MIB
    tenant_bytes_per_s: float = 64.0 * MIB
    head_s: float = 10.0  # for the head of a request, and for TLS's ClientHello from its first byte
    connect_s: float = 10.0
    idle_s: float = 120.0  # without a byte in either direction
    life_s: float = 7200.0  # of a connection, whatever it does


class Pace:
    """A token bucket that may be overdrawn: the debt is a time to wait."""

    __slots__ = ("_at", "_burst", "_left", "_per_s")

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = burst
        self._at = 0.0

    def take(self, count: float, now: float) -> float:
        """Take it. Returns for how many seconds nothing more should be taken."""
        self._left = min(self._burst, self._left + max(0.0, now - self._at) * self._per_s) - count
        self._at = max(self._at, now)
        return max(0.0, -self._left / self._per_s)


class Hour:
    """Bytes of the current hour, counted from its first byte."""

    __slots__ = ("_since", "bytes")

    def __init__(self) -> None:
        self._since = float("-inf")
        self.bytes = 0

    def add(self, count: int, now: float) -> int:
        """Returns the bytes of the hour so far."""
        if now - self._since >= _HOUR_S:
            self._since, self.bytes = now, 0
        self.bytes += count
        return self.bytes


class Meter:
    """Of one tenant, or of all. Counters only grow."""

    __slots__ = ("connections_total", "hour", "open", "pace", "received_bytes", "refused_total", "sent_bytes", "starts")

    def __init__(self, bytes_per_s: float, connections_per_s: float) -> None:
        self.open = 0
        self.connections_total = 0
        self.refused_total = 0
        self.sent_bytes = 0  # to the hosts
        self.received_bytes = 0
        self.hour = Hour()
        self.pace = Pace(bytes_per_s, bytes_per_s / 4)
        self.starts = Pace(connections_per_s, connections_per_s)

    def figures(self) -> dict[str, float]:
        return {
            "connections": self.open,
            "connections_total": self.connections_total,
            "refused_total": self.refused_total,
            "sent_bytes_total": self.sent_bytes,
            "received_bytes_total": self.received_bytes,
        }


class Meters:
    """All tenants and their sum."""

    def __init__(self, limits: EgressLimits) -> None:
        self.limits = limits
        self.all = Meter(limits.bytes_per_s, float("inf"))
        self._tenants: dict[str, Meter] = {}
        self._gone: set[str] = set()
        """Tenants that were forgotten while they had connections open."""

    def of(self, tenant: str) -> Meter:
        meter = self._tenants.get(tenant)
        if meter is None:
            limits = self.limits
            meter = self._tenants[tenant] = Meter(limits.tenant_bytes_per_s, limits.connections_per_s)
        return meter

    def forget(self, tenant: str) -> None:
        """The tenant is gone. One that gets its name begins at zero, but for connections that are still ending."""
        meter = self._tenants.pop(tenant, None)
        if meter is not None and meter.open:
            self.of(tenant).open = meter.open
            self._gone.add(tenant)

    def by_tenant(self) -> dict[str, Meter]:
        return dict(self._tenants)

    def why_not(self, tenant: str, of_context: int, now: float) -> str:
        """Why the tenant may not open one more connection; empty if it may. `of_context` are open already."""
        limits, mine = self.limits, self.of(tenant)
        if of_context >= limits.context_connections:
            return (
                f"this handler has {of_context} connections open, and may have {limits.context_connections}: close some"
            )
        if mine.open >= limits.tenant_connections:
            return f"the tenant's handlers have {mine.open} connections open, and may have {limits.tenant_connections}"
        if self.all.open >= limits.connections:
            return "all connections of this service are in use: try again later"
        return self.why_no_more(tenant, now)

    def why_no_more(self, tenant: str, now: float) -> str:
        """Why no byte more may go through; empty if it may."""
        limits = self.limits
        if self.of(tenant).hour.add(0, now) >= limits.tenant_hourly_bytes:
            return (
                f"the tenant's handlers have moved the {limits.tenant_hourly_bytes >> 20} MB that they may in an hour"
            )
        if self.all.hour.add(0, now) >= limits.hourly_bytes:
            return "this service has moved all the bytes that it may in an hour"
        return ""

    def opened(self, tenant: str) -> None:
        self._gone.discard(tenant)
        for meter in (self.of(tenant), self.all):
            meter.open += 1
            meter.connections_total += 1

    def closed(self, tenant: str) -> None:
        for meter in (self.of(tenant), self.all):
            meter.open -= 1
        if tenant in self._gone and not self.of(tenant).open:
            self._gone.discard(tenant)
            del self._tenants[tenant]

    def refused(self, tenant: str) -> None:
        for meter in (self.of(tenant), self.all):
            meter.refused_total += 1

    def moved(self, tenant: str, count: int, now: float, *, to_host: bool) -> None:
        """Count bytes that went through."""
        for meter in (self.of(tenant), self.all):
            if to_host:
                meter.sent_bytes += count
            else:
                meter.received_bytes += count
            meter.hour.add(count, now)

    def took(self, tenant: str, now: float, *, count: int = 0, pieces: int = 0) -> float:
        """An arrival of `count` bytes was read, whatever became of it, or `pieces` of one were looked at one by one.
        Returns for how many seconds the connection should rest."""
        size = (max(count, _ARRIVAL_BYTES) if count else 0) + pieces * _PIECE_BYTES
        return max(meter.pace.take(size, now) for meter in (self.of(tenant), self.all))
