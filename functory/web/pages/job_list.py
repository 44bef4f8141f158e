"""Jobs of a tenant by state, type and outcome, page by page: a cursor, never a scan."""

from typing import Final, NamedTuple

from functory.errors import InvalidInput
from functory.operations import jobs
from functory.web.pages import inert_text
from functory.web.pages.call import PageCall
from functory.web.pages.declaration import Page, Pages
from store.base import Code, JobFilter, JobPage, JobRecord, JobState
from vocabulary.glob import PatternTooLong
from vocabulary.names import type_of

pages = Pages()

PAGE_JOBS: Final = 50
NOT_ENDED: Final = "unfinished"
"""In place of a state: all others than archived, one after the other."""
STATES: Final = {
    "archived": "Ended",
    NOT_ENDED: "Not ended yet",
    "waiting": "Waiting",
    "running": "Running",
    "deferred": "Deferred",
    "paused": "Held by relatives or a consumer",
    "lapsed": "Lost by their daemon",
}
_UNFINISHED: Final = (JobState.RUNNING, JobState.LAPSED, JobState.WAITING, JobState.DEFERRED, JobState.PAUSED)
CODES: Final = {
    "": "Any outcome",
    "ok": "ok",
    "failed,abandoned": "failed or abandoned",
    "failed": "failed",
    "abandoned": "abandoned",
    "cancelled": "cancelled",
}


class JobLine(NamedTuple):
    """A job in a list."""

    id: str
    type: str
    state: str
    code: str
    attempts: int
    time_ms: int
    """When it ended, or its run started; for others, when it is due, or its lease ended."""
    duration_us: int | None
    message: str
    size_bytes: int


@pages.get("/ui/t/{tenant}/jobs", scope="read", live="live/jobs.html")
async def list_jobs(call: PageCall) -> Page:
    state = call.query("state", "archived")
    state = state if state in STATES else "archived"
    code = call.query("code") if call.query("code") in CODES and state == "archived" else ""  # others have none yet
    type_name = call.query("type")
    states = _UNFINISHED if state == NOT_ENDED else (JobState(state),)
    where = JobFilter(
        states[0],
        None,
        codes_of(code) if code else None,
        call.number("since_ms", 0, 0, 1 << 52) or None,
        call.number("until_ms", 0, 0, 1 << 52) or None,
    )
    cursor = call.query("cursor") or None
    try:
        page = await jobs.list_states(
            call.service, call.tenant, states, where, named=type_name or None, cursor=cursor, limit=PAGE_JOBS
        )
    except (InvalidInput, PatternTooLong) as error:
        call.refusal, page = str(error), JobPage((), None)
    values = {
        "lines": [line_of(record) for record in page.records],
        "next": page.cursor,
        "is_first": cursor is None,
        "state": state,
        "states": STATES,
        "code": code,
        "codes": CODES,
        "type": type_name,
        "now_ms": call.now_ms,
    }
    return Page("jobs.html", values, 422 if call.refusal else 200)


def codes_of(text: str) -> frozenset[Code]:
    return frozenset(Code(name) for name in text.split(",") if name)


def line_of(record: JobRecord) -> JobLine:
    job, outcome = record.job, record.outcome
    is_running = record.state is JobState.RUNNING
    times = {JobState.ARCHIVED: record.done_ms, JobState.RUNNING: record.claimed_ms}
    return JobLine(
        job.id,
        type_of(job.jobtype),
        record.state.value,
        outcome.code.value if outcome else "",
        job.attempts,
        times.get(record.state, job.dt_ms),
        outcome.duration_us if outcome and not is_running else None,  # not of an earlier run
        inert_text.line(outcome.message, 160) if outcome else "",
        record.data_bytes,
    )
