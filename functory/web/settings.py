"""What the operator may set about HTTP. Values only; every size and time with its unit."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    host: str = "127.0.0.1"
    """Loopback unless told otherwise: put a proxy with TLS in front before you open it to a network."""
    port: int = 8080

    public_url: str = ""
    """Where browsers reach the pages, such as https://jobs.example.com; without it they answer under addresses and
    localhost only."""
    session_life_s: float = 12 * 3600.0
    """For how long somebody who signed in stays signed in."""
    live_tick_s: float = 2.0
    """How often a page that is looked at is made anew."""

    max_body_bytes: int = 16 * MIB
    """Of a request's body after decompression."""
    max_header_bytes: int = 8190
    """Of one header line, and of the request line."""
    max_headers: int = 64
    max_connections: int = 1000

    header_timeout_s: float = 10.0
    """For the first request's headers to arrive on a connection."""
    keepalive_s: float = 75.0
    """An idle connection, or one that sends the headers of a further request too slowly, is closed after this."""
    body_timeout_s: float = 30.0
    """For the whole body to arrive."""
    stall_timeout_s: float = 30.0
    """A client that reads nothing of its answer for this long is cut off."""
    shutdown_s: float = 15.0
    """For requests under way when the daemon stops."""

    requests_per_s: float = 20_000.0
    requests_burst: int = 40_000
    """Of one key, unless its tenant's limits say otherwise."""

    key_life_s: float = 5.0
    """A verified key is trusted for this long: so a revoked key may still work on other daemons."""
    key_grace_s: float = 3600.0
    """A key that was verified goes on working for this long while the store cannot be asked."""

    is_metrics_public: bool = False
    """Whether `/metrics` needs no key. It names tenants and types."""

    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    """Whose word on the client's address and scheme is taken (functory/web/forwarded.py)."""
