"""Who counts as one client, and how many connections it may have."""

from ipaddress import ip_network

import pytest

from functory.web.addresses import Addresses


@pytest.mark.parametrize(
    ("first", "second", "are_one"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2", True),
    ],
)
def test_one_client(first: str, second: str, are_one: bool) -> None:
    addresses = Addresses(1)
    assert addresses.enter(first) is not None
    assert (addresses.enter(second) is None) == are_one


def test_who_leaves_makes_room() -> None:
    addresses = Addresses(1)
    client = addresses.enter("10.0.0.1")
    assert client is not None
    assert addresses.enter("10.0.0.1") is None
    addresses.leave(client)
    assert addresses.enter("10.0.0.1") is not None


@pytest.mark.parametrize("address", ["10.0.0.9", "::ffff:10.0.0.9", "", "/run/functory.sock"])
def test_a_trusted_proxy_and_a_local_socket_have_no_limit(address: str) -> None:
    addresses = Addresses(1, [ip_network("10.0.0.0/24")])
    assert all(addresses.enter(address) is not None for _ in range(10))
