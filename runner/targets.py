"""What tenants may have the daemon connect to: for the http engine and for the proxy of contexts. Pure.

The rule that protects the operator's network is on addresses, not on names or on the spelling of URLs: it is asked
about every address that a name resolved to and again about the one that a socket is made for, so decimal and octal
forms, redirects, names that change their answer and IPv4 inside IPv6 all end at the same question. The rule on names
is the operator's list of hosts.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from handlers.hosts import ANY_HOST, HostPattern, is_address, is_covered, matches_any
from runner.errors import TargetRefusedError

NOT_OPEN: Final = (
    "loopback, private, link-local or reserved, which the operator of this service has not allowed (`http_allowed`)"
)
UNREACHABLE: Final = f"its host is unknown, or has an address that is {NOT_OPEN}"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# IPv6 prefixes that carry an IPv4 address in their last 32 bits. Mapped, 6to4 and Teredo addresses python
# knows itself.
_EMBEDDING: Final = tuple(
    ipaddress.IPv6Network(text) for text in ("::/96", "64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96")
)
# Not global although some versions of python say so, or nobody's business.
_NEVER: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        *("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4"),
        *("100::/64", "2001::/23", "fec0::/10", "fc00::/7"),
    )
)


@dataclass(frozen=True, slots=True)
class Targets:
    """The operator's rules: hosts by name, and private networks that are open all the same.

    A private address that the operator opened needs no name among the hosts: it was allowed as it is, at every port.
    """

    hosts: tuple[HostPattern, ...] = (ANY_HOST,)
    networks: tuple[Network, ...] = ()

    def allows(self, host: str, port: int) -> bool:
        """Whether the host is allowed by its name."""
        return matches_any(self.hosts, host, port)

    def covers(self, pattern: HostPattern) -> bool:
        """Whether a handler may list it: all that it means is allowed by name, or it is an address that is open."""
        return is_covered(pattern, self.hosts) or (is_address(pattern.name) and self._is_open(pattern.name))

    def check(self, host: str, port: int, addresses: Iterable[str]) -> None:
        """Raises TargetRefusedError unless every one of the host's addresses may be called."""
        by_name = self.allows(host, port)
        for address in addresses:
            if not by_name and not self._is_open(address):
                raise TargetRefusedError(self.why_not(host, port))
            check_address(address, self.networks)

    def why_not(self, host: str, port: int) -> str:
        """Of a host that is not allowed by its name. Tells nothing of the addresses of a name."""
        if is_address(host) and not is_public(ipaddress.ip_address(host)):
            return f"{host}:{port} is {NOT_OPEN}"
        if any(pattern.has_name(host) for pattern in self.hosts):
            return (
                f"the operator of this service does not allow port {port} of {host} (`hosts_allowed`; without a port in"
                " it: 80 and 443)"
            )
        return f"{host}:{port} is not among the hosts that the operator of this service allows (`hosts_allowed`)"

    def _is_open(self, text: str) -> bool:
        address = ipaddress.ip_address(text.partition("%")[0])
        return any(address in network for network in self.networks)


def check_address(text: str, allowed: Sequence[Network] = ()) -> None:
    """Raises TargetRefusedError unless `text` is a public address, or one that the operator allows."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError as err:
        raise TargetRefusedError(UNREACHABLE) from err
    if any(address in network for network in allowed):
        return
    for one in (address, *_inside(address)):
        if not is_public(one):
            # Not which address: that would be a telephone book of the machine's own network.
            raise TargetRefusedError(UNREACHABLE)


def is_public(address: Address) -> bool:
    if any(address in network for network in _NEVER):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _inside(address: Address) -> Iterator[Address]:
    """IPv4 addresses that an IPv6 address would be translated to."""
    if not isinstance(address, ipaddress.IPv6Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if any(address in network for network in _EMBEDDING):
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
