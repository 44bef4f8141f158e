"""The name that a TLS client asks for, which it sends in clear before anything is encrypted. Pure.

A tunnel to one host must not be used to ask its server for another: many hosts share an address.
"""

from typing import Final

MAX_BYTES: Final = 20 * 1024
"""A ClientHello that is longer is not waited for."""

_HANDSHAKE: Final = 0x16
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0
_HOST_NAME: Final = 0
_RECORD_HEAD: Final = 5


class MoreNeeded(Exception):
    """The ClientHello has not arrived in full."""


class NotReadable(Exception):
    """It begins as TLS and does not go on so."""


def is_tls(data: bytes) -> bool:
    return data[:1] == bytes([_HANDSHAKE])


def server_name(data: bytes) -> str | None:
    """The name in lower case; None if none is asked for. Raises MoreNeeded, NotReadable."""
    hello = _Reader(_handshake(data))
    hello.skip(2 + 32)  # version, random
    hello.skip(hello.number(1))  # session
    hello.skip(hello.number(2))  # ciphers
    hello.skip(hello.number(1))  # compressions
    if hello.is_at_end:
        return None
    extensions = _Reader(hello.take(hello.number(2)))
    while not extensions.is_at_end:
        kind = extensions.number(2)
        content = extensions.take(extensions.number(2))
        if kind == _SERVER_NAME:
            return _name_in(content)
    return None


def _name_in(content: bytes) -> str | None:
    names = _Reader(_Reader(content).rest_after_length())
    while not names.is_at_end:
        kind = names.number(1)
        name = names.take(names.number(2))
        if kind == _HOST_NAME:
            try:
                return name.decode("ascii").lower().removesuffix(".")
            except UnicodeDecodeError as error:
                raise NotReadable("its name is not ASCII") from error
    return None


def _handshake(data: bytes) -> bytes:
    """The body of the ClientHello, which may come in several records."""
    body = bytearray()
    at = 0
    while True:
        if len(body) >= 4:
            if body[0] != _CLIENT_HELLO:
                raise NotReadable("it does not begin with a ClientHello")
            size = int.from_bytes(body[1:4], "big")
            if size > MAX_BYTES:
                raise NotReadable("its ClientHello is too long")
            if len(body) >= 4 + size:
                return bytes(body[4 : 4 + size])
        if len(data) < at + _RECORD_HEAD:
            raise MoreNeeded
        if data[at] != _HANDSHAKE:
            raise NotReadable("its ClientHello is broken off")
        length = int.from_bytes(data[at + 3 : at + 5], "big")
        if length == 0:
            raise NotReadable("it has an empty record")
        body += data[at + _RECORD_HEAD : at + _RECORD_HEAD + length]
        at += _RECORD_HEAD + length


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._data)

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise NotReadable("a length in its ClientHello is wrong")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def skip(self, count: int) -> None:
        self.take(count)

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def rest_after_length(self) -> bytes:
        return self.take(self.number(2))
