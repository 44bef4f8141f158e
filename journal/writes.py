"""The way into the journal: lines that are checked become a write, writes become batches, batches become frames.

A write is checked by whoever makes it (its lines in payloads.py), so that what reaches the writer is legal. It is laid
out by the writer, which sees all writes that share a sync: short ones of the same kind, one after the other, become one
batch. A batch costs a header and a checksum, which is more than a line costs, and most requests bring a single line.
"""

import re
from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote
from zlib import crc32

from journal.errors import InvalidWrite, LimitExceeded
from journal.format import NO_ATTRIBUTES, SECTOR_BYTES, Record, end_line, to_records
from journal.ids import IdRange, LateTexts, texts_of
from journal.payloads import Payloads
from vocabulary.names import is_jobtype
from vocabulary.time_text import iso_time

_ATTRIBUTE: Final = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)
_OWN_ATTRIBUTES: Final = frozenset({"date", "bytes", "lines", "jobtype", "enc", "notes", "pad", "sync", "crc"})
_ATTRIBUTES_LIMIT: Final = 3072
_ENCODED: Final = b",enc=b64"
_NOTED: Final = b",notes=1"
_NOTES: Final = re.compile(r"(?:[ -{}~]{1,220}\n)+", re.ASCII)
"""Each with its end. Longer ones could make a batch larger than the format's `BODY_LIMIT`."""
_COUNTER_DIGITS: Final = 6
_MERGED_BYTES: Final = 16 << 10
"""Writes become one batch up to this size: a damaged sector costs all lines of its batch."""

_T = TypeVar("_T")


class Write(NamedTuple):
    """Lines that are legal, and the ids that they get."""

    id_range: IdRange
    ids: list[str] | LateTexts
    jobtype: str
    payloads: Sequence[bytes]
    attributes: Mapping[str, str]
    suffix: bytes
    """What the batch's header says of its lines: their encoding, whether they have notes, and the attributes."""
    size_bytes: int
    """Of the lines as they are stored."""
    made_ms: int
    notes: Sequence[str] = ()
    """What is said of each line; empty if nothing is."""

    @property
    def is_encoded(self) -> bool:
        return self.suffix.startswith(_ENCODED)

    def is_like(self, other: "Write") -> bool:
        return self.jobtype == other.jobtype and self.suffix == other.suffix


class Batch(NamedTuple):
    """Writes laid out together, to be framed into whichever segment is open."""

    head: bytes
    body: bytes
    writes: Sequence[Write]
    lines: int

    def records(self, begin: int, end: int) -> list[Record]:
        """Some of the lines, as a reader of the frame would get them."""
        first = self.writes[0]
        ids = _joined([write.ids for write in self.writes])
        payloads = _joined([write.payloads for write in self.writes])
        notes = _joined([write.notes for write in self.writes])
        return to_records(ids[begin:end], first.jobtype, payloads[begin:end], first.attributes, notes[begin:end])


def make_write(
    ids: IdRange,
    jobtype: str,
    payloads: Payloads,
    attributes: Mapping[str, str],
    now_ms: int,
    notes: Sequence[str] = (),
) -> Write:
    """Raises InvalidWrite or LimitExceeded."""
    lines, size_bytes, encoded_bytes = payloads
    size = len(lines)
    suffix, stored_bytes = (_ENCODED, encoded_bytes) if encoded_bytes else (b"", size_bytes + size)
    stored_bytes += size * (len(ids.prefix) + _COUNTER_DIGITS + len(jobtype) + 2)
    if notes:
        suffix += _NOTED
        stored_bytes += _notes_bytes(notes, size)
    if attributes:
        suffix += _encode_attributes(attributes)
        attributes = MappingProxyType(dict(attributes))
    attributes = attributes or NO_ATTRIBUTES
    return Write(ids, texts_of(ids), jobtype, lines, attributes, suffix, stored_bytes, now_ms, notes)


def _notes_bytes(notes: Sequence[str], lines: int) -> int:
    """What they take beside their lines, each with the bar behind it."""
    text = "\n".join(notes) + "\n"
    if len(notes) != lines or text.count("\n") != lines or _NOTES.fullmatch(text) is None:
        raise InvalidWrite("each line needs a note of its own: 1 to 220 printable ASCII characters, and no |")
    return len(text)


def lay_out(writes: Sequence[Write]) -> list[Batch]:
    """The batches of these writes, in their order."""
    batches: list[Batch] = []
    run = [writes[0]]
    size_bytes = writes[0].size_bytes
    for write in writes[1:]:
        size_bytes += write.size_bytes
        if size_bytes > _MERGED_BYTES or not write.is_like(run[0]):
            batches.append(_batch(run))
            run, size_bytes = [], write.size_bytes
        run.append(write)
    batches.append(_batch(run))
    return batches


