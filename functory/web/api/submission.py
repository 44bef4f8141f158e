"""From a body to jobs: lines, JSON or NDJSON, with their options. And from ids to the answer."""

import binascii
import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, Literal

import msgspec

from functory.errors import FunctoryError, InvalidInput
from functory.intake.job_options import DEFAULT_PRIORITY, PLAIN, JobOptions
from functory.operations.service import OperationSettings, Service
from functory.operations.submit import CREATED_AT_ONCE, Submission, check_option_sets, find_invalid, max_jobs
from functory.web.http.endpoint import FREE_JOB_BYTES, decode_json
from functory.web.http.turns import Turns
from functory.wire.handlers import InvokeBody
from functory.wire.jobs import JobSettings, NewJob, UpdateBody
from functory.wire.nesting import MOST_LEVELS, is_too_deep
from functory.wire.untyped_json import json_decoder
from journal import LimitExceeded
from scheduler.cron import is_cron
from scheduler.errors import SchedulerError
from scheduler.repeat import apply_modifiers, check_repeat, first_run_ms, parse_modifiers, parse_repeat
from store.errors import InvalidValue
from vocabulary.time_text import MAX_TIME_MS, is_plain_time, parse_rfc3339, parse_utc

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
_LONGEST_RETRY_AFTER_MS: Final = 31_557_600_000


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


def unsaid(settings: JobSettings) -> frozenset[str]:
    """What a live job with the same unique name keeps, because the caller did not say it. A cron pattern says when."""
    kept = {name for name in ("priority", "repeat") if getattr(settings, name) is msgspec.UNSET}
    if settings.delay_s is None and settings.dt is None and not is_cron(settings.repeat or ""):
        kept.add("due")
    return frozenset(kept)


def to_options(settings: JobSettings, now_ms: int, options: Mapping[str, Any] | None = None) -> JobOptions:
    """What the caller said, in the words of the queue; `PLAIN` itself if that is nothing."""
    repeat, first_ms = settings.repeat or "", due_ms(settings.delay_s, settings.dt, now_ms)
    if repeat:
        first_ms = _first_round_ms(repeat, first_ms, now_ms)
    found = JobOptions(
        first_ms,
        DEFAULT_PRIORITY if settings.priority is msgspec.UNSET else settings.priority,
        settings.domain or "",
        _options_text(options) if options else "",
        _retry_after_ms(settings, repeat, now_ms),
        settings.indexed,
        repeat,
        settings.key or "",
    )
    return PLAIN if found == PLAIN else found


def _options_text(options: Mapping[str, Any]) -> str:
    """Raises InvalidInput for options that are nested too deeply."""
    if is_too_deep(options):
        raise InvalidInput(f"options: are nested more than {MOST_LEVELS} deep", detail={"field": "options"})
    return json.dumps(options, separators=(",", ":"))


def _first_round_ms(text: str, said_ms: int | None, now_ms: int) -> int | None:
    """When the first round is due; None: at once. Refuses a pattern that cannot be read, or that never leads forward,
    before the job is taken."""
    try:
        repeat = parse_repeat(text)
        check_repeat(repeat, now_ms)
        first_ms = first_run_ms(repeat, now_ms) if said_ms is None else said_ms
    except SchedulerError as error:
        raise InvalidInput(f"repeat: {error}", detail={"field": "repeat"}) from None
    return None if first_ms == now_ms else first_ms


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


def new_payload(body: NewJob | UpdateBody | InvokeBody) -> bytes | None:
    """The payload of a body that may have one, in one form. Raises InvalidInput if it has both."""
    in_base64 = None if body.payload_base64 is msgspec.UNSET else body.payload_base64
    if body.payload is msgspec.UNSET:
        return None if in_base64 is None else payload_of(msgspec.Raw(), in_base64)
    if in_base64 is not None:
        raise InvalidInput("use either payload or payload_base64, not both", detail={"field": "payload"})
    return payload_of(body.payload, None)


def due_ms(delay_s: float | None, at: str | float | None, now_ms: int, field: str = "dt") -> int | None:
    """When a job is to run, of two ways to say it; `field` is the name of the second. None: nothing was said."""
    if at is None:
        return None if delay_s is None else now_ms + round(delay_s * 1000)
    if delay_s is not None:
        raise InvalidInput(f"use either delay_s or {field}, not both", detail={"field": field})
    return parse_time_ms(at, field)


def parse_time_ms(said: str | float, field: str = "dt") -> int:
    """Milliseconds, RFC 3339 with its offset (`2026-11-14T23:59:59Z`), or `2026-11-14 23:59:59` in UTC."""
    time_ms = _read_time(said, field) if isinstance(said, str) else said
    if not 0 <= time_ms <= MAX_TIME_MS:
        raise InvalidInput(f"{field} {said!r:.60} is not between the years 1970 and 9999", detail={"field": field})
    if time_ms != int(time_ms):
        raise InvalidInput(f"{field} {said} is not a whole number of milliseconds", detail={"field": field})
    return int(time_ms)


def _read_time(text: str, field: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return parse_utc(text) if is_plain_time(text) else parse_rfc3339(text)
    except ValueError:
        raise InvalidInput(
            f"{field} {text!r} is neither milliseconds nor a time such as 2026-11-14T23:59:59Z or 2026-11-14 (UTC)",
            detail={"field": field},
        ) from None


def _retry_after_ms(settings: JobSettings, repeat: str, now_ms: int) -> int | None:
    """How long a delivery may take before the job counts as lost: in seconds, or as modifiers, whose length is measured
    once, from now. Such a job neither repeats nor has a unique name: two of it may run at once."""
    if settings.retry_after_s is None and not settings.retry_after:
        return None
    field = "retry_after" if settings.retry_after else "retry_after_s"
    if settings.retry_after_s is not None and settings.retry_after:
        raise InvalidInput("use either retry_after or retry_after_s, not both", detail={"field": field})
    if repeat or settings.unique:
        other = "repeat" if repeat else "unique"
        raise InvalidInput(f"use either {field} or {other}, not both", detail={"field": field})
    if settings.retry_after_s is not None:
        return round(settings.retry_after_s * 1000)
    whole_ms = now_ms // 1000 * 1000
    try:
        length_ms = apply_modifiers(parse_modifiers(settings.retry_after), whole_ms) - whole_ms
    except SchedulerError as error:
        raise InvalidInput(f"retry_after: {error}", detail={"field": field}) from None
    if not 0 < length_ms <= _LONGEST_RETRY_AFTER_MS:
        raise InvalidInput(
            f"retry_after {settings.retry_after!r} is {length_ms / 1000:g} s: it must be more than 0 s, at most a year",
            detail={"field": field},
        )
    return length_ms
