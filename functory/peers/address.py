"""Where this daemon receives what others tell it.

Left to itself, a daemon on an embedded store takes a loopback address, because all daemons of that store are on this
machine; one on a server takes the address from which this machine reaches the server, because whoever shares the server
reaches that, too. The address is published in the register of daemons: as numbers, so that nobody looks up a name to
send a datagram.
"""

import asyncio
import ipaddress
import socket
from typing import Final
from urllib.parse import urlsplit

from functory.setting_values import Address

_LOOPBACK: Final = "127.0.0.1"
_SOMEWHERE: Final = "192.0.2.1"
"""An address of nobody (RFC 5737). The way to it is the way to everywhere."""
_DISCARD: Final = 9


async def own_address(wanted: Address, store_url: str) -> Address:
    """The address to bind. Raises OSError when there is none."""
    if wanted.host:
        return Address(await _numbers(wanted.host), wanted.port)
    host = _store_host(store_url)
    if not host:
        return Address(_LOOPBACK, wanted.port)
    try:
        towards = await _numbers(host)
    except OSError:  # such as the name of a cluster, which stands for several others
        towards = _SOMEWHERE
    return Address(_source_towards(towards), wanted.port)


def numeric(text: str) -> Address | None:
    """An address that another daemon has published; None unless it is numbers."""
    host, _, port = text.rpartition(":")
    try:
        ip = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
        number = int(port)
    except ValueError:
        return None
    return Address(str(ip), number) if 0 < number <= 65_535 else None


def family_of(address: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address.host else socket.AF_INET


def _store_host(url: str) -> str:
    """The first host of a store's URL; "" if the store is a file."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return ""
    first = parts.netloc.rpartition("@")[2].partition(",")[0]
    if first.startswith("["):
        return first[1:].partition("]")[0]
    return first.partition(":")[0]


async def _numbers(host: str) -> str:
    found = await asyncio.get_running_loop().getaddrinfo(host, _DISCARD, type=socket.SOCK_DGRAM)
    return str(found[0][4][0])


def _source_towards(host: str) -> str:
    """The address of this machine on the way there. Nothing is sent."""
    with socket.socket(family_of(Address(host, 0)), socket.SOCK_DGRAM) as probe:
        probe.setblocking(False)
        probe.connect((host, _DISCARD))
        return str(probe.getsockname()[0])
