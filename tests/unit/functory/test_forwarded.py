"""Whose word on the client's address is taken."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.web.http.forwarded import Peer, peer_of

TRUSTED = [ip_network("10.0.0.0/8"), ip_network("::1")]


@pytest.mark.parametrize(
    ("remote", "forwarded_for", "proto", "expected"),
    [
        ("203.0.113.9", [], None, Peer("203.0.113.9", "http")),
        ("203.0.113.9", ["127.0.0.1"], "https", Peer("203.0.113.9", "http")),  # a stranger's claim
        ("10.0.0.1", [], None, Peer("10.0.0.1", "http")),
        ("10.0.0.1", ["203.0.113.9"], "https", Peer("203.0.113.9", "https")),
        ("10.0.0.1", ["127.0.0.1, 203.0.113.9"], "http", Peer("203.0.113.9", "http")),  # what the client made up
        ("10.0.0.1", ["127.0.0.1", "203.0.113.9, 10.0.0.2"], "http", Peer("203.0.113.9", "http")),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], None, Peer("10.0.0.3", "http")),
        ("10.0.0.1", ["203.0.113.9, <script>, 10.0.0.2"], None, Peer("10.0.0.2", "http")),
        ("10.0.0.1", ["203.0.113.9:5555"], "gopher", Peer("203.0.113.9", "http")),
        ("::1", ["[2001:db8::7]:443"], "HTTPS", Peer("2001:db8::7", "https")),
        ("::ffff:10.0.0.1", ["::ffff:203.0.113.9"], None, Peer("203.0.113.9", "http")),
        (None, ["203.0.113.9"], "https", Peer("", "http")),
        ("10.0.0.1", [""], "", Peer("10.0.0.1", "http")),
    ],
)
def test_the_client(remote: str | None, forwarded_for: list[str], proto: str | None, expected: Peer) -> None:
    assert peer_of(remote, forwarded_for, proto, TRUSTED) == expected


@given(st.lists(st.text(max_size=60), max_size=5), st.text(max_size=20), st.sampled_from(["10.9.9.9", "203.0.113.9"]))
def test_whatever_is_sent_the_answer_is_an_address_and_a_scheme(headers: list[str], proto: str, remote: str) -> None:
    peer = peer_of(remote, headers, proto, TRUSTED)
    ip_address(peer.address)
    assert peer.scheme in ("http", "https")


@given(st.lists(st.ip_addresses(v=4).map(str), min_size=1, max_size=50))
def test_what_a_client_writes_before_the_proxys_own_word_changes_nothing(made_up: list[str]) -> None:
    header = ", ".join([*made_up, "203.0.113.9"])
    assert peer_of("10.0.0.1", [header], None, TRUSTED).address == "203.0.113.9"
