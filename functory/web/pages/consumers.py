"""Consumers: how far each has come, and the window of one: what is done, in work, and what it waits for."""

from typing import Final

from functory.operations import consumers
from functory.operations.consumers import Gap, Standing, leader_of, window_of
from functory.web.pages import inert_text
from functory.web.pages.call import PageCall
from functory.web.pages.charts import window_bar
from functory.web.pages.declaration import Go, Page, Pages
from store.base import Attempt, JobState
from store.errors import NotFound
from vocabulary.names import is_type, type_of

pages = Pages()


@pages.get("/ui/t/{tenant}/consumers", scope="read", live="live/consumers.html")
async def list_consumers(call: PageCall) -> Page:
    found = await consumers.list_consumers(call.service, call.tenant)
    return Page("consumers.html", {"rows": [_row(it, call.now_ms) for it in found], "now_ms": call.now_ms})


@pages.get("/ui/t/{tenant}/consumers/{consumer}", scope="read", live="live/consumer.html")
async def show_consumer(call: PageCall) -> Page:
    standing = await consumers.get_consumer(call.service, call.tenant, _name(call))
    window = window_of(standing)
    sizes = {state: sum(it.last - it.first + 1 for it in window if it.state == state) for state in _STATES}
    gap = standing.gap
    ended_badly = gap is not None and gap.record.state is JobState.ARCHIVED
    row = _row(standing, call.now_ms)
    values = {
        **row,
        "terms": standing.terms,
        "trouble": standing.note.trouble,
        "next_lag": standing.next_lag,
        "skipped": standing.note.skipped,
        "bar": window_bar(window),
        "window": window,
        "sizes": sizes,
        "gap": gap,
        "failing": _last_failure(gap),
        "gap_code": gap.record.outcome.code.value if gap is not None and ended_badly and gap.record.outcome else "",
        "now_ms": call.now_ms,
    }
    return Page("consumer.html", values, state=(row["state"],))


@pages.post("/ui/t/{tenant}/consumers/{consumer}/{order:start|stop}", scope="manage")
async def run_consumer(call: PageCall) -> Go:
    running = call.params["order"] == "start"
    await consumers.run_consumer(call.service, call.who, _name(call), running=running)
    return Go(f"{call.home}/consumers/{_name(call)}", "started" if running else "stopped")


_STATES: Final = ("done", "in_work", "failed")


def _name(call: PageCall) -> str:
    name = call.params["consumer"]
    if not is_type(name):
        raise NotFound("there is no such consumer")
    return name


def _last_failure(gap: Gap | None) -> Attempt | None:
    """The last run of the index that progress waits for, if that did not end well and is to be repeated."""
    if gap is None or gap.record.state is JobState.ARCHIVED or not gap.record.history:
        return None
    last = gap.record.history[-1]
    return last._replace(message=inert_text.line(last.message, 300))


def _row(standing: Standing, now_ms: int) -> dict[str, object]:
    record, _, note, report = standing[:4]
    return {
        "name": record.name,
        "source": type_of(record.jobtype),
        "state": "deleting" if record.is_ending else "running" if record.is_running else "stopped",
        "processed": report.processed,
        "head": report.head,
        "lag": max(report.head - report.processed, 0),
        "leader": leader_of(record, now_ms),
        "blocks": note.blocks,
        "skips": note.skips,
    }
