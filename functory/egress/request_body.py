"""Where the body of a request ends, so that nothing goes on that a server could take for a second request. Pure.

A body is fed in pieces of any size and holds none of them: it remembers how far it has come, and at most the line that
has begun.
"""

from typing import Final, Protocol

_MAX_LINE: Final = 256
_MAX_TRAILERS: Final = 4096
_MAX_SIZE_DIGITS: Final = 15
_MOST_PIECES: Final = 256
"""In one go: they take a millisecond."""
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")


class BadBody(Exception):
    """It is not what its head announced."""


class RequestBody(Protocol):
    @property
    def is_over(self) -> bool: ...

    @property
    def pieces(self) -> int:
        """How many parts of it have begun: each takes time, however small it is."""

    def take(self, data: bytes) -> int:
        """How many of these bytes belong to it. Those after them are not its own, if it is over; else they are to be
        given again: only so many pieces are looked at in one go. Raises BadBody."""


class SizedBody:
    """`Content-Length`."""

    pieces = 0

    def __init__(self, size_bytes: int) -> None:
        self._left = size_bytes

    @property
    def is_over(self) -> bool:
        return self._left == 0

    def take(self, data: bytes) -> int:
        taken = min(len(data), self._left)
        self._left -= taken
        return taken


class ChunkedBody:
    """`Transfer-Encoding: chunked`, read strictly: sizes in hex, CR LF after every line and chunk."""

    def __init__(self) -> None:
        self._left = 0  # of the chunk, with the CR LF that ends it
        self._line = bytearray()
        self._trailers: int | None = None  # bytes of them so far, once the last chunk was seen
        self.is_over = False
        self.pieces = 0

    def take(self, data: bytes) -> int:
        at, most = 0, self.pieces + _MOST_PIECES
        while at < len(data) and not self.is_over and self.pieces < most:
            at += self._skip(data, at) if self._left else self._read_line(data, at)
        return at

    def _skip(self, data: bytes, at: int) -> int:
        count = min(self._left, len(data) - at)
        for offset, expected in ((2, 13), (1, 10)):  # the two bytes that end the chunk
            place = at + self._left - offset
            if at <= place < at + count and data[place] != expected:
                raise BadBody("a chunk does not end where its size says")
        self._left -= count
        return count

    def _read_line(self, data: bytes, at: int) -> int:
        end = data.find(b"\n", at, at + _MAX_LINE)
        piece = data[at : end + 1] if end >= 0 else data[at : at + _MAX_LINE]
        self._line += piece
        if len(self._line) > _MAX_LINE:
            raise BadBody("a line between chunks is too long")
        if end >= 0:
            line, self._line = bytes(self._line), bytearray()
            if not line.endswith(b"\r\n"):
                raise BadBody("a line between chunks does not end with CR LF")
            self._line_read(line[:-2])
        return len(piece)

    def _line_read(self, line: bytes) -> None:
        if self._trailers is not None:
            self._trailers += len(line)
            if self._trailers > _MAX_TRAILERS:
                raise BadBody("there are too many trailers")
            self.is_over = not line
            return
        size = line.partition(b";")[0].rstrip(b" \t")
        if not 0 < len(size) <= _MAX_SIZE_DIGITS or not _HEX.issuperset(size):
            raise BadBody("the size of a chunk is not a number")
        number = int(size, 16)
        self.pieces += 1
        if number:
            self._left = number + 2
        else:
            self._trailers = 0
