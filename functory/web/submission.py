"""From a body to jobs: lines, JSON or NDJSON, with their options; and back to the answer with their ids."""

import binascii
import json
from base64 import b64decode
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from functory.errors import InvalidInput
from functory.jobattributes import PLAIN, JobOptions
from functory.operations.service import Service
from functory.operations.submit import Submission
from functory.web.endpoint import decode_json
from functory.wire.base import MAX_TIME_MS
from functory.wire.jobs import JobSettings, NewJob
from scheduler.errors import SchedulerError
from scheduler.repeat import next_run_ms, parse_repeat

_JOBS: Final = msgspec.json.Decoder(list[NewJob] | NewJob)
_JOB: Final = msgspec.json.Decoder(NewJob)
_JSON_TYPES: Final = ("application/json", "application/x-ndjson", "application/jsonl")
_COMMENT: Final = b"#"[0]


def is_lines(content_type: str) -> bool:
    """Whether the body is one payload a line: it is, unless the header says that it is JSON."""
    return not content_type.startswith(_JSON_TYPES)


def added_json(ids: list[str], *, with_ids: bool = True) -> bytes:
    """`Added` as JSON. Ids need no quoting, so they are joined and not encoded: it is most of a large answer."""
    if with_ids:
        joined = '","'.join(ids)
        return f'{{"count":{len(ids)},"ids":["{joined}"]}}'.encode()
    return f'{{"count":{len(ids)}}}'.encode()


def split_lines(body: bytes) -> list[bytes]:
    """The payloads of a body of lines: blank lines and those that start with `#` are left out."""
    return [line for line in body.split(b"\n") if line and line[0] != _COMMENT]


def parse_json(body: bytes) -> list[NewJob]:
    """One job, or an array of jobs."""
    found = decode_json(_JOBS, body)
    return found if isinstance(found, list) else [found]


def parse_ndjson(body: bytes) -> list[NewJob]:
    """One job on each line. Raises InvalidInput or BadRequest with the number of the line."""
    jobs: list[NewJob] = []
    for number, line in enumerate(body.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            jobs.append(decode_json(_JOB, line))
        except Exception as error:
            error.args = (f"line {number}: {error}",)
            raise
    return jobs


def to_submission(job: NewJob, service: Service) -> Submission:
    return Submission(_payload(job), to_options(job, service, job.options), job.unique, job.parent)


def to_options(settings: JobSettings, service: Service, options: Mapping[str, Any] | None = None) -> JobOptions:
    """What the caller said, in the words of the queue; `PLAIN` itself if that is nothing."""
    if settings.repeat:
        _check_repeat(settings.repeat, service.now_ms())
    found = JobOptions(
        _due_ms(settings, service),
        settings.priority,
        settings.domain,
        json.dumps(options, separators=(",", ":")) if options else "",
        None if settings.retry_after_s is None else round(settings.retry_after_s * 1000),
        settings.indexed,
        settings.repeat,
    )
    return PLAIN if found == PLAIN else found


def _check_repeat(text: str, now_ms: int) -> None:
    """A pattern that cannot be read, or that would never lead forward, is refused before the job is taken."""
    try:
        next_run_ms(parse_repeat(text), scheduled_ms=now_ms, started_ms=now_ms, finished_ms=now_ms)
    except SchedulerError as error:
        raise InvalidInput(f"repeat: {error}", detail={"field": "repeat"}) from None


def payload_of(value: object, in_base64: str | None) -> bytes:
    """A payload as it stands in JSON: a string is its text, any other value its JSON."""
    if in_base64 is not None:
        try:
            return b64decode(in_base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidInput(f"payload_base64 is not base64: {error}", detail={"field": "payload_base64"}) from None
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


def _payload(job: NewJob) -> bytes:
    in_base64 = None if job.payload_base64 is msgspec.UNSET else job.payload_base64
    if (job.payload is msgspec.UNSET) == (in_base64 is None):
        raise InvalidInput("a job needs one of payload and payload_base64", detail={"field": "payload"})
    return payload_of(job.payload, in_base64)


def _due_ms(settings: JobSettings, service: Service) -> int | None:
    if settings.dt is None:
        return None if settings.delay_s is None else service.now_ms() + round(settings.delay_s * 1000)
    if settings.delay_s is not None:
        raise InvalidInput("delay_s and dt exclude each other: give one of them", detail={"field": "dt"})
    return parse_time_ms(settings.dt)


def parse_time_ms(text: str) -> int:
    """Milliseconds, or RFC 3339 with its offset (`2026-11-14T23:59:59Z`)."""
    if text.isascii() and text.isdigit():
        time_ms = int(text)
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise InvalidInput(
                f"dt {text!r} is neither milliseconds nor a time such as 2026-11-14T23:59:59Z", detail={"field": "dt"}
            )
        time_ms = round(moment.timestamp() * 1000)
    if not 0 <= time_ms <= MAX_TIME_MS:
        raise InvalidInput(f"dt {text!r} is not between the years 1970 and 9999", detail={"field": "dt"})
    return time_ms
