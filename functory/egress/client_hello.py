"""The name that a TLS client asks for, which it sends in clear before anything is encrypted. Pure.

A tunnel to one host must not be used to ask its server for another: many hosts share an address.

Ensures: every byte is looked at once, however many arrivals and records a ClientHello comes in. One that is too long,
or in too many records, is not waited for.
"""

from typing import Final

MOST_BYTES: Final = 16 * 1024
"""Of a ClientHello. Those of browsers have about 2 KB, with keys that quantum computers cannot break."""
MOST_RECORDS: Final = 64
"""That a ClientHello comes in. Clients need one, and some cut it into a few."""

_HANDSHAKE: Final = 0x16
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0
_HOST_NAME: Final = 0
_RECORD_HEAD: Final = 5
_MESSAGE_HEAD: Final = 4
_MOST_RECORD_BYTES: Final = 16 * 1024


class NotReadable(Exception):
    """It begins as TLS and does not go on so."""


def is_tls(data: bytes) -> bool:
    return data[:1] == bytes([_HANDSHAKE])


class ClientHello:
    """A ClientHello while it arrives."""

    def __init__(self) -> None:
        self._head = bytearray()  # of the record that begins
        self._left = 0  # bytes of the record that are still to come
        self._records = 0
        self._message = bytearray()

    def take(self, data: bytes) -> bool:
        """The next bytes. Returns whether it is whole. Raises NotReadable."""
        at = 0
        while at < len(data) and not self._is_whole:
            if self._left:
                piece = data[at : at + self._left]
                self._message += piece
                self._left -= len(piece)
                self._check_message()
            else:
                piece = data[at : at + _RECORD_HEAD - len(self._head)]
                self._head += piece
                self._check_head()
            at += len(piece)
        return self._is_whole

    def server_name(self) -> str | None:
        """The name in lower case, once it is whole; None if none is asked for. Raises NotReadable."""
        hello = _Reader(bytes(self._message[_MESSAGE_HEAD : self._size]))
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

    @property
    def _size(self) -> int:
        """With its head, which must have arrived."""
        return _MESSAGE_HEAD + int.from_bytes(self._message[1:_MESSAGE_HEAD], "big")

    @property
    def _is_whole(self) -> bool:
        return len(self._message) >= _MESSAGE_HEAD and len(self._message) >= self._size

    def _check_message(self) -> None:
        if self._message[0] != _CLIENT_HELLO:
            raise NotReadable("it does not begin with a ClientHello")
        if len(self._message) >= _MESSAGE_HEAD and self._size > MOST_BYTES:
            raise NotReadable(f"its ClientHello is longer than {MOST_BYTES} bytes")

    def _check_head(self) -> None:
        """Of a record; it may have arrived in part."""
        if self._head[0] != _HANDSHAKE:
            raise NotReadable("its ClientHello is broken off")
        if len(self._head) < _RECORD_HEAD:
            return
        self._left = int.from_bytes(self._head[3:], "big")
        self._head.clear()
        self._records += 1
        if self._left == 0:
            raise NotReadable("it has an empty record")
        if self._left > _MOST_RECORD_BYTES:
            raise NotReadable("it has a record that is too long")
        if self._records > MOST_RECORDS:
            raise NotReadable(f"its ClientHello comes in more than {MOST_RECORDS} records")


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
