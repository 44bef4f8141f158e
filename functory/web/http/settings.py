"""Settings of HTTP. Values only; every size and time has its unit in its name."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

from vocabulary.sizes import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    host: str = "127.0.0.1"
    """Loopback by default: put a proxy with TLS in front before you open it to a network."""
    port: int = 8484

    public_url: str = ""
    """Where browsers reach the pages, such as https://jobs.example.com. Without it, pages are served only
    under addresses and localhost."""
    live_tick_s: float = 2.0
    """How often a live page is rendered again."""

    follow_s: float = 3600.0
    """How long a log is followed in one request."""

    max_body_bytes: int = 16 * MIB
    """Longest body of a request, after decompression."""
    max_connections: int = 2000
    max_connections_of_one: int = 1000
    """From one address, or one /64 of IPv6. Trusted proxies have no such limit."""

    header_timeout_s: float = 10.0
    """How long a new connection may take to send the headers of its first request."""
    keepalive_s: float = 75.0
    """An idle connection is closed after this, and so is one that sends the headers of a further request too slowly."""
    body_timeout_s: float = 30.0
    """How long the whole body may take to arrive."""
    stall_timeout_s: float = 30.0
    """A client that reads nothing of its answer for this long is disconnected."""
    shutdown_s: float = 15.0
    """How long requests under way may take when the daemon stops."""

    requests_per_s: float = 20_000.0
    requests_burst: int = 40_000
    """Requests of one key, unless its tenant's limits say otherwise."""

    is_metrics_public: bool = False
    """Whether `/metrics` needs no key. It names tenants and types."""

    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    """Proxies that are believed about the client's address and scheme (forwarded.py)."""
