"""From a body to jobs: lines, JSON or NDJSON, with their options. And from ids to the answer."""

import binascii
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final, Literal

import msgspec

from functory.errors import FunctoryError, InvalidInput
from functory.intake.job_options import JobOptions
from functory.operations.job_settings import to_options, unsaid
from functory.operations.service import OperationSettings, Service
from functory.operations.submit import CREATED_AT_ONCE, Submission, check_option_sets, find_invalid, max_jobs
from functory.web.http.endpoint import FREE_JOB_BYTES, decode_json
from functory.web.http.turns import Turns
from functory.wire.handlers import InvokeBody
from functory.wire.jobs import NewJob, PayloadBody
from functory.wire.untyped_json import json_decoder
from journal import LimitExceeded
from store.errors import InvalidValue

Reading = Literal["lines", "json", "ndjson"]
"""How a body becomes jobs."""
_JOB: Final = json_decoder(NewJob)
_ONE_OR_MORE: Final = json_decoder(NewJob | list[NewJob])
"""For what a body that is neither one job nor a list of them is told."""
_TEXT: Final = msgspec.json.Decoder(str)
_TEXTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_READINGS: Final[dict[str, Reading]] = {
    "": "lines",
    "text/plain": "lines",
    "text/plain; charset=utf-8": "lines",
    "application/octet-stream": "lines",
    "application/x-www-form-urlencoded": "lines",
    "application/json": "json",
    "application/x-ndjson": "ndjson",
    "application/jsonl": "ndjson",
}
_COMMENT: Final = b"#"[0]
_CREATED_BYTES: Final = 1000
_VALUE_BYTES: Final = 60
_MOST_CREATED: Final = OperationSettings().max_created
SPLIT_BYTES: Final = 128 * 1024
"""A body up to this size is split without counting its lines first."""


def created_bytes(body: bytes) -> int:
    """About how much memory the jobs of a body take that are created together, until they are in the store: their
    payloads, and the values that their options are decoded to."""
    jobs = body.count(b"{")
    values = jobs + body.count(b"[") + body.count(b",")
    own_bytes = min(jobs, _MOST_CREATED) * _CREATED_BYTES
    return with_turn(jobs, len(body) + own_bytes + values * _VALUE_BYTES)


def with_turn(jobs: int, size_bytes: int) -> int:
    """The room that jobs of this size take. Those that may have to wait for a turn take some, however small they are:
    there is no other bound on how many requests wait."""
    return size_bytes if jobs <= CREATED_AT_ONCE else max(size_bytes, FREE_JOB_BYTES + 1)


def reading_of(content_type: str) -> Reading:
    """The body holds one payload per line, unless the header says that it is JSON. Case and parameters do not count."""
    usual = _READINGS.get(content_type)
    return usual or _READINGS.get(content_type.partition(";")[0].strip().lower(), "lines")


def added_json(ids: list[str], *, with_ids: bool = True) -> bytes:
    """`Added` as JSON, for at least one id. Ids need no quoting: joining them is much cheaper than encoding them."""
    if with_ids:
        joined = '","'.join(ids)
        return f'{{"count":{len(ids)},"ids":["{joined}"]}}'.encode()
    return f'{{"count":{len(ids)}}}'.encode()


def split_lines(body: bytes, max_jobs: int) -> list[bytes]:
    """The payloads of a body of lines. Blank lines and lines that start with `#` are left out, but count.

    Raises LimitExceeded; of a large body before a list of them is made.
    """
    if len(body) > max(SPLIT_BYTES, max_jobs):
        _check_count(body.count(b"\n"), max_jobs)
    lines = body.split(b"\n")
    _check_count(len(lines) - 1, max_jobs)
    if _COMMENT not in body:
        return list(filter(None, lines))
    return [line for line in lines if line and line[0] != _COMMENT]


async def split_many(body: bytes, max_jobs: int, turns: Turns) -> list[bytes]:
    """The same, in slices: for a body that may be large."""
    _check_count(body.count(b"\n"), max_jobs)
    lines: list[bytes] = []
    async for _, piece in turns.slices(_pieces(body)):
        lines += split_lines(piece, max_jobs)
    return lines


def _pieces(body: bytes) -> Iterator[bytes]:
    """Whole lines, about as many together as may be split without counting them."""
    start = 0
    while start < len(body):
        end = body.find(b"\n", start + SPLIT_BYTES) + 1 or len(body)
        yield body[start:end]
        start = end


