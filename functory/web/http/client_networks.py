"""What an address counts as where clients are limited: an IPv6 client has a whole /64 network to itself."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network


def counted_as(address: str) -> str:
    """The address itself, or the network of an IPv6 client; what is no address, as it is."""
    parsed = parse_address(address)
    if parsed is None:
        return address
    return str(ip_network((parsed, 64), strict=False) if isinstance(parsed, IPv6Address) else parsed)


def parse_address(address: str) -> IPv4Address | IPv6Address | None:
    """An IPv4 address that is written as one of IPv6 is the former. None: it is no address."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed
