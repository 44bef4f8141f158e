"""The messages between the daemon and a context, as bytes. docs/runner-protocol.md is the page for both
sides.

Owns the formats and their bounds; does no I/O. Requests are ours and trusted by the child; replies are
hostile: the tenant's code lives in the process that writes them. `ReplyParser` takes any bytes and returns
whole replies within the bounds, up to the first that is none; it never holds more than one bounded reply that
is incomplete.
"""

import json
import re
import struct
from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol

from runner.errors import ProtocolError
from vocabulary.names import is_type
from vocabulary.new_job import NewJob
from vocabulary.origin import origin_of

VERSION: Final = 1

LOAD: Final = 1
BATCH: Final = 2
CHECK: Final = 3

HELLO: Final = 1
LOADED: Final = 2
REFUSED: Final = 3
BEGUN: Final = 4
STOPPED: Final = 5
ENDED: Final = 6
FAILED: Final = 7
LEAVING: Final = 8
PROGRESS: Final = 9

_REQUEST: Final = struct.Struct("<IHH")  # length, kind, slot
_REPLY: Final = struct.Struct("<IBBHII")  # length, kind, 0, code, index, duration_us
_DETAIL: Final = struct.Struct("<IIIII")  # result bytes, log bytes, log bytes dropped, retry after ms, new jobs
_NO_DELAY: Final = 0xFFFFFFFF
_REPLY_BYTES: Final = _REPLY.size
_LENGTH_BYTES: Final = 4
_MANY_BYTES: Final = 16 * _REPLY_BYTES
"""Of replies that are worth a look at all of them together."""
_KINDS: Final = frozenset(range(HELLO, PROGRESS + 1))
_TEXT_BYTES: Final = 128 * 1024
"""Of a reply that carries no more than an error text."""
_ID_OF, _DATA_OF, _ATTEMPTS_OF, _OPTIONS_OF = map(attrgetter, ("id", "data", "attempts", "options"))
_OPTIONS: Final = re.compile(rb"[!-~]{0,2000}")
"""Of a new job. What they mean is the caller's business."""


class BatchJob(Protocol):
    """What the runner needs to know of a job; the store's Job fits."""

    @property
    def id(self) -> str: ...
    @property
    def data(self) -> bytes: ...
    @property
    def attempts(self) -> int: ...
    @property
    def options(self) -> str: ...


class ParentJob(NamedTuple):
    """A job that is told of its children: JSON, as the context takes it. It is a batch of its own."""

    id: str
    data: bytes
    attempts: int
    children: bytes
    options: str = ""


class Reply(NamedTuple):
    kind: int
    code: int
    number: int  # which job, slot or batch
    duration_us: int
    body: bytes


ReplyRow = tuple[int, int, int, int, bytes]
"""The fields of a Reply, which thousands of them a second are not worth naming one by one."""


class Detail(NamedTuple):
    """What a stopped job left beside its code."""

    result: bytes = b""
    log: bytes = b""
    log_dropped: int = 0
    retry_after_ms: int | None = None
    new_jobs: tuple[NewJob, ...] = ()
    carried: bytes | None = None
    """The payload of its next attempt or round, if it said one."""


NO_DETAIL: Final = Detail()


def encode_load(kind: int, slot: int, spec: Mapping[str, Any], attachment: bytes = b"") -> bytes:
    """LOAD or CHECK: `spec` as JSON and, for languages that want it, bytes that belong to it."""
    text = json.dumps({"protocol": VERSION, **spec}).encode()
    size = 4 + len(text) + len(attachment)
    return b"".join((_REQUEST.pack(size, kind, slot), struct.pack("<I", len(text)), text, attachment))


def encode_batch(slot: int, number: int, jobs: Sequence[BatchJob]) -> bytes:
    """BATCH: all sizes, all attempts, all ids, all payloads, so that both sides pack and unpack in bulk. Then what a
    single job is told of its children. Behind its id stands which job it follows."""
    count = len(jobs)
    children = jobs[0].children if isinstance(jobs[0], ParentJob) else b""
    names = map(_with_origin, jobs) if any(map(_OPTIONS_OF, jobs)) else map(_ID_OF, jobs)
    ids = "\n".join(names).encode()
    payloads = list(map(_DATA_OF, jobs))
    lengths, attempts = map(len, payloads), map(_ATTEMPTS_OF, jobs)
    words = struct.pack(f"<{2 + 2 * count + 1}I", number, count, *lengths, *attempts, len(ids))
    body = b"".join((words, ids, *payloads, children))
    return _REQUEST.pack(len(body), BATCH, slot) + body


def _with_origin(job: BatchJob) -> str:
    origin = origin_of(job.options)
    return " ".join((job.id, *origin)) if origin else job.id


