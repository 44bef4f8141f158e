"""The journal's text format: the segment header and the batch frame. docs/journal-format.md specifies it.

    #:Journal version=2,segment=17,date=...,sysid=a7,salt=9f3c01d2,floor=...,prev=16,prev_bytes=1048576,crc=...
    #:Batch date=...,bytes=N,lines=N,jobtype=acme-resize[,enc=b64][,notes=1][,key=value...],pad=NNN,sync=N,crc=...
    20261114T235959123Z-a7-000000|acme-resize|first payload
    20261114T235959123Z-a7-000001|acme-resize|second payload
    #:EndBatch

Ensures: what a reader takes from a frame was put there by a writer of this segment. A frame is found by its length
and believed by its checksum, never by a delimiter; the checksum covers header and lines and starts from the
segment's random salt, so neither a payload nor a stale disk block can pass for a frame.

`sync=N` says: when this frame was written, the first N bytes of the segment were on disk. A frame that does not
check out at offset X was therefore damaged after it was acknowledged if any later frame has sync > X, and was never
acknowledged otherwise. Recovery needs no guess.

`pad=NNN` spaces stand behind `#:EndBatch`: the last frame of a sync fills its sector. A power cut may ruin the sector
that is being written, so a sector that holds acknowledged bytes is never written again.
"""

import re
from binascii import a2b_base64
from collections.abc import Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import unquote
from zlib import crc32

from journal.errors import UnsupportedFormat

VERSION: Final = 2
SECTOR_BYTES: Final = 512
SEGMENT_HEADER_BYTES: Final = SECTOR_BYTES
"""Fixed, so that a segment of at most this size can be told from one that ever held a line."""
HEADER_LIMIT: Final = 4096
"""No batch header is longer, so a reader knows when it looks at something else."""
BODY_LIMIT: Final = 64 << 20
"""No batch is larger, whatever the options say: a damaged length cannot make a reader load gigabytes."""
BATCH_MARK: Final = b"#:Batch "
_END_OF_BATCH: Final = b"#:EndBatch"

_BATCH: Final = re.compile(
    rb"#:Batch date=[-0-9T:.Z]{24},bytes=(\d{1,10}),lines=(\d{1,7}),jobtype=([!-+.-~-]{3,160})(,enc=b64)?(,notes=1)?"
    rb"((?:,[a-z][a-z0-9_]*=[^,\n]*)*?),pad=(\d{3}),sync=(\d{1,15})(,crc=([0-9a-f]{8})\n)"
)
_SEGMENT: Final = re.compile(
    rb"#:Journal version=\d{1,4},segment=(\d{1,12}),date=([-0-9T:.Z]{24}),sysid=([a-z0-9]{1,8}),salt=([0-9a-f]{8}),"
    rb"floor=(\d{1,15}),prev=(\d{1,12}),prev_bytes=(\d{1,15}),crc=[0-9a-f]{8} *\n"
)
_ANY_VERSION: Final = re.compile(rb"#:Journal version=(\d{1,4}),[^\n]*(,crc=([0-9a-f]{8}) *\n)")
"""Whatever else a later version changes, its segments begin like this and end their first line with the checksum."""
NO_ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType({})


class Record(NamedTuple):
    """One line of the journal."""

    id: str
    jobtype: str
    payload: bytes
    attributes: Mapping[str, str]
    note: str = ""
    """What is said of this line alone."""

    @property
    def text(self) -> str:
        """The payload as it was written if that was a str; UnicodeDecodeError if it was other bytes."""
        return self.payload.decode("utf-8", "surrogatepass")


class Frame(NamedTuple):
    """A batch that was read back and whose checksum is right."""

    offset: int
    end: int
    sync: int
    lines: int
    jobtype: str
    is_encoded: bool
    has_notes: bool
    attributes: Mapping[str, str]
    body: bytes


class SegmentHeader(NamedTuple):
    segment: int
    date: str
    sysid: str
    salt: int
    floor_ms: int
    """Every id written before this segment carries at most this time."""
    prev: int
    """The segment before this one, 0 for none, and how much of it was acknowledged."""
    prev_bytes: int


def decode_frame(data: bytes, at: int, base: int, salt: int) -> Frame | int | None:
    """The frame that begins at `data[at]`, where `data[0]` is byte `base` of the segment.

    None when there is no good frame there; when `data` ends too early to tell, the number of bytes that are needed.
    """
    match = _BATCH.match(data, at)
    if match is None:
        return HEADER_LIMIT if len(data) - at < HEADER_LIMIT and b"\n" not in data[at:] else None
    size, lines, jobtype, encoding, notes, attributes, pad, sync, _, checksum = match.groups()
    begin = match.end()
    body_end = begin + int(size)
    end = body_end + len(_END_OF_BATCH) + int(pad) + 1
    if end > len(data):
        return end - at
    body = data[begin:body_end]
    if crc32(body, crc32(data[at : match.start(9)], salt)) != int(checksum, 16):
        return None
    if data[body_end:end] != end_line(int(pad)):
        return None
    return Frame(
        base + at,
        base + end,
        int(sync),
        int(lines),
        jobtype.decode(),
        encoding is not None,
        notes is not None,
        _decode_attributes(attributes) if attributes else NO_ATTRIBUTES,
        body,
    )


def decode_records(frame: Frame) -> list[Record]:
    """The lines of a frame. Their ids are all of one length, so the same cuts fit every line."""
    id_end = frame.body.index(b"|")
    begin = id_end + len(frame.jobtype) + 2
    lines = frame.body.split(b"\n")
    lines.pop()
    payloads = [line[begin:] for line in lines]
    notes: Sequence[str] = ()
    if frame.has_notes:
        pairs = [payload.split(b"|", 1) for payload in payloads]
        notes, payloads = [note.decode() for note, _ in pairs], [payload for _, payload in pairs]
    if frame.is_encoded:
        payloads = [a2b_base64(payload) for payload in payloads]
    ids = [line[:id_end].decode() for line in lines]
    return to_records(ids, frame.jobtype, payloads, frame.attributes, notes)


def to_records(
    ids: Sequence[str],
    jobtype: str,
    payloads: Sequence[bytes],
    attributes: Mapping[str, str],
    notes: Sequence[str] = (),
) -> list[Record]:
    """notes: one for each line, or none."""
    if notes:
        return list(map(Record, ids, repeat(jobtype), payloads, repeat(attributes), notes))
    return list(map(Record, ids, repeat(jobtype), payloads, repeat(attributes)))


def end_line(pad: int) -> bytes:
    """The last line of a frame."""
    return _END_OF_BATCH + b" " * pad + b"\n"


def encode_segment_header(header: SegmentHeader) -> bytes:
    text = (
        f"#:Journal version={VERSION},segment={header.segment},date={header.date},sysid={header.sysid},"
        f"salt={header.salt:08x},floor={header.floor_ms},prev={header.prev},prev_bytes={header.prev_bytes}"
    ).encode()
    return (b"%b,crc=%08x" % (text, crc32(text))).ljust(SEGMENT_HEADER_BYTES - 1) + b"\n"


def decode_segment_header(data: bytes) -> SegmentHeader | None:
    """The header in the first bytes of a segment; None when it is damaged."""
    any_version = _ANY_VERSION.match(data)
    if any_version is None or crc32(data[: any_version.start(2)]) != int(any_version[3], 16):
        return None
    version = int(any_version[1])
    if version > VERSION:
        raise UnsupportedFormat(f"the segment has format version {version}; this program reads {VERSION}: upgrade it")
    match = _SEGMENT.fullmatch(data)
    if match is None:
        return None
    segment, date, sysid, salt, floor_ms, prev, prev_bytes = match.groups()
    return SegmentHeader(
        int(segment), date.decode(), sysid.decode(), int(salt, 16), int(floor_ms), int(prev), int(prev_bytes)
    )


def _decode_attributes(text: bytes) -> Mapping[str, str]:
    pairs = (pair.split("=", 1) for pair in text.decode().split(",")[1:])
    return MappingProxyType({name: unquote(value, errors="surrogatepass") for name, value in pairs})
