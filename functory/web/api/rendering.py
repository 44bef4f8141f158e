"""From the store's values to wire types: jobs, pages, quantiles. Pure."""

import json
from typing import Any, Final

from functory.intake.job_options import DEFAULT_PRIORITY
from functory.operations.jobs import Queued
from functory.operations.run_message import run_message
from functory.wire.base import Encoding, to_wire
from functory.wire.jobs import AttemptRow, FollowedJob, Job, Page
from functory.wire.schedules import PauseRow, RoundRow
from functory.wire.scoreboard import Quantiles
from journal import parse_id
from store.base import Attempt, Histogram, JobPage, JobRecord, JobState, Round
from vocabulary.job_limits import limits_of
from vocabulary.names import type_of
from vocabulary.origin import origin_of

NOT_KEPT: Final = "ended, not kept: how it ended is not known here"
_STATES: Final = {state: state.value for state in JobState}
"""`value` is two calls of Python for each job that is shown."""
_LEASED: Final = frozenset({JobState.RUNNING, JobState.LAPSED})


def show_job(found: JobRecord | Queued, *, whole: bool = True) -> Job:
    """`whole` False leaves out payload, result and log, as in listings."""
    if isinstance(found, Queued):
        return _queued(found)
    job, outcome = found.job, found.outcome
    shown = Job(
        id=job.id,
        type=type_of(job.jobtype),
        state=_STATES[found.state],
        priority=job.priority,
        attempts=job.attempts,
        due_ms=job.due_ms,
        created_ms=job.create_ms,
        lease_until_ms=job.dt_ms if found.state in _LEASED else None,
        payload_bytes=found.data_bytes,
        result_bytes=found.result_bytes,
        domain=job.domain,
        key=job.key,
        repeat=job.repeat,
        retry_after_s=None if job.retry_after_ms is None else job.retry_after_ms / 1000,
        unique=job.unique,
        parent=job.parent,
        seq=job.seq,
        children=found.children,
        pending_children=found.pending_children,
        claimed_ms=(found.claimed_ms or None) if found.state is JobState.RUNNING else None,
    )
    if job.options:
        shown.follows, shown.options = show_origin(job.options), show_options(job.options)
    _show_schedule(shown, found)
    for name, value in limits_of(job.options).said().items() if job.options else ():
        setattr(shown, name, value)
    if whole:
        shown.history = [_attempt(attempt) for attempt in found.history]
        shown.payload, shown.payload_encoding = to_wire(job.data)
    if outcome is not None:
        shown.code = str(outcome.code)
        shown.exitcode = outcome.exitcode
        shown.message = run_message(found)
        shown.failure = outcome.fingerprint
        shown.started_ms = outcome.started_ms
        shown.done_ms = found.done_ms
        shown.duration_us = outcome.duration_us
        shown.handler_version = outcome.handler_version or None
        shown.isolation = outcome.isolation
        if whole and outcome.result is not None:
            shown.result, shown.result_encoding = to_wire(outcome.result)
        if whole:
            shown.log, shown.log_encoding = to_wire(outcome.log)
    return shown


def _show_schedule(shown: Job, found: JobRecord) -> None:
    """What is planned of one that has ended is forgotten if it runs again."""
    schedule = found.schedule
    shown.rounds = [_round(ended) for ended in schedule.rounds]
    if found.state is not JobState.ARCHIVED:
        shown.pause = None if schedule.pause is None else PauseRow(*schedule.pause)
        shown.regular_ms = schedule.regular_ms


def show_not_kept(job_id: str, type_name: str) -> Job:
    """A job that was accepted and is not there any more: its end was recorded where nobody waited for it."""
    created_ms = parse_id(job_id).time_ms
    shown = Job(job_id, type_name, "archived", DEFAULT_PRIORITY, attempts=0, due_ms=created_ms, created_ms=created_ms)
    shown.message = NOT_KEPT
    return shown


def _queued(found: Queued) -> Job:
    return Job(
        id=found.id,
        type=type_of(found.jobtype),
        state="queued",
        priority=found.priority,
        attempts=0,
        due_ms=found.due_ms,
        created_ms=found.created_ms,
    )


def _attempt(attempt: Attempt) -> AttemptRow:
    return AttemptRow(
        attempt.number,
        attempt.started_ms,
        attempt.duration_us,
        attempt.code.value,
        attempt.exitcode,
        attempt.message,
        attempt.handler_version or None,
        attempt.daemon,
    )


def _round(ended: Round) -> RoundRow:
    return RoundRow(
        ended.planned_ms,
        ended.started_ms or None,
        ended.duration_us,
        ended.code.value,
        ended.exitcode,
        ended.message,
        ended.attempts,
        ended.handler_version or None,
        ended.daemon,
    )


def show_page(page: JobPage, *, with_payloads: bool = False) -> Page:
    """With what was read of each payload, if asked for; `payload_bytes` says how long it is."""
    shown = Page([show_job(record, whole=False) for record in page.records], page.cursor)
    if with_payloads:
        for record, job in zip(page.records, shown.jobs, strict=True):
            job.payload, job.payload_encoding = _begin(record.job.data, record.data_bytes)
    return shown


def show_children(page: JobPage) -> Page:
    """With the beginning of each result; `result_bytes` says how long it is."""
    shown = show_page(page)
    for record, job in zip(page.records, shown.jobs, strict=True):
        if record.outcome is not None and record.outcome.result is not None:
            job.result, job.result_encoding = _begin(record.outcome.result, record.result_bytes)
    return shown


def _begin(data: bytes, size_bytes: int) -> tuple[str, Encoding]:
    """What was read of so many bytes."""
    return to_wire(_whole_chars(data) if len(data) < size_bytes else data)


def _whole_chars(text: bytes) -> bytes:
    """The beginning of a text, without the part of a character at its end."""
    for cut in range(4):
        try:
            text[: len(text) - cut].decode()
        except UnicodeDecodeError:
            continue
        return text[: len(text) - cut]
    return text


def show_quantiles(histogram: Histogram) -> Quantiles | None:
    """In milliseconds, from a histogram of microseconds."""
    cuts = [histogram.quantile(share) for share in (0.5, 0.95, 0.99)]
    p50, p95, p99 = (None if cut is None else cut / 1000 for cut in cuts)
    return None if p50 is None or p95 is None or p99 is None else Quantiles(p50, p95, p99)


def show_origin(options: str) -> FollowedJob | None:
    origin = origin_of(options)
    return None if origin is None else FollowedJob(*origin)


def show_options(text: str) -> Any:
    if not text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
