"""One job: its life on a time line, its payload, result and log as inert text, its relatives, and why it waits."""

from typing import Any, Final, NamedTuple

from aiohttp import web

from functory.errors import Missing
from functory.operations import job_changes, job_log, jobs
from functory.operations.jobs import Queued
from functory.operations.why import why
from functory.web.api.large_job import result_answer
from functory.web.http.answers import answer
from functory.web.http.outflow import LARGE_BYTES
from functory.web.pages import inert_text
from functory.web.pages.call import PageCall
from functory.web.pages.declaration import Go, Page, Pages
from functory.web.pages.job_list import line_of
from functory.wire.progress_text import progress_text
from store.base import Attempt, JobRecord, JobState
from vocabulary.names import type_of
from vocabulary.time_text import iso_time

pages = Pages()

_CHILDREN: Final = 50
_PLAIN: Final = "text/plain; charset=utf-8"
_BAD: Final = frozenset({"failed", "error", "abandoned"})


class Why(NamedTuple):
    """Why the job is not running: a sentence, around a time if it names one."""

    before: str
    until_ms: int | None
    after: str


class Step(NamedTuple):
    """A point on the time line. kind chooses its mark: done, now, next, or an outcome."""

    kind: str
    title: str
    time_ms: int | None = None
    text: str = ""


@pages.get("/ui/t/{tenant}/job/{id}", scope="read", live="live/job.html")
async def show_job(call: PageCall) -> Page:
    job_id = call.params["id"]
    found = await jobs.get_job(call.service, call.tenant, job_id, max_bytes=inert_text.MAX_BYTES)
    now_ms = call.now_ms
    if isinstance(found, Queued):
        steps = [
            Step("done", "Accepted", found.created_ms, "saved in the journal"),
            Step("now", "Waiting to be stored"),
        ]
        values = _values(call, found.id, type_of(found.jobtype), "queued", "", steps, now_ms)
        return Page("job.html", values)
    job, outcome = found.job, found.outcome
    printed = job_log.log_of(call.service, call.tenant, found)
    progress = job_log.get_progress(call.service, call.tenant, job_id)
    code = outcome.code.value if outcome else ""
    values = _values(call, job.id, type_of(job.jobtype), found.state.value, code, _steps(found), now_ms)
    values |= {
        "job": job,
        "outcome": outcome,
        "record": found,
        "is_bad": code in _BAD,
        "message": inert_text.line(outcome.message) if outcome else "",
        "payload": inert_text.show(job.data, found.data_bytes),
        "result": inert_text.show(outcome.result, found.result_bytes) if outcome and outcome.result else None,
        "log": inert_text.show(printed) if printed else None,
        "progress": None if progress is None else inert_text.line(progress_text(progress)),
        "attempts": _attempts(found),
        "children": await _children(call, found),
        "why": await _why(call, found),
        "can_cancel": found.state is not JobState.ARCHIVED,
        "can_retry": found.state is JobState.ARCHIVED,
        "can_run_now": found.state is JobState.DEFERRED,
        "options": inert_text.show(job.options.encode()) if job.options else None,
    }
    return Page("job.html", values)


@pages.get("/ui/t/{tenant}/job/{id}/raw/{part}", scope="read")
async def get_raw(call: PageCall) -> web.StreamResponse:
    """The exact bytes as a download. No browser shows them, let alone runs them."""
    found = await jobs.get_job(call.service, call.tenant, call.params["id"], max_bytes=LARGE_BYTES)
    part = call.params["part"]
    if isinstance(found, JobRecord) and part == "result" and found.result_bytes:
        return result_answer(call.service, call.tenant, found, _PLAIN, _named(call, part))
    data: bytes | None = None
    if isinstance(found, JobRecord):
        if part == "payload":
            data = await jobs.get_payload(call.service, call.tenant, found)
        elif part == "log" and found.outcome:
            data = found.outcome.log
    if not data:
        raise Missing("the job has no such part, or not yet")
    raw = answer(data, _PLAIN)
    raw.headers["Content-Disposition"] = _named(call, part)
    return raw


def _named(call: PageCall, part: str) -> str:
    return f'attachment; filename="{call.params["id"]}.{part}.txt"'


