"""What a build sends, read from its pipe: frames of a kind, a name and a content. Hostile input, like all that a
context says: names and contents are bounded before they are read.

Blocking: for a thread. It ends when the build is killed, because then the pipe ends.
"""

import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from runner.errors import ProtocolError

_HEAD: Final = struct.Struct("<cHQ")
FILE: Final = b"F"
TEXT: Final = b"T"
END: Final = b"E"
FAILED: Final = b"X"
_KINDS: Final = {FILE, TEXT, END, FAILED}
_CHUNK: Final = 1 << 18
_MAX_NAME_BYTES: Final = 1024
MAX_TEXT_BYTES: Final = 4 << 20


class Frame(NamedTuple):
    kind: bytes
    name: str
    size_bytes: int


class FrameReader:
    """After each frame its content is to be read: `text`, or all of `parts`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def next(self) -> Frame:
        """Raises EOFError when the build ended before its last frame, ProtocolError for what is no frame."""
        kind, name_bytes, size_bytes = _HEAD.unpack(self._read(_HEAD.size))
        if kind not in _KINDS or name_bytes > _MAX_NAME_BYTES:
            raise ProtocolError("sent what is no frame")
        return Frame(kind, self._read(name_bytes).decode("utf-8", "surrogateescape"), size_bytes)

    def text(self, frame: Frame) -> str:
        if frame.size_bytes > MAX_TEXT_BYTES:
            raise ProtocolError("sent a text that is too long")
        return self._read(frame.size_bytes).decode("utf-8", "replace")

    def parts(self, frame: Frame) -> Iterator[bytes]:
        left = frame.size_bytes
        while left:
            part = self._read(min(left, _CHUNK))
            left -= len(part)
            yield part

    def _read(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = os.read(self._fd, min(count - len(parts), _CHUNK))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)