async def parse_jobs(body: bytes, service: Service, turns: Turns, *, is_array: bool) -> list[Submission]:
    """The jobs of a body in JSON (one, or an array of them) or in NDJSON (one on each line).

    They are counted before they are built, and built in slices. Raises LimitExceeded, RequestTooLarge, and with the
    number of the job or line BadRequest or InvalidInput.
    """
    limit = max_jobs(service)
    if is_array and body.lstrip()[:1] != b"[":
        decoder = _JOB if body.lstrip()[:1] == b"{" else _ONE_OR_MORE
        return [to_submission(decode_json(decoder, body), service.now_ms(), {})]
    texts: Sequence[bytes | msgspec.Raw] = _elements(body, limit) if is_array else _lines(body, limit)
    jobs: list[Submission] = []
    known: dict[JobOptions, JobOptions] = {}
    now_ms = service.now_ms()
    async for number, text in turns.slices(texts):
        line = bytes(text)
        if is_array or line.strip():
            try:
                jobs.append(to_submission(decode_json(_JOB, line), now_ms, known))
                check_option_sets(len(known))
            except FunctoryError as error:
                tell_which(error, f"{'job' if is_array else 'line'} {number}", f"[{number - 1}]." if is_array else "")
                raise
    return jobs


@contextmanager
def telling_which(jobs: Iterable[Submission], place_of: Callable[[int], tuple[str, str] | None]) -> Iterator[None]:
    """Around what checks jobs, all at once: an InvalidValue says which it is about, if that has a place. They are
    looked at one by one only then."""
    try:
        yield
    except InvalidValue:
        found = find_invalid(jobs)
        place = None if found is None else place_of(found[0])
        if found is None or place is None:
            raise
        tell_which(found[1], *place)
        raise found[1] from None


def place_in(body: bytes, reading: Reading, index: int) -> tuple[str, str] | None:
    """What a job of a body is called, and what stands before its fields. None: all have what the query says, or it is
    the only one."""
    if reading == "ndjson":
        numbers = (number for number, line in enumerate(body.split(b"\n"), 1) if line.strip())
        return f"line {next(islice(numbers, index, None))}", ""
    return (f"job {index + 1}", f"[{index}].") if reading == "json" and body.lstrip()[:1] == b"[" else None


def tell_which(error: FunctoryError | InvalidValue, what: str, place: str) -> None:
    """Say which of several jobs an error is about: before its message, and before the field that it names."""
    error.args = (f"{what}: {error}",)
    if isinstance(error, InvalidValue):
        error.field = error.field and place + error.field
    elif "field" in error.detail:
        error.detail["field"] = f"{place}{error.detail['field']}"


def _elements(body: bytes, limit: int) -> list[msgspec.Raw]:
    """The texts of the elements of an array."""
    texts: list[msgspec.Raw] = decode_json(_TEXTS, body)
    _check_count(len(texts), limit)
    return texts


def _lines(body: bytes, limit: int) -> list[bytes]:
    _check_count(body.count(b"\n"), limit)
    return body.split(b"\n")


def _check_count(count: int, limit: int) -> None:
    if count > limit:
        raise LimitExceeded("the number of jobs in one body", count, "max_batch_lines", limit)


def to_submission(job: NewJob, now_ms: int, known: dict[JobOptions, JobOptions]) -> Submission:
    """`known` holds the options of the jobs before: equal ones are shared."""
    options = to_options(job, now_ms, job.options)
    shared = known.setdefault(options, options)
    return Submission(_payload(job), shared, job.unique or "", job.parent or "", unsaid(job))


def payload_of(value: msgspec.Raw, in_base64: str | None, field: str = "payload") -> bytes:
    """A payload as it stands in JSON: a string is its text, any other value its JSON without blanks. Never built.
    Raises BadRequest and InvalidInput, which name the field."""
    if in_base64 is not None:
        name = f"{field}_base64"
        try:
            return b64decode(in_base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidInput(f"{name} is not base64: {error}", detail={"field": name}) from None
    text = bytes(value)
    if text[:1] == b'"':
        decoded: str = decode_json(_TEXT, text, field)
        return decoded.encode()
    return msgspec.json.format(text, indent=-1)


def _payload(job: NewJob) -> bytes:
    payload = new_payload(job)
    if payload is None:
        raise InvalidInput("a job needs one of payload and payload_base64", detail={"field": "payload"})
    return payload


def new_payload(body: NewJob | PayloadBody | InvokeBody) -> bytes | None:
    """The payload of a body that may have one, in one form. Raises InvalidInput if it has both."""
    in_base64 = None if body.payload_base64 is msgspec.UNSET else body.payload_base64
    if body.payload is msgspec.UNSET:
        return None if in_base64 is None else payload_of(msgspec.Raw(), in_base64)
    if in_base64 is not None:
        raise InvalidInput("use either payload or payload_base64, not both", detail={"field": "payload"})
    return payload_of(body.payload, None)
