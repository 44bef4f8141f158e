"""Connections by the address that they come from, so that one client cannot take them all.

An IPv6 client counts as its network (http/client_networks.py). Trusted proxies bring everybody's requests, and
have no limit of their own.
"""

from collections import Counter
from collections.abc import Sequence

from functory.web.http.client_networks import counted_as, parse_address
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
        parsed = parse_address(address)
        if parsed is None or any(parsed in network for network in self._trusted):
            return ""
        return counted_as(address)
