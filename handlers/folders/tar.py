"""Reads a tar archive, plain or gzipped, as it comes: what GNU tar, BSD tar, git, Python and busybox write.

Not the `tarfile` of the standard library: that takes whatever it can make sense of, and its patterns take quadratic
time over a crafted header. Here everything unusual is refused: links, devices, pipes, sparse files, long headers.
"""

import itertools
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from handlers.errors import InvalidHandlerError
from handlers.folders.limits import PIECE_BYTES, RATIO, FolderLimits
from handlers.folders.member import Member
from handlers.folders.names import FIELD, refuse
from vocabulary.sizes import MIB

_BLOCK: Final = 512
_GZIP: Final = b"\x1f\x8b"
_STEP: Final = 256 * 1024
_LONG_BYTES: Final = 16 * 1024
"""The most that a header beside a file may have: its long name, and times in fractions."""
_MOST_RECORDS: Final = 64
"""In one extended header."""
_HEADERS_PER_FILE: Final = 5
"""A file can bring a folder, and each of them a header beside it. The rest is for headers of the whole archive."""
_KINDS: Final = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a pipe",
    b"S": "a sparse file",
}


def tar_members(packed: bytes, limits: FolderLimits) -> Iterator[Member]:
    """Raises InvalidHandlerError for what is no tar, or is cut off, or has something else than files and folders."""
    stream = _Stream(packed, limits)
    long_name: str | None = None
    most_headers = _HEADERS_PER_FILE * limits.files
    for count in itertools.count(1):
        block = stream.read(_BLOCK)
        if block == bytes(_BLOCK):
            stream.finish()
            return
        if count > most_headers:
            raise InvalidHandlerError(FIELD, f"are in a tar with more than {most_headers} headers: pack it plainly")
        header = _header(block)
        if header.kind in (b"x", b"g", b"L"):
            extra = _extra(stream, header)
            if header.kind != b"g":
                long_name = _pax_path(extra) if header.kind == b"x" else _text(extra.rstrip(b"\0"))
            continue
        name, long_name = (header.name if long_name is None else long_name), None
        if header.kind not in (b"0", b"\0", b"5", b"7"):
            raise refuse(name, f"is {_KINDS.get(header.kind, 'of an unknown kind')}: only files and folders are taken")
        is_folder = header.kind == b"5" or name.endswith("/")
        pieces = stream.pieces(0 if is_folder else header.size_bytes)
        yield Member(name, is_folder, 0 if is_folder else header.size_bytes, bool(header.mode & 0o100), pieces)
        for _ in pieces:
            continue


class _Header(NamedTuple):
    name: str
    mode: int
    size_bytes: int
    kind: bytes


def _header(block: bytes) -> _Header:
    if _number(block[148:156]) != sum(block) - sum(block[148:156]) + 8 * 0x20:
        raise InvalidHandlerError(FIELD, "are not a tar archive, or it is damaged: a header has a wrong checksum")
    name = _text(block[:100].partition(b"\0")[0])
    if block[257:262] == b"ustar" and block[257:265] != b"ustar  \0" and (prefix := block[345:500].partition(b"\0")[0]):
        name = f"{_text(prefix)}/{name}"
    return _Header(name, _number(block[100:108]), _number(block[124:136]), block[156:157])


def _extra(stream: "_Stream", header: _Header) -> bytes:
    if header.size_bytes > _LONG_BYTES:
        raise InvalidHandlerError(FIELD, f"have a header of {header.size_bytes} bytes, at most {_LONG_BYTES} are taken")
    return b"".join(stream.pieces(header.size_bytes))


def _pax_path(data: bytes) -> str | None:
    """The name in an extended header; its records read `LENGTH KEY=VALUE\\n`."""
    found: str | None = None
    records = 0
    while data:
        records += 1
        if records > _MOST_RECORDS:
            raise InvalidHandlerError(FIELD, f"have an extended header with more than {_MOST_RECORDS} records")
        digits, blank, _ = data.partition(b" ")
        length = int(digits) if digits.isdigit() and len(digits) < 6 else 0
        record = data[len(digits) + 1 : length]
        key, equals, value = record.removesuffix(b"\n").partition(b"=")
        if not blank or not equals or len(data) < length or not record.endswith(b"\n"):
            raise InvalidHandlerError(FIELD, "are a damaged tar archive: an extended header cannot be read")
        if key == b"path":
            found = _text(value)
        elif key in (b"size", b"linkpath") or key.startswith(b"GNU.sparse"):
            raise InvalidHandlerError(FIELD, f"have an extended header with {_text(key)}: pack plain files")
        data = data[length:]
    return found


def _number(field: bytes) -> int:
    text = field.strip(b" \0")
    if not all(char in b"01234567" for char in text):
        raise InvalidHandlerError(FIELD, "are not a tar archive, or it is damaged: a header has no number in its place")
    return int(text or b"0", 8)


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise refuse(name.decode("utf-8", "backslashreplace"), "is not a name in UTF-8") from None


class _Stream:
    """The archive's bytes, unpacked as they are read, and not more of them than the limits allow."""

    def __init__(self, packed: bytes, limits: FolderLimits) -> None:
        self._packed = memoryview(packed)
        self._unpack = zlib.decompressobj(zlib.MAX_WBITS | 16) if packed[:2] == _GZIP else None
        self._most = min(limits.unpacked_bytes + 3 * _BLOCK * limits.files + MIB, max(MIB, RATIO * len(packed)))
        self._ready = bytearray()
        self._seen = 0

    def read(self, size: int) -> bytes:
        while len(self._ready) < size:
            more = self._more()
            if not more:
                raise InvalidHandlerError(FIELD, "are a tar archive that ends too early: send all of it")
            self._ready += more
        data = bytes(self._ready[:size])
        del self._ready[:size]
        return data

    def pieces(self, size_bytes: int) -> Iterator[bytes]:
        """The bytes of a file, and then the rest of its last block."""
        left = size_bytes
        while left:
            piece = self.read(min(left, PIECE_BYTES))
            left -= len(piece)
            yield piece
        self.read(-size_bytes % _BLOCK)

    def finish(self) -> None:
        """Pass over what follows the archive, up to the checksum of gzip."""
        while self._unpack is not None and not self._unpack.eof:
            if not self._more():
                raise InvalidHandlerError(FIELD, "are a gzipped archive that ends too early: send all of it")

    def _more(self) -> bytes:
        more = self._unpacked()
        self._seen += len(more)
        if self._seen > self._most:
            raise InvalidHandlerError(
                FIELD, f"unpack to more than {self._most} bytes, which this archive may not: send less"
            )
        return more

    def _unpacked(self) -> bytes:
        unpack = self._unpack
        if unpack is None:
            return self._step()
        more = b""
        while not more and not unpack.eof:
            step = unpack.unconsumed_tail or self._step()
            if not step:
                break
            try:
                more = unpack.decompress(step, _STEP)
            except zlib.error as error:
                raise InvalidHandlerError(FIELD, f"are not valid gzip: {error}") from None
        return more

    def _step(self) -> bytes:
        step, self._packed = bytes(self._packed[:_STEP]), self._packed[_STEP:]
        return step
