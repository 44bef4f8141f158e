"""The scoreboard: what runs, how fast, what failed and why. One row for each type, sorted and cut on the server.

It reads counters and the buckets of the rows shown, however many jobs there are. Sorting by a count of the last hour,
and showing the types that failed in it, reads that count for all types, at most every five seconds.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from functory.web.pages import charts
from functory.web.pages.call import PageCall
from functory.web.pages.declaration import Page, Pages
from functory.web.pages.recent import RATE_MINUTES, Hour, Snapshot, ended_of
from store.base import Code, EndedSum, FailureGroup, Histogram, TypeCounters
from store.values.scoreboard import MINUTE_MS, OTHER_FAILURES
from vocabulary.names import type_of

pages = Pages()

PAGE_ROWS: Final = 50
_OF_NOW: Final = ("waiting", "running", "deferred")
_OF_HOUR: Final = ("ok", "retry", "failed", "error", "abandoned")
_BAD: Final = frozenset({Code.FAILED, Code.ERROR, Code.ABANDONED})
_RUNS: Final = frozenset(Code) - {Code.CANCELLED}
"""How a run ends. A job that is cancelled has rarely run."""
SORTS: Final = ("type", *_OF_NOW, *_OF_HOUR, "rate")
SHOWS: Final = {
    "all": "All types",
    "failing": "Failed in the last hour",
    "busy": "With jobs waiting or running",
    "held": "With jobs that are held",
    "paused": "Types that are paused",
    "no_handler": "Without a handler",
    "no_worker": "Without a worker",
}


class Row(NamedTuple):
    type: str
    now: TypeCounters
    hour: Hour
    rate: float
    p50_us: int | None
    p95_us: int | None
    has_handler: bool
    is_failing: bool
    unasked_s: float | None
    unreadable: str


@pages.get("/ui/t/{tenant}", scope="read", live="live/board.html")
async def show_board(call: PageCall) -> Page:
    seen = await call.tools.recent.snapshot(call.who)
    needle, shown = call.query("q")[:100], call.query("show", "all")
    sort, is_down = _order(call.query("sort"))
    chosen = list(seen.counters.values())
    if needle:
        chosen = [it for it in chosen if needle.lower() in type_of(it.jobtype).lower()]
    if shown in _FITS:
        chosen = [it for it in chosen if _FITS[shown](it, seen)]
    elif shown == "failing":
        failing = await call.tools.recent.counts(call.who, charts.MINUTES, _BAD)
        chosen = [it for it in chosen if failing.get(it.jobtype)]
    if sort != "type":
        chosen.sort(key=await _key(call, sort), reverse=is_down)
    elif is_down:
        chosen.reverse()
    start = call.start(len(chosen), PAGE_ROWS)
    rows = await _rows(call, [it.jobtype for it in chosen[start : start + PAGE_ROWS]], seen)
    values = {
        "seen": seen,
        "rows": rows,
        "waiting": sum(it.waiting for it in seen.counters.values()),
        "running": sum(it.running for it in seen.counters.values()),
        "deferred": sum(it.deferred for it in seen.counters.values()),
        "held": sum(it.blocked for it in seen.counters.values()),
        "types": len(seen.counters),
        "matching": len(chosen),
        "start": start,
        "page_rows": PAGE_ROWS,
        "sort": sort,
        "is_down": is_down,
        "q": needle,
        "show": shown if shown in SHOWS else "all",
        "shows": SHOWS,
        "hour": charts.total(seen.minutes, seen.at_ms),
        "peak": charts.peak(seen.minutes, seen.at_ms),
        "rate": ended_of(_last(seen.minutes, seen.at_ms)) / RATE_MINUTES,
        "groups": [_group(it) for it in seen.failures[:5]],
        "more_groups": len(seen.failures) > 5,
        "site": call.place.origin,
    }
    return Page("board.html", values)


class Group(NamedTuple):
    """A failure group as its tenant sees it."""

    type: str
    failure: FailureGroup

    @property
    def is_other(self) -> bool:
        """Of all errors that have no group of their own."""
        return self.failure.fingerprint == OTHER_FAILURES


def _group(failure: FailureGroup) -> Group:
    return Group(type_of(failure.jobtype), failure)


def _order(text: str) -> tuple[str, bool]:
    """`failed` sorts descending, `-failed` ascending; names the other way round. What people want first has no sign."""
    name = text.removeprefix("-")
    if name not in SORTS:
        return "type", False
    return name, (name != "type") != text.startswith("-")


_FITS: Final[Mapping[str, Callable[[TypeCounters, Snapshot], bool]]] = {
    "busy": lambda it, _: it.waiting + it.running > 0,
    "held": lambda it, _: it.blocked > 0,
    "paused": lambda it, _: it.paused,
    "no_handler": lambda it, seen: it.jobtype not in seen.handled,
    "no_worker": lambda it, seen: it.jobtype in seen.unasked_s,
}


async def _key(call: PageCall, sort: str) -> Callable[[TypeCounters], float]:
    if sort in _OF_NOW:
        return lambda it: float(getattr(it, sort))
    if sort == "rate":
        counts = await call.tools.recent.counts(call.who, RATE_MINUTES, _RUNS)
    else:
        counts = await call.tools.recent.counts(call.who, charts.MINUTES, frozenset({Code(sort)}))
    return lambda it: float(counts.get(it.jobtype, 0))


async def _rows(call: PageCall, jobtypes: list[str], seen: Snapshot) -> list[Row]:
    if not jobtypes:
        return []
    hours = await call.tools.recent.hours(call.who, jobtypes)
    latencies = await call.tools.recent.latencies(call.who, jobtypes)
    rows = []
    for jobtype in jobtypes:
        run: Histogram = latencies[jobtype].run
        total = hours[jobtype].total
        rows.append(
            Row(
                type_of(jobtype),
                seen.counters[jobtype],
                hours[jobtype],
                ended_of(_last(hours[jobtype].ended, seen.at_ms)) / RATE_MINUTES,
                run.quantile(0.5),
                run.quantile(0.95),
                jobtype in seen.handled,
                total.failed + total.error + total.abandoned > 0,
                seen.unasked_s.get(jobtype),
                call.service.control.unreadable(jobtype),
            )
        )
    return rows


def _last(minutes: Mapping[int, EndedSum], now_ms: int) -> Iterable[EndedSum]:
    since_ms = (now_ms // MINUTE_MS - RATE_MINUTES + 1) * MINUTE_MS
    return [it for start, it in minutes.items() if start >= since_ms]
