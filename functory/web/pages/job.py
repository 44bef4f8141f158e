"""One job: its life on a time line, its payload, result and log as inert text, its relatives, and why it waits."""

from typing import Any, Final, NamedTuple

from aiohttp import web

from functory.errors import Missing
from functory.operations import handlers, job_changes, job_log, jobs, schedules
from functory.operations.jobs import Queued
from functory.operations.run_message import run_message
from functory.operations.why import why
from functory.web.api.large_job import result_answer
from functory.web.http.answers import answer
from functory.web.http.outflow import LARGE_BYTES
from functory.web.pages import inert_text
from functory.web.pages.call import PageCall
from functory.web.pages.declaration import Go, Page, Pages
from functory.web.pages.failures import find_group
from functory.web.pages.job_list import line_of
from functory.wire.job_limits import attempts_text, limits_text
from functory.wire.progress_text import percent_of, percent_text, progress_text
from functory.workers.values import OWNER
from store.base import Attempt, Code, Job, JobPage, JobRecord, JobState
from vocabulary.job_limits import limits_of
from vocabulary.names import WORKER, type_of
from vocabulary.origin import origin_of
from vocabulary.time_text import iso_time

pages = Pages()

_CHILDREN: Final = 50
_PLAIN: Final = "text/plain; charset=utf-8"
_UNDER_WAY: Final = frozenset({JobState.RUNNING, JobState.LAPSED})
_AT_REST: Final = frozenset({JobState.ARCHIVED, JobState.DEFERRED})
_MOMENTS: Final = ("until_ms", "lease_until_ms", "since_ms")
"""In the details of a reason: times, one of which its text may name."""
_BAD: Final = frozenset({"failed", "error", "abandoned"})


class Why(NamedTuple):
    """Why the job is not running: a sentence, around a time if it names one."""

    before: str
    until_ms: int | None
    after: str


class Progress(NamedTuple):
    """What a job says of its progress; percent for a bar, if it is a number."""

    text: str
    percent: float | None


class Step(NamedTuple):
    """A point on the time line. kind chooses its mark: done, now, next, or an outcome."""

    kind: str
    title: str
    time_ms: int | None = None
    text: str = ""
    started_ms: int = 0
    """Of what still runs: shown as how long ago that was."""


@pages.get("/ui/t/{tenant}/job/{id}", scope="read", live="live/job.html")
async def show_job(call: PageCall) -> Page:
    job_id = call.params["id"]
    try:
        found = await jobs.get_job(call.service, call.tenant, job_id, max_bytes=inert_text.MAX_BYTES)
    except Missing:
        group = await find_group(call, call.query("type"), call.query("error"))
        if group is None or group.failure.example_id != job_id:
            raise
        return Page("purged_job.html", {"id": job_id, "group": group, "now_ms": call.now_ms}, 404)
    now_ms = call.now_ms
    if isinstance(found, Queued):
        steps = [
            Step("done", "Accepted", found.created_ms, "saved in the journal"),
            Step("now", "Waiting to be stored"),
        ]
        values = _values(call, found.id, type_of(found.jobtype), "queued", "", steps, now_ms)
        return Page("job.html", values, state=("queued",))
    job, outcome = found.job, found.outcome
    printed = job_log.log_of(call.service, call.tenant, found)
    progress = job_log.get_progress(call.service, call.tenant, job_id)
    code = outcome.code.value if outcome else ""
    values = _values(call, job.id, type_of(job.jobtype), found.state.value, code, _steps(found, now_ms), now_ms)
    children = await _children(call, found)
    values |= {
        "job": job,
        "outcome": outcome,
        "record": found,
        "is_bad": code in _BAD,
        "can_fix": code in _BAD and found.state in _AT_REST and await _can_fix(call, type_of(job.jobtype)),
        "message": inert_text.line(run_message(found)),
        "payload": inert_text.show(job.data, found.data_bytes),
        "result": inert_text.show(outcome.result, found.result_bytes) if outcome and outcome.result else None,
        "log": inert_text.show(printed, is_log=True) if printed else None,
        "is_silent": _has_run(found) and found.state not in _UNDER_WAY,
        "progress": None if progress is None else _progress(progress),
        "attempts": _attempts(found),
        **_of_schedule(found),
        "follows": origin_of(job.options),
        "limits": limits_text(limits_of(job.options).said()),
        "attempt": _attempt(job),
        "children": [line_of(record) for record in children.records],
        "next_children": children.cursor,
        "is_first": not call.query("children"),
        "why": await _why(call, found),
        "can_cancel": found.state is not JobState.ARCHIVED,
        "can_retry": found.state is JobState.ARCHIVED,
        "can_run_now": found.state is JobState.DEFERRED or found.is_on_hold,
        "options": inert_text.show(job.options.encode()) if job.options else None,
    }
    return Page("job.html", values, state=(found.state.value, code, found.schedule.pause is not None))


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
        elif part == "log":
            data = job_log.log_of(call.service, call.tenant, found) or None
    if data is None:
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