def _batch(writes: list[Write]) -> Batch:
    first = writes[0]
    payloads = _joined([write.payloads for write in writes])
    if first.is_encoded:
        payloads = [b2a_base64(payload, newline=False) for payload in payloads]
    if first.notes:
        notes = _joined([write.notes for write in writes])
        payloads = [b"%b|%b" % (note.encode(), payload) for note, payload in zip(notes, payloads, strict=True)]
    body = _encode_lines([write.id_range for write in writes], b"|%b|" % first.jobtype.encode(), payloads)
    head = b"#:Batch date=%b,bytes=%d,lines=%d,jobtype=%b%b" % (
        iso_time(first.made_ms).encode(),
        len(body),
        len(payloads),
        first.jobtype.encode(),
        first.suffix,
    )
    return Batch(head, body, writes, len(payloads))


def _joined(parts: Sequence[Sequence[_T]]) -> Sequence[_T]:
    return parts[0] if len(parts) == 1 else list(chain.from_iterable(parts))


def _encode_lines(ids: Sequence[IdRange], infix: bytes, lines: Sequence[bytes]) -> bytes:
    """Interleave ids and lines by whole slices: the same bytes as a loop would give, at a third of its time."""
    parts: list[bytes] = [infix] * (4 * len(lines))
    at = 0
    for stem, digits in chain.from_iterable([each.pieces() for each in ids]):
        end = at + 4 * len(digits)
        parts[at:end:4] = [b"\n" + stem] * len(digits)
        parts[at + 1 : end : 4] = digits
        at = end
    parts[3::4] = lines
    parts[0] = parts[0][1:]
    parts.append(b"\n")
    return b"".join(parts)


def frame_batches(batches: Sequence[Batch], sync: int, salt: int) -> bytes:
    """The frames of the batches that share one sync, to be written at offset `sync`, up to the end of a sector."""
    last = batches[-1]
    padding = frame_sizes(batches, sync)[-1] - _around_bytes(sync) - len(last.head) - len(last.body)
    pads = [0] * (len(batches) - 1) + [padding]
    return b"".join(
        part for batch, pad in zip(batches, pads, strict=True) for part in _frame_parts(batch, pad, sync, salt)
    )


def frame_sizes(batches: Sequence[Batch], sync: int) -> list[int]:
    """How long each frame is; the last one with what fills its sector."""
    around_bytes = _around_bytes(sync)
    sizes = [len(batch.head) + len(batch.body) + around_bytes for batch in batches]
    sizes[-1] += -(sync + sum(sizes)) % SECTOR_BYTES
    return sizes


def _around_bytes(sync: int) -> int:
    """What a frame has beside its batch's head and body, without padding."""
    return len(b",pad=000,sync=%d,crc=00000000\n" % sync) + len(end_line(0))


def _frame_parts(batch: Batch, pad: int, sync: int, salt: int) -> tuple[bytes, bytes, bytes]:
    head = b"%b,pad=%03d,sync=%d" % (batch.head, pad, sync)
    return b"%b,crc=%08x\n" % (head, crc32(batch.body, crc32(head, salt))), batch.body, end_line(pad)


@lru_cache(maxsize=4096)
def check_jobtype(jobtype: str) -> None:
    if not is_jobtype(jobtype):
        raise InvalidWrite(
            f"jobtype {jobtype[:200]!r} is not tenant-type: the tenant is 1 to 32 of a-z, 0-9 and _, the type 1 to 127"
            " of A-Z, a-z, 0-9, _, ., : and -, each beginning with a letter or digit"
        )


def _encode_attributes(attributes: Mapping[str, str]) -> bytes:
    for name in attributes:
        if not _ATTRIBUTE.fullmatch(name) or name in _OWN_ATTRIBUTES:
            raise InvalidWrite(
                f"batch attribute {name[:64]!r} must be 1 to 32 of a-z, 0-9 and _, and not one of "
                + ", ".join(sorted(_OWN_ATTRIBUTES))
            )
    text = _quoted(attributes)
    if len(text) > _ATTRIBUTES_LIMIT:
        raise LimitExceeded("the batch attributes' size in bytes", len(text), "attributes", _ATTRIBUTES_LIMIT)
    return text.encode()


def do_attributes_fit(attributes: Mapping[str, str]) -> bool:
    """Whether the header of a batch has room for them: for callers that have another way for lines with longer ones."""
    return len(_quoted(attributes)) <= _ATTRIBUTES_LIMIT


def _quoted(attributes: Mapping[str, str]) -> str:
    return "".join(f",{name}={quote(value, safe=' :+/', errors='surrogatepass')}" for name, value in attributes.items())
