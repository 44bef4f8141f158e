"""Jobs of a tenant by state, type and outcome, page by page; or by what is in them, so many at a time."""

from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

from functory.errors import InvalidInput
from functory.operations import jobs
from functory.operations.ages import AGES, ANY_AGE, span_of
from functory.operations.finding import EVERY_STATE
from functory.operations.run_message import run_message
from functory.operations.searching import Listing, search
from functory.web.pages import inert_text
from functory.web.pages.call import PageCall
from functory.web.pages.declaration import Go, Page, Pages
from journal import parse_id
from store.base import Code, JobFilter, JobPage, JobRecord, JobState
from store.errors import InvalidValue
from vocabulary.names import type_of

pages = Pages()

PAGE_JOBS: Final = 50
MOST_SOUGHT: Final = 200
"""Characters of a text that is looked for."""
NOT_ENDED: Final = "unfinished"
"""In place of a state: all others than archived, one after the other."""
ANY_STATE: Final = "all"
STATES: Final = {
    ANY_STATE: "Any state",
    "archived": "Ended",
    NOT_ENDED: "Not ended yet",
    "waiting": "Waiting",
    "running": "Running",
    "deferred": "Deferred",
    "paused": "Held by relatives or a consumer",
    "lapsed": "Lost by their daemon",
}
_UNFINISHED: Final = tuple(state for state in EVERY_STATE if state is not JobState.ARCHIVED)
_SEVERAL: Final = {ANY_STATE: EVERY_STATE, NOT_ENDED: _UNFINISHED}
NAMED: Final = ("unique", "key", "failure")
"""By what else jobs are looked for: one of these."""
ENDINGS: Final = ("ok", "failed", "abandoned", "cancelled")
CODES: Final = {
    "": "Any outcome",
    "ok": "ok",
    "failed,abandoned": "failed or abandoned",
    "failed": "failed",
    "abandoned": "abandoned",
    "cancelled": "cancelled",
}


class Deed(NamedTuple):
    """What can be done with the jobs of a list: a link to the page that does it."""

    words: str
    link: str


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
    names: str
    """Its unique name, its key and its rate domain, if it has them."""
    payload: str
    """Its beginning, as far as it was read."""
    is_on_hold: bool
    """Whether it is a schedule that waits for nothing but a resume."""


@pages.get("/ui/t/{tenant}/jobs", scope="read", live="live/jobs.html")
async def list_jobs(call: PageCall) -> Page:
    named = {name: call.query(name).strip() for name in NAMED}
    state = call.query("state", ANY_STATE if any(named.values()) else "archived")
    state = state if state in STATES else "archived"
    code = call.query("code") if call.query("code") in CODES and state == "archived" else ""  # others have none yet
    age = call.query("age") if call.query("age") in AGES and state == "archived" else ANY_AGE
    type_name = call.query("type")
    states = _SEVERAL[state] if state in _SEVERAL else (JobState(state),)
    where = JobFilter(states[0], None, codes_of(code) if code else None, *span_of(age, call.now_ms))
    where = where._replace(unique=named["unique"] or None, key=named["key"] or None, failure=named["failure"] or None)
    cursor, contains = call.query("cursor") or None, call.query("contains")[:MOST_SOUGHT]
    listing: Listing = {"cursor": cursor, "limit": PAGE_JOBS, "max_bytes": jobs.LINE_BYTES}
    looked_at: int | None = None
    try:
        if contains:
            page, looked_at = await search(
                call.service, call.tenant, states, where, contains, call.is_heard, named=type_name or None, **listing
            )
        else:
            async with call.tools.web.listings.of(call.tenant):
                page = await jobs.list_states(
                    call.service, call.tenant, states, where, named=type_name or None, **listing
                )
    except (InvalidInput, InvalidValue) as error:
        call.refusal, page = str(error), JobPage((), None)
    values = {
        "lines": [line_of(record) for record in page.records],
        "contains": contains,
        "looked_at": looked_at,
        "next": page.cursor,
        "is_first": cursor is None,
        "state": state,
        "states": STATES,
        "code": code,
        "codes": CODES,
        "age": age,
        "ages": AGES,
        "type": type_name,
        "named": named,
        "is_named": any(named.values()),
        "deeds": [] if named["unique"] or contains or not call.may("manage") else _deeds(call, state, code, age),
        "now_ms": call.now_ms,
    }
    return Page("jobs.html", values, 422 if call.refusal else 200)


@pages.get("/ui/t/{tenant}/find", scope="read", is_page=False)
async def find_job(call: PageCall) -> Go:
    """The page of the job whose id somebody has, or the jobs of that unique name."""
    text = call.query("id").strip()
    if not text:
        return Go(f"{call.home}/jobs")
    try:
        parse_id(text)
    except ValueError:
        return Go(f"{call.home}/jobs?{urlencode({'unique': text})}")
    return Go(f"{call.home}/job/{quote(text, safe='')}")


def _deeds(call: PageCall, state: str, code: str, age: str) -> list[Deed]:
    """For the same filter. With a type, a key or a failure, the page that does it begins with what it would do."""
    chosen = {name: call.query(name) for name in ("type", "key", "failure") if call.query(name)}
    chosen |= {"look": "1"} if chosen else {}
    deeds = []
    if state != "archived":
        names = [it.value for it in _UNFINISHED] if state in _SEVERAL else [state]
        deeds += [Deed("Cancel…", f"{call.home}/cancel?{urlencode(chosen | dict.fromkeys(names, 'yes'))}")]
    if state in {"archived", ANY_STATE}:
        codes = dict.fromkeys(code.split(",") if code else ENDINGS, "yes")
        query = urlencode(chosen | codes | {"age": age})
        deeds += [Deed("Run again…", f"{call.home}/replay?{query}"), Deed("Delete…", f"{call.home}/delete?{query}")]
    return deeds


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
        inert_text.line(run_message(record), 160),
        inert_text.line(" · ".join(filter(None, (job.unique, job.key, job.domain))), 160),
        inert_text.begin(job.data, record.data_bytes),
        record.is_on_hold,
    )