@pages.post("/ui/t/{tenant}/job/{id}/pause", scope="manage")
async def pause(call: PageCall) -> Go:
    await schedules.pause_schedule(call.service, call.who, call.params["id"])
    return Go(f"{call.home}/job/{call.params['id']}", "schedule_paused")


@pages.post("/ui/t/{tenant}/job/{id}/resume", scope="manage")
async def resume(call: PageCall) -> Go:
    await schedules.resume_schedule(call.service, call.who, call.params["id"])
    return Go(f"{call.home}/job/{call.params['id']}", "resumed")


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
        "can_fix": False,
        "message": "",
        "payload": None,
        "result": None,
        "log": None,
        "is_silent": False,
        "progress": None,
        "follows": None,
        "limits": "",
        "attempt": "",
        "children": [],
        "is_first": True,
        "why": None,
        "can_cancel": False,
        "can_retry": False,
        "can_run_now": False,
        "attempts": [],
        "rounds": [],
        "can_change": False,
        "can_pause": False,
        "can_resume": False,
        "is_on_hold": False,
        "options": None,
        "tenant": call.tenant,
    }


def _progress(progress: object) -> Progress:
    percent = percent_of(progress)
    text = progress_text(progress) if percent is None else percent_text(percent)
    return Progress(inert_text.line(text), percent)


async def _can_fix(call: PageCall, type_name: str) -> bool:
    """Whether the reader may change the code that failed. That of a worker is elsewhere."""
    if not call.may("handlers"):
        return False
    handler = await handlers.find_handler(call.service, call.tenant, type_name)
    return handler is None or handler.lang != WORKER


def _attempt(job: Job) -> str:
    """Its number, and how many there may be if the job says so itself."""
    return attempts_text(job.attempts, limits_of(job.options).max_attempts)


def _attempts(found: JobRecord) -> list[Attempt]:
    """The runs that ended with retry or error, newest first, each with a message that is safe to show."""
    return [attempt._replace(message=inert_text.line(attempt.message)) for attempt in reversed(found.history)]


def _of_schedule(found: JobRecord) -> dict[str, Any]:
    """The last rounds of a job that repeats, newest first, and what can be done with it."""
    rounds, is_live = found.schedule.rounds, found.state is not JobState.ARCHIVED
    return {
        "rounds": [ended._replace(message=inert_text.line(ended.message)) for ended in reversed(rounds)],
        "round_codes": [ended.code.value for ended in rounds],
        "can_change": is_live and bool(found.job.repeat) and found.state not in _UNDER_WAY,
        "can_pause": is_live and bool(found.job.repeat) and found.schedule.pause is None,
        "can_resume": is_live and found.schedule.pause is not None,
        "is_on_hold": found.is_on_hold,
    }


async def _children(call: PageCall, found: JobRecord) -> JobPage:
    if not found.children:
        return JobPage((), None)
    cursor = call.query("children") or None
    return await jobs.list_children(call.service, call.tenant, found.job.id, cursor=cursor, limit=_CHILDREN)


