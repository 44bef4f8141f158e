"""One jobtype: its counts now, its last hour, its latency, its failures, its jobs, and its handler's versions."""

from typing import Any, Final, NamedTuple

from functory.operations import handlers, jobs, scoreboard, type_controls
from functory.operations.figures import no_counters
from functory.web.pages import charts
from functory.web.pages.board import Group
from functory.web.pages.call import PageCall, whole_number
from functory.web.pages.declaration import Go, Page, Pages
from functory.web.pages.job_list import line_of
from functory.web.pages.recent import Latency
from store.base import JobFilter, JobState

pages = Pages()

_RECENT_JOBS: Final = 15
_GROUPS: Final = 10
_CUTS: Final = (0.5, 0.9, 0.95, 0.99)


class Cut(NamedTuple):
    """A line of the table of quantiles."""

    name: str
    run_us: int | None
    wait_us: int | None


@pages.get("/ui/t/{tenant}/type/{type}", scope="read", live="live/jobtype.html")
async def show_jobtype(call: PageCall) -> Page:
    recent, jobtype, now_ms = call.tools.recent, call.jobtype, call.now_ms
    seen = await recent.snapshot(call.who)
    hour = (await recent.hours(call.who, [jobtype]))[jobtype]
    latency = (await recent.latencies(call.who, [jobtype]))[jobtype]
    groups = await scoreboard.failures(call.service, call.tenant, named=call.type_name, since_ms=0, limit=_GROUPS)
    versions = await handlers.find_versions(call.service, call.tenant, call.type_name)
    ended = JobFilter(JobState.ARCHIVED, jobtype)
    page = await jobs.list_jobs(
        call.service, call.tenant, ended, cursor=None, limit=_RECENT_JOBS, max_bytes=jobs.LINE_BYTES
    )
    counters = seen.counters.get(jobtype) or no_counters(jobtype)
    handler = next((it for it in versions if it.current), None)
    values: dict[str, Any] = {
        "type": call.type_name,
        "counters": counters,
        "unasked_s": seen.unasked_s.get(jobtype),
        "handler": handler,
        "unreadable": call.service.control.unreadable(jobtype),
        "minutes": hour.ended,
        "hour": hour.total,
        "peak": charts.peak(hour.ended, now_ms),
        "cuts": _cuts(latency),
        "measured": latency.run.count,
        "groups": [Group(call.type_name, it) for it in groups],
        "lines": [line_of(record) for record in page.records],
        "has_more": page.cursor is not None,
        "now_ms": now_ms,
        "versions": versions,
        "site": call.place.origin,
    }
    return Page("jobtype.html", values, state=(counters.paused, handler and handler.version))


@pages.post("/ui/t/{tenant}/type/{type}/pause", scope="manage")
async def pause(call: PageCall) -> Go:
    await type_controls.pause_type(call.service, call.who, call.tenant, call.type_name, paused=True)
    return Go(f"{call.home}/type/{call.type_name}", "paused")


@pages.post("/ui/t/{tenant}/type/{type}/resume", scope="manage")
async def resume(call: PageCall) -> Go:
    await type_controls.pause_type(call.service, call.who, call.tenant, call.type_name, paused=False)
    return Go(f"{call.home}/type/{call.type_name}", "resumed")


@pages.post("/ui/t/{tenant}/type/{type}/rollback", scope="handlers")
async def roll_back(call: PageCall) -> Go:
    version = whole_number(call.form.get("version", "")) or 0
    before = await handlers.find_handler(call.service, call.tenant, call.type_name)
    stored = await handlers.roll_back(call.service, call.who, call.type_name, version)
    is_same = before is not None and before.version == stored.version
    return Go(f"{call.home}/type/{call.type_name}", "unchanged" if is_same else "rolled_back")


def _cuts(latency: Latency) -> list[Cut]:
    return [Cut(f"p{cut * 100:g}", latency.run.quantile(cut), latency.wait.quantile(cut)) for cut in _CUTS]
