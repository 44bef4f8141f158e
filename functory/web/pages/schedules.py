"""The jobs of a tenant that repeat: when each runs next, and how its last round ended. The page of each runs and ends
it."""

from typing import Final, NamedTuple

from functory.operations import schedules
from functory.web.pages import inert_text
from functory.web.pages.call import PageCall
from functory.web.pages.declaration import Page, Pages
from store.base import JobPage, JobRecord
from store.errors import InvalidValue
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
    paused_ms: int
    """Since when it is paused; 0: it is not."""
    is_on_hold: bool
    """Whether it waits for nothing but a resume."""
    codes: tuple[str, ...]
    """Of the last rounds, oldest first."""


@pages.get("/ui/t/{tenant}/schedules", scope="read", live="live/schedules.html")
async def list_schedules(call: PageCall) -> Page:
    cursor = call.query("cursor") or None
    try:
        page = await schedules.list_schedules(call.service, call.tenant, cursor=cursor, limit=_PAGE_SCHEDULES)
    except InvalidValue as error:
        call.refusal, page = str(error), JobPage((), None)
    values = {
        "lines": [_line_of(record) for record in page.records],
        "next": page.cursor,
        "is_first": cursor is None,
        "now_ms": call.now_ms,
    }
    return Page("schedules.html", values, 422 if call.refusal else 200)


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
        record.schedule.pause.since_ms if record.schedule.pause else 0,
        record.is_on_hold,
        tuple(ended.code.value for ended in record.schedule.rounds),
    )