async def _why(call: PageCall, found: JobRecord) -> Why | None:
    """The time that the reason names stands apart, so that it is shown in the reader's zone."""
    if found.state is JobState.ARCHIVED:
        return None
    reason = await why(call.service, call.tenant, found.job.id)
    times_ms = [reason.detail[name] for name in _MOMENTS if reason.detail.get(name)]
    until_ms = next((time_ms for time_ms in times_ms if iso_time(time_ms) in reason.text), None)
    if until_ms is None:
        return Why(inert_text.line(reason.text, 600), None, "")
    before, _, after = reason.text.rpartition(iso_time(until_ms))
    blank = " " if after.startswith(" ") else ""
    return Why(inert_text.line(before, 600), until_ms, blank + inert_text.line(after))


def _steps(found: JobRecord, now_ms: int) -> list[Step]:
    """The steps of its life that are known. Earlier attempts have a table of their own."""
    job, outcome = found.job, found.outcome
    steps = [Step("done", "Accepted", job.create_ms, "saved in the journal"), Step("done", "Stored")]
    is_between = found.state is JobState.DEFERRED or found.is_on_hold
    will_run_again = is_between and outcome is not None  # then it is due after that
    if job.scheduled_ms > job.create_ms and not will_run_again:
        steps.append(_due(found, now_ms))
    if found.claimed_ms and not (found.state is JobState.DEFERRED and outcome is None):
        earlier = "the last round" if job.repeat else "before it was queued again"
        times = f"attempt {_attempt(job)}" if job.attempts else earlier
        steps.append(Step("done", "Claimed", found.claimed_ms, times))
    if outcome is not None and found.state not in _UNDER_WAY:
        if _has_run(found):
            version = f"handler version {outcome.handler_version or '-'}"
            steps.append(Step("done", "Started", outcome.started_ms, version))
        steps.append(Step(outcome.code.value, f"Ended: {outcome.code.value}", found.done_ms))
    return [*steps, _present(found)]


def _has_run(found: JobRecord) -> bool:
    """Whether the last outcome is that of a run: a job can be cancelled without one."""
    return found.outcome is not None and found.outcome.started_ms > 0


def _next(found: JobRecord) -> Step:
    """When it runs again, or for the first time."""
    job, outcome = found.job, found.outcome
    is_retried = outcome is not None and outcome.code in {Code.RETRY, Code.ERROR}
    if job.repeat and not is_retried:
        return Step("next", "Next round", job.dt_ms, f"repeats: {inert_text.line(job.repeat)}")
    return Step("next", "Next attempt" if _has_run(found) else "Eligible", job.dt_ms)


def _present(found: JobRecord) -> Step:
    """Where it is now."""
    job = found.job
    is_with_worker = job.lock == OWNER
    match found.state:
        case JobState.RUNNING:
            title = "Held by a worker" if is_with_worker else f"Running on daemon {job.lock}"
            return Step("now", title, None, "its lease is renewed while it runs", found.claimed_ms)
        case JobState.LAPSED:
            title = "Lost by its worker" if is_with_worker else f"Lost by daemon {job.lock}"
            return Step(
                "now", title, job.dt_ms, f"another {'worker' if is_with_worker else 'daemon'} will take it over"
            )
        case JobState.WAITING:
            return Step("now", "Waiting for a runner")
        case JobState.DEFERRED:
            return _next(found)
        case JobState.PAUSED:
            return Step("now", _why_paused(found))
        case JobState.ARCHIVED:
            return Step("done", "Archived", found.done_ms, "kept with its result until it is purged")


def _why_paused(found: JobRecord) -> str:
    if found.is_on_hold:
        return "Paused until it is resumed"
    is_by_relatives = found.pending_children or found.job.parent
    return "Waiting for related jobs to finish" if is_by_relatives else "Held by a consumer"


def _due(found: JobRecord, now_ms: int) -> Step:
    """Its time has come, or will come, or is one that it did not live to see."""
    if found.state is JobState.DEFERRED:
        return Step("next", "Due", found.job.due_ms)
    due_ms = found.job.scheduled_ms
    is_past = due_ms <= (found.done_ms if found.state is JobState.ARCHIVED else now_ms)
    return Step("done", "Due" if is_past else "Deferred until", due_ms)
