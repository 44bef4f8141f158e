"""Counts of requests, and the text of `/metrics` in the format of Prometheus."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from functory.web.http.prometheus_text import metric
from functory.workers.unasked import Unasked
from journal import JournalStats
from store.base import TypeCounters, WaitingType
from vocabulary.names import tenant_of, type_of

_METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"})
NOW: Final = ("waiting", "deferred", "running", "blocked")
ENDINGS: Final = ("ok", "failed", "retry", "error", "abandoned", "cancelled")


class RequestCounts:
    """Requests and seconds by method, route and status. Bounded: only paths of routes and known methods are counted."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], list[float]] = {}

    def count(self, method: str, path: str, status: int, seconds: float) -> None:
        key = (method if method in _METHODS else "other", path, status)
        found = self._counts.get(key)
        if found is None:
            self._counts[key] = [1, seconds]
        else:
            found[0] += 1
            found[1] += seconds

    def lines(self) -> Iterator[str]:
        rows = [
            ({"method": method, "path": path, "status": status}, counts)
            for (method, path, status), counts in sorted(self._counts.items())
        ]
        yield from metric("http_requests_total", "counter", [(labels, counts[0]) for labels, counts in rows])
        yield from metric("http_request_seconds_total", "counter", [(labels, counts[1]) for labels, counts in rows])


def render(
    requests: RequestCounts,
    gauges: Mapping[str, float],
    journal: JournalStats,
    counters: Iterable[TypeCounters],
    waiting: Iterable[WaitingType],
    now_ms: int,
) -> str:
    """Render the text. `counters` and `waiting` are of the whole store and the same on every daemon: take their
    maximum, not their sum."""
    lines = [*requests.lines()]
    for name, value in sorted(gauges.items()):
        lines += metric(name, "counter" if name.endswith("_total") else "gauge", [({}, value)])
    for name in ("segments", "backlog_bytes", "reservations"):
        lines += metric(f"journal_{name}", "gauge", [({}, getattr(journal, name))])
    for name in ("lines_written", "lines_read", "damages"):
        lines += metric(f"journal_{name}_total", "counter", [({}, getattr(journal, name))])
    now, ended = [], []
    for row in counters:
        labels = _labels(row.jobtype)
        now += [({**labels, "state": state}, getattr(row, state)) for state in NOW]
        ended += [({**labels, "code": code}, getattr(row, code)) for code in ENDINGS]
    lines += metric("jobs", "gauge", now)
    lines += metric("job_endings_total", "counter", ended)
    runnable = [(_labels(each.jobtype), each) for each in waiting if each.handler_version]
    lines += metric("runnable_jobs", "gauge", [(labels, each.waiting) for labels, each in runnable])
    ages = [(labels, max(0, now_ms - each.oldest_due_ms) / 1000) for labels, each in runnable]
    lines += metric("runnable_oldest_seconds", "gauge", ages)
    return "\n".join(lines) + "\n"


def render_egress(egress: Mapping[str, Mapping[str, float]]) -> str:
    """What the handlers of each tenant have used of this daemon's proxy."""
    names = sorted({name for figures in egress.values() for name in figures})
    lines: list[str] = []
    for name in names:
        samples = [({"tenant": tenant}, figures[name]) for tenant, figures in sorted(egress.items())]
        lines += metric(f"tenant_egress_{name}", "counter" if name.endswith("_total") else "gauge", samples)
    return "".join(f"{line}\n" for line in lines)


def render_arrivals(totals: Mapping[str, int]) -> str:
    """What came to the webhooks of this daemon, by what became of it."""
    samples = [({"outcome": outcome}, count) for outcome, count in totals.items()]
    return "".join(f"{line}\n" for line in metric("webhook_arrivals_total", "counter", samples))


def render_unasked(unasked: Iterable[Unasked]) -> str:
    """Of the whole store, as `waiting` is. A type that workers serve is there while it has jobs that could run."""
    lines = metric("runnable_unasked_seconds", "gauge", [(_labels(each.jobtype), each.seconds) for each in unasked])
    return "".join(f"{line}\n" for line in lines)


def _labels(jobtype: str) -> dict[str, str]:
    return {"tenant": tenant_of(jobtype), "type": type_of(jobtype)}
