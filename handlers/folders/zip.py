"""Reads a zip archive by its central directory: stored and deflated files, no encryption, no 64-bit sizes.

Not the `zipfile` of the standard library: that builds an object for every entry that the directory claims before any
limit can be looked at, and takes entries that share their bytes.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from handlers.errors import InvalidHandlerError
from handlers.folders.limits import PIECE_BYTES, RATIO, FolderLimits
from handlers.folders.member import Member
from handlers.folders.names import FIELD, refuse
from vocabulary.sizes import MIB

_END: Final = struct.Struct("<4s4H2LH")
_ENTRY: Final = struct.Struct("<4s6H3L5H2L")
_LOCAL: Final = struct.Struct("<4s5H3L2H")
_COMMENT_BYTES: Final = 1 << 16
_STORED, _DEFLATED = 0, 8
_ENCRYPTED, _UTF8 = 0x1, 0x800
_FILE_KIND, _FOLDER_KIND, _KIND = 0o100000, 0o040000, 0o170000


class _Entry(NamedTuple):
    name: str
    method: int
    crc: int
    packed_bytes: int
    size_bytes: int
    mode: int
    start: int  # of its data


def zip_members(packed: bytes, limits: FolderLimits) -> Iterator[Member]:
    """Raises InvalidHandlerError for what is no zip, or is damaged, or has something else than files and folders."""
    entries = _directory(packed, limits)
    _refuse_overlaps(entries)
    total = sum(entry.size_bytes for entry in entries)
    if total > max(MIB, RATIO * len(packed)):
        raise InvalidHandlerError(FIELD, f"claim to be {total // max(len(packed), 1)} times as large as their archive")
    for entry in entries:
        is_folder = entry.name.endswith("/")
        if entry.mode & _KIND not in (0, _FOLDER_KIND if is_folder else _FILE_KIND):
            raise refuse(entry.name, "is a link or a device: only files and folders are taken")
        size_bytes = 0 if is_folder else entry.size_bytes
        pieces = iter(()) if is_folder else _pieces(packed, entry)
        yield Member(entry.name, is_folder, size_bytes, bool(entry.mode & 0o100), pieces)


def _directory(packed: bytes, limits: FolderLimits) -> list[_Entry]:
    at = packed.rfind(b"PK\5\6", max(0, len(packed) - _COMMENT_BYTES - _END.size))
    if at < 0 or at + _END.size > len(packed):
        raise InvalidHandlerError(FIELD, "are not a zip archive, or it ends too early")
    _, disk, first_disk, here, count, size, start, _ = _END.unpack_from(packed, at)
    if disk or first_disk or here != count or start + size > at:
        raise InvalidHandlerError(FIELD, "are a zip archive in several parts, or damaged: pack one plain archive")
    if count > 2 * limits.files:
        raise InvalidHandlerError(FIELD, f"are {count} entries, at most {limits.files} files are taken")
    entries: list[_Entry] = []
    place = start
    for _ in range(count):
        entry, place = _entry(packed, place, start + size)
        entries.append(entry)
    return entries


def _entry(packed: bytes, place: int, end: int) -> tuple[_Entry, int]:
    if place + _ENTRY.size > end:
        raise _damaged("the directory ends too early")
    fields = _ENTRY.unpack_from(packed, place)
    magic, made_by, flags, method, crc = fields[0], fields[1], fields[3], fields[4], fields[7]
    packed_bytes, size_bytes, name_bytes, extra_bytes, comment_bytes = fields[8:13]
    attributes, header = fields[-2], fields[-1]
    after = place + _ENTRY.size + name_bytes
    if magic != b"PK\1\2" or after > end:
        raise _damaged("an entry of the directory cannot be read")
    name = _name(packed[place + _ENTRY.size : after], is_utf8=bool(flags & _UTF8))
    if flags & _ENCRYPTED:
        raise refuse(name, "is encrypted: pack it without a password")
    if method not in (_STORED, _DEFLATED):
        raise refuse(name, f"is packed with method {method}: use deflate, or store it")
    mode = attributes >> 16 if made_by >> 8 == 3 else 0  # made on Unix: the other systems have no modes
    start = _data_start(packed, header, name)
    if start + packed_bytes > len(packed):
        raise _damaged(f"the data of {name[:80]!r} lies outside of it")
    entry = _Entry(name, method, crc, packed_bytes, size_bytes, mode, start)
    return entry, after + extra_bytes + comment_bytes


def _data_start(packed: bytes, header: int, name: str) -> int:
    if header + _LOCAL.size > len(packed) or packed[header : header + 4] != b"PK\3\4":
        raise _damaged(f"{name[:80]!r} is not where the directory says")
    name_bytes, extra_bytes = _LOCAL.unpack_from(packed, header)[-2:]
    return header + _LOCAL.size + int(name_bytes) + int(extra_bytes)


def _name(raw: bytes, *, is_utf8: bool) -> str:
    try:
        return raw.decode("utf-8" if is_utf8 else "ascii")
    except UnicodeDecodeError:
        raise refuse(raw.decode("ascii", "backslashreplace"), "is not marked as a name in UTF-8") from None


def _refuse_overlaps(entries: list[_Entry]) -> None:
    """Files that share their packed bytes can be as large together as nothing that was sent."""
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.start):
        if entry.start < end:
            raise refuse(entry.name, "shares its bytes with another file of the archive")
        end = max(end, entry.start + entry.packed_bytes)


def _pieces(packed: bytes, entry: _Entry) -> Iterator[bytes]:
    data = memoryview(packed)[entry.start : entry.start + entry.packed_bytes]
    size_bytes = crc = 0
    for piece in _stored(data) if entry.method == _STORED else _inflated(data, entry.name):
        size_bytes += len(piece)
        crc = zlib.crc32(piece, crc)
        if size_bytes > entry.size_bytes:
            break
        yield piece
    if size_bytes != entry.size_bytes or crc != entry.crc:
        raise _damaged(f"{entry.name[:80]!r} is not what the directory says")


def _stored(data: memoryview) -> Iterator[bytes]:
    for at in range(0, len(data), PIECE_BYTES):
        yield bytes(data[at : at + PIECE_BYTES])


def _inflated(data: memoryview, name: str) -> Iterator[bytes]:
    """In pieces of PIECE_BYTES, but for the last."""
    unpack = zlib.decompressobj(-zlib.MAX_WBITS)
    rest: bytes | memoryview = data
    ready = bytearray()
    while not unpack.eof:
        try:
            more = unpack.decompress(rest, PIECE_BYTES - len(ready))
        except zlib.error as error:
            raise _damaged(f"{name[:80]!r}: {error}") from None
        rest = unpack.unconsumed_tail
        if not more and not rest and not unpack.eof:
            raise _damaged(f"{name[:80]!r} ends too early")
        ready += more
        if len(ready) == PIECE_BYTES:
            yield bytes(ready)
            ready.clear()
    if ready:
        yield bytes(ready)


def _damaged(what: str) -> InvalidHandlerError:
    return InvalidHandlerError(FIELD, f"are a damaged zip archive: {what}")
