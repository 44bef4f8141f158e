"""One job: its life on a time line, its payload, result and log as inert text, its relatives, and why it waits."""

from typing import Any, Final, NamedTuple

from aiohttp import web

from functory.errors import Missing
from functory.operations import jobs
from functory.operations.jobs import Queued
from functory.operations.why import Reason, why
from functory.web.answers import answer
from functory.web.pages import inert
from functory.web.pages.call import PageCall
from functory.web.pages.declare import Go, Page, Pages
from functory.web.pages.joblist import line_of
from functory.web.rendering import type_of
from store.base import JobRecord, JobState

pages = Pages()

_CHILDREN: Final = 50
_BAD: Final = frozenset({"failed", "error", "abandoned"})


class Step(NamedTuple):
    """A point of the time line. kind chooses its mark: done, now, next, or an outcome's name."""

    kind: str
    title: str
    time_ms: int | None = None
    text: str = ""


@pages.get("/ui/t/{tenant}/job/{id}", scope="read", live="live/job.html")
async def show_job(call: PageCall) -> Page:
    job_id = call.params["id"]
    found = await jobs.get_job(call.service, call.tenant, job_id)
    now_ms = call.now_ms
    if isinstance(found, Queued):
        steps = [
            Step("done", "Accepted", found.created_ms, "durable in the journal"),
            Step("now", "On its way into the store"),
        ]
        values = _values(call, found.id, type_of(found.jobtype), "queued", "", steps, now_ms)
        return Page("job.html", values)
    job, outcome = found.job, found.outcome
    code = outcome.code.value if outcome else ""
    values = _values(call, job.id, type_of(job.jobtype), found.state.value, code, _steps(found), now_ms)
    values |= {
        "job": job,
        "outcome": outcome,
        "record": found,
        "is_bad": code in _BAD,
        "message": inert.line(outcome.message) if outcome else "",
        "payload": inert.show(job.data),
        "result": inert.show(outcome.result) if outcome and outcome.result else None,
        "log": inert.show(outcome.log) if outcome and outcome.log else None,
        "children": await _children(call, found),
        "why": await _why(call, found),
        "can_cancel": found.state in {JobState.WAITING, JobState.DEFERRED, JobState.PAUSED},
        "can_retry": found.state is JobState.ARCHIVED,
        "options": inert.show(job.options.encode()) if job.options else None,
    }
    return Page("job.html", values)


@pages.get("/ui/t/{tenant}/job/{id}/raw/{part}", scope="read")
async def get_raw(call: PageCall) -> web.StreamResponse:
    """The very bytes, as a download: nothing that a browser would show, let alone run."""
    found = await jobs.get_job(call.service, call.tenant, call.params["id"])
    part = call.params["part"]
    data: bytes | None = None
    if isinstance(found, JobRecord):
        outcome = found.outcome
        parts = {"payload": found.job.data, "result": outcome and outcome.result, "log": outcome and outcome.log}
        data = parts.get(part) or None
    if data is None:
        raise Missing("the job has no such part, or not yet")
    raw = answer(data, "text/plain; charset=utf-8")
    raw.headers["Content-Disposition"] = f'attachment; filename="{call.params["id"]}.{part}.txt"'
    return raw


@pages.post("/ui/t/{tenant}/job/{id}/cancel", scope="manage")
async def cancel(call: PageCall) -> Go:
    await jobs.cancel_job(call.service, call.tenant, call.params["id"])
    return Go(f"{call.home}/job/{call.params['id']}", "cancelled")


@pages.post("/ui/t/{tenant}/job/{id}/retry", scope="manage")
async def retry(call: PageCall) -> Go:
    await jobs.retry_job(call.service, call.tenant, call.params["id"], 0.0)
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
        "children": [],
        "why": None,
        "can_cancel": False,
        "can_retry": False,
        "options": None,
        "tenant": call.tenant,
    }


async def _children(call: PageCall, found: JobRecord) -> list[Any]:
    if not found.children:
        return []
    page = await jobs.list_children(call.service, call.tenant, found.job.id, cursor=None, limit=_CHILDREN)
    return [line_of(record) for record in page.records]


async def _why(call: PageCall, found: JobRecord) -> Reason | None:
    return None if found.state is JobState.ARCHIVED else await why(call.service, call.tenant, found.job.id)


def _steps(found: JobRecord) -> list[Step]:
    """What is known of its life. Of several attempts the store keeps the last one's outcome."""
    job, outcome = found.job, found.outcome
    steps = [Step("done", "Accepted", job.create_ms, "durable in the journal"), Step("done", "In the store")]
    if job.due_ms > job.create_ms:
        kind = "next" if found.state is JobState.DEFERRED and outcome is None else "done"
        steps.append(Step(kind, "Due", job.due_ms))
    if found.claimed_ms and not (found.state is JobState.DEFERRED and outcome is None):
        times = f"attempt {job.attempts}" if job.attempts else "before it was queued again"
        steps.append(Step("done", "Claimed by a daemon", found.claimed_ms, times))
    if outcome is not None and found.state not in {JobState.RUNNING, JobState.LAPSED}:
        steps.append(Step("done", "Run began", outcome.started_ms, f"handler version {outcome.handler_version or '-'}"))
        steps.append(Step(outcome.code.value, f"Run ended: {outcome.code.value}", found.done_ms))
    match found.state:
        case JobState.RUNNING:
            steps.append(Step("now", f"Running on daemon {job.lock}", None, "its lease is renewed while it runs"))
        case JobState.LAPSED:
            steps.append(Step("now", f"Lost by daemon {job.lock}", job.dt_ms, "it is given to another in a moment"))
        case JobState.WAITING:
            steps.append(Step("now", "Waiting for a runner"))
        case JobState.DEFERRED:
            steps.append(Step("next", "Next attempt" if outcome else "Eligible", job.dt_ms))
        case JobState.PAUSED:
            steps.append(Step("now", "Held until its relatives have ended"))
        case JobState.ARCHIVED:
            steps.append(Step("done", "Archived", found.done_ms, "kept with its result, then purged"))
    return steps
