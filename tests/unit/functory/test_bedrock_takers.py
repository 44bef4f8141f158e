"""Which deliveries a listener of Bedrock::Jobs remembers: as many as its connections do, and no others."""

import pytest

from functory.bedrock.call import Peer, Takers


def test_what_a_connection_forgets_its_listener_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also deliveries that no command has ended: their leases lapsed, or their jobs were moved or deleted."""
    monkeypatch.setattr("functory.bedrock.call._MOST_HELD", 3)
    takers, peer, other = Takers(), Peer(), Peer()
    takers.has_taken(other, "j1", 1, repeats=False)
    for number in range(10):
        takers.has_taken(peer, f"j{number}", 2, repeats=False)
    for token in range(3, 10):
        takers.has_taken(peer, "j9", token, repeats=False)
    assert set(takers._peers) == {("j1", 1), ("j7", 2), ("j8", 2), ("j9", 9)}
    takers.has_ended("j8", 2)
    assert [peer.held(f"j{number}") is not None for number in range(10)] == [False] * 7 + [True, False, True]
    assert other.held("j1") is not None
