"""From the store's values to what travels: jobs, pages, quantiles. Pure."""

import json
from typing import Any

from functory.operations.jobs import Queued
from functory.wire.base import to_wire
from functory.wire.jobs import Job, Page
from functory.wire.scoreboard import Quantiles
from store.base import Histogram, JobPage, JobRecord, JobState

_LEASED = frozenset({JobState.RUNNING, JobState.LAPSED})


def type_of(jobtype: str) -> str:
    """Without its tenant, which the reader is."""
    return jobtype.partition("-")[2]


def show_job(found: JobRecord | Queued, *, whole: bool = True) -> Job:
    """With whole False the payload, result and log are left out, as they are in listings."""
    if isinstance(found, Queued):
        return Job(
            id=found.id,
            type=type_of(found.jobtype),
            state="queued",
            priority=found.priority,
            attempts=0,
            due_ms=found.due_ms,
            created_ms=found.created_ms,
        )
    job, outcome = found.job, found.outcome
    shown = Job(
        id=job.id,
        type=type_of(job.jobtype),
        state=found.state.value,
        priority=job.priority,
        attempts=job.attempts,
        due_ms=job.due_ms,
        created_ms=job.create_ms,
        lease_until_ms=job.dt_ms if found.state in _LEASED else None,
        payload_bytes=found.data_bytes,
        result_bytes=found.result_bytes,
        domain=job.domain,
        repeat=job.repeat,
        unique=job.unique,
        parent=job.parent,
        options=_options(job.options),
        seq=job.seq,
        children=found.children,
        pending_children=found.pending_children,
    )
    if whole:
        shown.payload, shown.payload_encoding = to_wire(job.data)
    if outcome is not None:
        shown.code = outcome.code.value
        shown.exitcode = outcome.exitcode
        shown.message = outcome.message
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


def show_page(page: JobPage) -> Page:
    return Page([show_job(record, whole=False) for record in page.records], page.cursor)


def show_quantiles(histogram: Histogram) -> Quantiles | None:
    """In milliseconds, from a histogram of microseconds."""
    cuts = [histogram.quantile(share) for share in (0.5, 0.95, 0.99)]
    p50, p95, p99 = (None if cut is None else cut / 1000 for cut in cuts)
    return None if p50 is None or p95 is None or p99 is None else Quantiles(p50, p95, p99)


def _options(text: str) -> Any:
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
