"""Who the client is behind a proxy. Forwarded headers are believed only from a trusted proxy.

Anybody can send `X-Forwarded-For: 127.0.0.1`. So the connection's own address counts, unless it is a trusted proxy's.
Then the list in the header is read from its end, past further trusted proxies, to the first address that none of them
vouches for. `X-Forwarded-Proto` also counts only from a trusted proxy.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, NamedTuple

from aiohttp import web

Network = IPv4Network | IPv6Network

_MAX_HOPS: Final = 32
"""A header with more addresses is an attack, not a route."""
_SCHEMES: Final = frozenset({"http", "https"})


class Peer(NamedTuple):
    """address: the client's, as far as it can be known; empty when the connection has none."""

    address: str
    scheme: str


def client_of(request: web.BaseRequest, trusted: Sequence[Network]) -> Peer:
    headers = request.headers
    return peer_of(request.remote, headers.getall("X-Forwarded-For", []), headers.get("X-Forwarded-Proto"), trusted)


def peer_of(remote: str | None, forwarded_for: Sequence[str], proto: str | None, trusted: Sequence[Network]) -> Peer:
    """`remote` is the connection's own address; the others are headers as they came."""
    nearest = _nearest(remote or "")
    if nearest is None or not _is_among(nearest, trusted):
        return Peer(remote or "", "http")
    scheme = proto.strip().lower() if proto else "http"
    return Peer(str(_client(nearest, forwarded_for, trusted)), scheme if scheme in _SCHEMES else "http")


def _client(
    nearest: IPv4Address | IPv6Address, forwarded_for: Sequence[str], trusted: Sequence[Network]
) -> IPv4Address | IPv6Address:
    hops = [part for header in forwarded_for for part in header.split(",")]
    client = nearest
    for text in reversed(hops[-_MAX_HOPS:]):
        hop = _address(text.strip())
        if hop is None:  # not an address: nobody vouches for what lies beyond
            break
        client = hop
        if not _is_among(hop, trusted):
            break
    return client


def _is_among(address: IPv4Address | IPv6Address, trusted: Iterable[Network]) -> bool:
    return any(address in network for network in trusted)


@lru_cache(maxsize=1024)
def _nearest(remote: str) -> IPv4Address | IPv6Address | None:
    """Of a connection. What a header says is not kept: it may be long, and clients choose it."""
    return _address(remote)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an address, without the port and brackets that some proxies add. An IPv4 address mapped
    to IPv6 becomes IPv4."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
