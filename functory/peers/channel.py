"""Datagrams between the daemons of a store, sealed with AES-256-GCM.

Every daemon makes a key when it starts and publishes it with its address in the register of the store. So only those
who can read the store can tell a daemon something, and nobody on the network reads what it is told.

Ensures: whatever arrives costs a bounded part of a core. At most READ_AT_ONCE datagrams are read in a row; then the
socket rests, and what came meanwhile is heard together. What the kernel drops meanwhile is lost, as datagrams may be.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from functory.peers.address import family_of
from functory.peers.news import DATAGRAM_BYTES, News
from functory.setting_values import Address

READ_AT_ONCE: Final = 64
_REST_S: Final = 0.005
_KEY_BYTES: Final = 32
_PREFIX_BYTES: Final = 6
_NONCE_BYTES: Final = 12
_SEALED_BYTES: Final = _NONCE_BYTES + DATAGRAM_BYTES + 16
_BOUND: Final = b"functory wake 1"


class Envelope:
    """Seals for one receiver. A nonce is a random prefix of this sender and a number that grows: none is used twice."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._prefix = os.urandom(_PREFIX_BYTES)
        self._sent = 0

    def seal(self, text: bytes) -> bytes:
        self._sent += 1
        nonce = self._prefix + self._sent.to_bytes(_NONCE_BYTES - _PREFIX_BYTES)
        return nonce + self._cipher.encrypt(nonce, text, _BOUND)


class Channel:
    """Idempotent to close, and legal to close before it is opened."""

    def __init__(self) -> None:
        self.key = os.urandom(_KEY_BYTES)
        self.address: Address | None = None
        """Where this daemon receives; None while it does not."""
        self._cipher = AESGCM(self.key)
        self._sockets: dict[socket.AddressFamily, socket.socket] = {}
        self._receiving: socket.socket | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._listener: Callable[[News], None] = lambda _: None
        self.sent = 0
        self.unsent = 0
        """Datagrams that the system did not take."""
        self.heard = 0
        self.refused = 0
        """Datagrams that were not sealed for this daemon."""

    def open(self, address: Address, listener: Callable[[News], None]) -> None:
        """Receive at this address. Raises OSError."""
        self._listener = listener
        receiving = socket.socket(family_of(address), socket.SOCK_DGRAM)
        try:
            receiving.setblocking(False)
            receiving.bind((address.host, address.port))
        except OSError:
            receiving.close()
            raise
        self._receiving = self._sockets[family_of(address)] = receiving
        self.address = Address(address.host, receiving.getsockname()[1])
        asyncio.get_running_loop().add_reader(receiving, self._read)

    def close(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
        if self._receiving is not None:
            asyncio.get_running_loop().remove_reader(self._receiving)
        for each in self._sockets.values():
            each.close()
        self._sockets.clear()
        self._receiving = self.address = None

    def send(self, to: Address, sealed: bytes) -> None:
        """Never waits. What cannot be sent now is lost."""
        try:
            self._socket(family_of(to)).sendto(sealed, (to.host, to.port))
        except OSError:  # its buffer is full, there is no way to it, or nobody listens there any more
            self.unsent += 1
        else:
            self.sent += 1

    def _socket(self, family: socket.AddressFamily) -> socket.socket:
        if family not in self._sockets:
            self._sockets[family] = socket.socket(family, socket.SOCK_DGRAM)
            self._sockets[family].setblocking(False)
        return self._sockets[family]

    def _read(self) -> None:
        assert self._receiving is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._receiving)
        self._rest = loop.call_later(_REST_S, self._read_again)
        news = News()
        for _ in range(READ_AT_ONCE):
            try:
                sealed = self._receiving.recv(_SEALED_BYTES + 1)
            except BlockingIOError:
                break
            except OSError:  # what was sent from this socket could not be delivered
                continue
            self._open(sealed, news)
        if news:
            self._listener(news)

    def _read_again(self) -> None:
        self._rest = None
        if self._receiving is not None:
            asyncio.get_running_loop().add_reader(self._receiving, self._read)

    def _open(self, sealed: bytes, news: News) -> None:
        try:
            text = self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _BOUND)
        except (InvalidTag, ValueError):
            self.refused += 1
        else:
            self.heard += 1
            news.hear(text)