@pages.post("/ui/t/{tenant}/job/{id}/cancel", scope="manage")
async def cancel(call: PageCall) -> Go:
    await jobs.cancel_job(call.service, call.tenant, call.params["id"])
    return Go(f"{call.home}/job/{call.params['id']}", "cancelled")


@pages.post("/ui/t/{tenant}/job/{id}/retry", scope="manage")
async def retry(call: PageCall) -> Go:
    await job_changes.retry_job(call.service, call.who, call.params["id"])
    return Go(f"{call.home}/job/{call.params['id']}", "retried")


def _values(
    call: PageCall, job_id: str, type_name: str, state: str, code: str, steps: list[Step], now_ms: int
) -> dict[str, Any]:
    return {
        "id": job_id,
        "type": type_name,
        "state": state,
        "code": code,
        "steps": steps,
        "now_ms": now_ms,
        "job": None,
        "outcome": None,
        "record": None,
        "is_bad": False,
        "message": "",
        "payload": None,
        "result": None,
        "log": None,
        "progress": None,
        "children": [],
        "why": None,
        "can_cancel": False,
        "can_retry": False,
        "can_run_now": False,
        "attempts": [],
        "options": None,
        "tenant": call.tenant,
    }


def _attempts(found: JobRecord) -> list[Attempt]:
    """The runs that ended with retry or error, newest first, each with a message that is safe to show."""
    return [attempt._replace(message=inert_text.line(attempt.message)) for attempt in reversed(found.history)]


async def _children(call: PageCall, found: JobRecord) -> list[Any]:
    if not found.children:
        return []
    page = await jobs.list_children(call.service, call.tenant, found.job.id, cursor=None, limit=_CHILDREN)
    return [line_of(record) for record in page.records]


async def _why(call: PageCall, found: JobRecord) -> Why | None:
    """The time that the reason names stands apart, so that it is shown in the reader's zone."""
    if found.state is JobState.ARCHIVED:
        return None
    reason = await why(call.service, call.tenant, found.job.id)
    until_ms = reason.detail.get("until_ms")
    if until_ms is None:
        return Why(inert_text.line(reason.text, 600), None, "")
    before, _, after = reason.text.rpartition(iso_time(until_ms))
    return Why(inert_text.line(before, 600), until_ms, inert_text.line(after))


def _steps(found: JobRecord) -> list[Step]:
    """The steps of its life that are known. Earlier attempts have a table of their own."""
    job, outcome = found.job, found.outcome
    steps = [Step("done", "Accepted", job.create_ms, "saved in the journal"), Step("done", "Stored")]
    will_run_again = found.state is JobState.DEFERRED and outcome is not None  # then it is due in the future
    if job.due_ms > job.create_ms and not will_run_again:
        kind = "next" if found.state is JobState.DEFERRED and outcome is None else "done"
        steps.append(Step(kind, "Due", job.due_ms))
    if found.claimed_ms and not (found.state is JobState.DEFERRED and outcome is None):
        times = f"attempt {job.attempts}" if job.attempts else "before it was queued again"
        steps.append(Step("done", "Claimed by a daemon", found.claimed_ms, times))
    if outcome is not None and found.state not in {JobState.RUNNING, JobState.LAPSED}:
        steps.append(Step("done", "Started", outcome.started_ms, f"handler version {outcome.handler_version or '-'}"))
        steps.append(Step(outcome.code.value, f"Ended: {outcome.code.value}", found.done_ms))
    match found.state:
        case JobState.RUNNING:
            steps.append(Step("now", f"Running on daemon {job.lock}", None, "its lease is renewed while it runs"))
        case JobState.LAPSED:
            steps.append(Step("now", f"Lost by daemon {job.lock}", job.dt_ms, "another daemon will take it over"))
        case JobState.WAITING:
            steps.append(Step("now", "Waiting for a runner"))
        case JobState.DEFERRED:
            steps.append(Step("next", "Next attempt" if outcome else "Eligible", job.dt_ms))
        case JobState.PAUSED:
            steps.append(Step("now", "Waiting for related jobs to finish"))
        case JobState.ARCHIVED:
            steps.append(Step("done", "Archived", found.done_ms, "kept with its result until it is purged"))
    return steps
