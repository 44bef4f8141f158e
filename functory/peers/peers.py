"""The other daemons of the store that can be told something, as the register has them.

A daemon that has come says so to those that it finds, and they read the register again; besides, everybody reads it
every few seconds. One that does not publish where it receives is left to its poll.
"""

import logging
from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple

from functory.loops.shared import Shared
from functory.operations.daemons import DaemonInfo, info_of
from functory.peers.address import numeric, own_address
from functory.peers.channel import Channel, Envelope
from functory.peers.news import News
from functory.setting_values import Address

log = logging.getLogger("functory.peers")

_MOST_DATAGRAMS: Final = 16
"""For one peer, at once."""


class Peer(NamedTuple):
    address: Address
    key: str
    envelope: Envelope


class Peers:
    def __init__(self, shared: Shared) -> None:
        self._store = shared.store
        self._clock = shared.clock
        self._owner = shared.owner
        self._channel = Channel()
        self.others: dict[str, Peer] = {}
        self.is_alone = False
        """Whether the register had no other daemon when it was read."""

    async def open(self, wanted: Address | None, store_url: str, listener: Callable[[News], None]) -> None:
        """Receive, unless it is turned off. Without a place to receive, the poll has to do."""
        if wanted is None:
            return
        try:
            self._channel.open(await own_address(wanted, store_url), listener)
        except OSError as error:
            log.warning("peers.deaf", extra={"reason": str(error)})

    def close(self) -> None:
        self.others.clear()
        self._channel.close()

    @property
    def published(self) -> tuple[str, str]:
        """The address and the key that others need to tell this daemon something; empty if they cannot."""
        address = self._channel.address
        if address is None:
            return "", ""
        host = f"[{address.host}]" if ":" in address.host else address.host
        return f"{host}:{address.port}", self._channel.key.hex()

    async def refresh(self) -> None:
        """Read the register. Raises StoreUnavailable."""
        daemons = await self._store.list_daemons(now_ms=self._clock.now_ms())
        others = [daemon for daemon in daemons if daemon.sysid != self._owner]
        self.is_alone = not others
        if self._channel.address is None:
            return
        found: dict[str, Peer] = {}
        for daemon in others:
            peer = _peer(info_of(daemon), self.others.get(daemon.sysid))
            if peer is not None:
                found[daemon.sysid] = peer
        self.others = found

    def send(self, news: News) -> None:
        """To all of them. Never waits."""
        for piece in islice(news.datagrams(), _MOST_DATAGRAMS):
            for peer in self.others.values():
                self._channel.send(peer.address, peer.envelope.seal(piece))

    def gauges(self) -> dict[str, float]:
        return {
            "peers": len(self.others),
            "peer_datagrams_sent_total": self._channel.sent,
            "peer_datagrams_unsent_total": self._channel.unsent,
            "peer_datagrams_heard_total": self._channel.heard,
            "peer_datagrams_refused_total": self._channel.refused,
        }


def _peer(info: DaemonInfo, known: Peer | None) -> Peer | None:
    address = numeric(info.wake_at)
    if address is None:
        return None
    if known is not None and (known.address, known.key) == (address, info.wake_key):
        return known
    try:
        return Peer(address, info.wake_key, Envelope(bytes.fromhex(info.wake_key)))
    except ValueError:
        return None