class ReplyParser:
    """Bytes in, whole replies out.

    `wrong` is what the first of the others was; those before it count, however the bytes were cut, and none after it.
    """

    def __init__(self, max_body_bytes: int) -> None:
        self.max_body_bytes = max_body_bytes  # of STOPPED
        self.max_code_bytes = 0  # of LOADED
        self.wrong: ProtocolError | None = None
        self._rest = bytearray()
        self.held_bytes = 0
        """Of a reply that is not whole."""
        self._wanted = _REPLY_BYTES

    def feed(self, data: bytes) -> list[ReplyRow]:
        """The replies that `data` completes."""
        if self.wrong is not None:
            return []
        buffer: bytes | bytearray = data
        if self._rest:
            self._rest += data
            self.held_bytes = len(self._rest)
            if len(self._rest) < self._wanted:  # a big reply on its way: do not look at it again and again
                return []
            buffer = self._rest
        self._wanted = _REPLY_BYTES
        is_many = len(buffer) >= _MANY_BYTES
        replies, end = (is_many and _bulk_replies(buffer)) or self._one_by_one(buffer)
        self._rest = bytearray(buffer[end:])
        self.held_bytes = len(self._rest)
        return replies

    @property
    def missing_bytes(self) -> int:
        """Of a reply that is not whole, as far as is known; at least 1."""
        return max(self._wanted - len(self._rest), 1)

    def _limit(self, kind: int) -> int:
        if kind == STOPPED:
            return self.max_body_bytes
        return max(self.max_code_bytes if kind == LOADED else 0, min(_TEXT_BYTES, self.max_body_bytes))

    def _one_by_one(self, buffer: bytes | bytearray) -> tuple[list[ReplyRow], int]:
        """Whole replies, and where what is to be kept begins: one that is not whole, nothing that is wrong."""
        replies: list[ReplyRow] = []
        at, end, size = 0, len(buffer), _REPLY_BYTES
        while end - at >= size:
            length, kind, zero, code, number, duration_us = _REPLY.unpack_from(buffer, at)
            if zero or kind not in _KINDS:
                self.wrong = ProtocolError(f"sent a message of unknown kind {kind}")
                return replies, end
            if length and length > (limit := self._limit(kind)):
                self.wrong = ProtocolError(f"announced a message of {length} bytes, the limit is {limit}")
                return replies, end
            if at + size + length > end:
                self._wanted = size + length
                break
            replies.append((kind, code, number, duration_us, bytes(buffer[at + size : at + size + length])))
            at += size + length
        return replies, at


def _bulk_replies(buffer: bytes | bytearray) -> tuple[list[ReplyRow], int] | None:
    """The same for many replies of which none says more than that a job stopped: then they are all of one size, as
    nearly always. None: they are to be looked at one by one."""
    end = len(buffer) // _REPLY_BYTES * _REPLY_BYTES
    if any(buffer[at:end:_REPLY_BYTES].strip(b"\0") for at in range(_LENGTH_BYTES)):
        return None
    _, kinds, zeros, codes, numbers, durations_us = zip(*_REPLY.iter_unpack(buffer[:end]), strict=True)
    if any(zeros) or not _KINDS.issuperset(kinds):
        return None
    return list(zip(kinds, codes, numbers, durations_us, repeat(b""))), end


def parse_detail(body: bytes, *, max_new_jobs: int) -> Detail:
    """The body of a STOPPED reply. Raises ProtocolError unless every length in it adds up."""
    if len(body) < _DETAIL.size:
        raise ProtocolError("sent a result that is too short to be one")
    result_bytes, log_bytes, dropped, after_ms, count = _DETAIL.unpack_from(body)
    log_at = _DETAIL.size + result_bytes
    at = log_at + log_bytes
    if at > len(body) or count > max_new_jobs:
        raise ProtocolError("sent a result whose lengths do not add up")
    new_jobs: list[NewJob] = []
    for _ in range(count):
        size = int.from_bytes(body[at : at + 4], "little")
        line = body[at + 4 : at + 4 + size]
        at += 4 + size
        new_jobs.append(parse_new_job(line))
    carried = None
    if at + _LENGTH_BYTES <= len(body):
        carried = body[at + _LENGTH_BYTES :]
        at += _LENGTH_BYTES + int.from_bytes(body[at : at + _LENGTH_BYTES], "little")
    if at != len(body):
        raise ProtocolError("sent a result whose lengths do not add up")
    return Detail(
        result=body[_DETAIL.size : log_at],
        log=body[log_at : log_at + log_bytes],
        log_dropped=dropped,
        retry_after_ms=None if after_ms == _NO_DELAY else after_ms,
        new_jobs=tuple(new_jobs),
        carried=carried,
    )


def bare_results(bodies: Sequence[bytes], most_bytes: int) -> list[bytes] | None:
    """The results of many STOPPED replies that carry one each and nothing else. None: look at each with `parse_detail`.
    most_bytes: of a result that is within its limit."""
    head_bytes = _DETAIL.size
    if min(map(len, bodies)) < head_bytes:
        return None
    sizes, logs, dropped, delays_ms, counts = zip(*map(_DETAIL.unpack_from, bodies), strict=True)
    if any(logs) or any(dropped) or any(counts) or set(delays_ms) != {_NO_DELAY} or max(sizes) > most_bytes:
        return None
    results = [body[head_bytes:] for body in bodies]
    return results if tuple(map(len, results)) == sizes else None


def parse_new_job(line: bytes) -> NewJob:
    """`type|payload`, or `type?options|payload`.

    Raises ProtocolError; the bar that a tenant name would need is not among a type's characters.
    """
    head, bar, payload = line.partition(b"|")
    kind, _, options = head.partition(b"?")
    if not bar or not kind.isascii() or not is_type(kind.decode("ascii")):
        raise ProtocolError("sent a new job without a valid type")
    if not _OPTIONS.fullmatch(options):
        raise ProtocolError("sent a new job whose options are not 2,000 printable characters of ASCII")
    return NewJob(kind.decode("ascii"), payload, options.decode("ascii"))


def parse_refusal(body: bytes) -> tuple[str, str, int, int]:
    """(field, message, line, column) of a REFUSED reply; bounded and of the right kinds whatever was sent."""
    try:
        report = json.loads(body)
        field, message = str(report["field"])[:32], str(report["message"])[:10_000]
        line, column = int(report["line"]), int(report["column"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as err:
        raise ProtocolError("refused a handler in a form that cannot be read") from err
    return field, message, line, column
