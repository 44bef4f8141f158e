"""Clients by the address that they come from, and their connections, so that one client cannot take them all.

An IPv6 client has a whole /64 network to itself, and counts as that. Trusted proxies bring everybody's requests, and
have no limit of their own.
"""

from collections import Counter
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from functory.web.http.forwarded import Network


class Addresses:
    def __init__(self, most_of_one: int, trusted: Sequence[Network] = ()) -> None:
        self._most_of_one = most_of_one
        self._trusted = trusted
        self._open: Counter[str] = Counter()

    def enter(self, address: str) -> str | None:
        """A connection from the address; returns what to `leave` with it, or None when there are too many."""
        client = self._client(address)
        if client and self._open[client] >= self._most_of_one:
            return None
        self._open[client] += 1
        return client

    def leave(self, client: str) -> None:
        self._open[client] -= 1
        if not self._open[client]:
            del self._open[client]

    def _client(self, address: str) -> str:
        """Empty for a trusted proxy, and for what has no address: a socket in the file system."""
        parsed = _parsed(address)
        if parsed is None or any(parsed in network for network in self._trusted):
            return ""
        return _counted_as(parsed)


def counted_as(address: str) -> str:
    """What an address counts as: itself, or the network of an IPv6 client; what is no address, as it is."""
    parsed = _parsed(address)
    return address if parsed is None else _counted_as(parsed)


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed


def _counted_as(parsed: IPv4Address | IPv6Address) -> str:
    return str(ip_network((parsed, 64), strict=False) if isinstance(parsed, IPv6Address) else parsed)
