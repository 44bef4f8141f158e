"""The jobs of a tenant that repeat: when each runs next, and how its last round ended."""

from typing import Final, NamedTuple

from functory.errors import InvalidInput
from functory.operations import job_changes, jobs
from functory.web.pages import inert_text
from functory.web.pages.call import PageCall
from functory.web.pages.declaration import Go, Page, Pages
from store.base import JobPage, JobRecord
from vocabulary.names import type_of

pages = Pages()

_PAGE_SCHEDULES: Final = 50


class ScheduleLine(NamedTuple):
    id: str
    type: str
    name: str
    repeat: str
    state: str
    due_ms: int
    code: str
    """Of the last round; empty: there was none."""
    done_ms: int
    message: str


@pages.get("/ui/t/{tenant}/schedules", scope="read", live="live/schedules.html")
async def list_schedules(call: PageCall) -> Page:
    cursor = call.query("cursor") or None
    try:
        page = await jobs.list_schedules(call.service, call.tenant, cursor=cursor, limit=_PAGE_SCHEDULES)
    except InvalidInput as error:
        call.refusal, page = str(error), JobPage((), None)
    values = {
        "lines": [_line_of(record) for record in page.records],
        "next": page.cursor,
        "is_first": cursor is None,
        "now_ms": call.now_ms,
    }
    return Page("schedules.html", values, 422 if call.refusal else 200)


@pages.post("/ui/t/{tenant}/schedules/{id}/run", scope="manage")
async def run_now(call: PageCall) -> Go:
    await job_changes.retry_job(call.service, call.who, call.params["id"])
    return Go(f"{call.home}/schedules", "retried")


@pages.post("/ui/t/{tenant}/schedules/{id}/cancel", scope="manage")
async def cancel(call: PageCall) -> Go:
    await jobs.cancel_job(call.service, call.tenant, call.params["id"])
    return Go(f"{call.home}/schedules", "cancelled")


def _line_of(record: JobRecord) -> ScheduleLine:
    job, outcome = record.job, record.outcome
    return ScheduleLine(
        job.id,
        type_of(job.jobtype),
        inert_text.line(job.unique),
        inert_text.line(job.repeat),
        record.state.value,
        job.dt_ms,
        outcome.code.value if outcome else "",
        record.done_ms if outcome else 0,
        inert_text.line(outcome.message, 160) if outcome else "",
    )
