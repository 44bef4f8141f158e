"""The text of `/{tenant}/metrics`. Names and labels are those of the operator's `/metrics` where they mean the same.
They stay: docs/alerts.md lists them."""

from typing import Final

from functory.loops.slices import Slices
from functory.operations.tenant_metrics import TenantMetrics, TypeFigures
from functory.web.http.metrics import ENDINGS, NOW
from functory.web.http.prometheus_text import sample
from store.base import Histogram
from vocabulary.names import type_of

_QUANTILES: Final = (0.5, 0.95, 0.99)
_KINDS: Final = {
    "jobs": "gauge",
    "job_endings_total": "counter",
    "type_paused": "gauge",
    "waiting_oldest_seconds": "gauge",
    "recent_runs": "gauge",
    "recent_run_seconds": "gauge",
    "run_seconds": "summary",
    "wait_seconds": "summary",
}
"""In this order; the samples of a metric stand together."""
_ROW: Final = 1000
"""What the lines of a type cost, as slices count it."""


async def render_tenant(found: TenantMetrics) -> bytes:
    """In slices: a tenant may have thousands of types."""
    lines: dict[str, list[str]] = {name: [] for name in _KINDS}
    slices = Slices()
    for figures in found.types:
        _add_type(lines, found.tenant, figures)
        await slices.spend(_ROW)
    parts = [
        "# TYPE functory_recent_window_seconds gauge",
        sample("recent_window_seconds", {"tenant": found.tenant}, found.window_s),
    ]
    for name, kind in _KINDS.items():
        parts.append(f"# TYPE functory_{name} {kind}")
        parts += lines[name]
    return ("\n".join(parts) + "\n").encode()


def _add_type(lines: dict[str, list[str]], tenant: str, figures: TypeFigures) -> None:
    row, recent = figures.counters, figures.recent
    labels = {"tenant": tenant, "type": type_of(row.jobtype)}
    lines["jobs"] += [sample("jobs", {**labels, "state": state}, getattr(row, state)) for state in NOW]
    endings = "job_endings_total"
    lines[endings] += [sample(endings, {**labels, "code": code}, getattr(row, code)) for code in ENDINGS]
    for name, value in (
        ("type_paused", row.paused),
        ("waiting_oldest_seconds", figures.oldest_s),
        ("recent_runs", recent.duration.count),
        ("recent_run_seconds", recent.runner_us / 1e6),
    ):
        lines[name].append(sample(name, labels, value))
    lines["run_seconds"] += _quantiles("run_seconds", labels, recent.duration)
    lines["wait_seconds"] += _quantiles("wait_seconds", labels, recent.wait)


def _quantiles(name: str, labels: dict[str, str], histogram: Histogram) -> list[str]:
    """Nothing when nothing ran lately: a quantile of nothing is no number."""
    found = [(share, histogram.quantile(share)) for share in _QUANTILES]
    return [sample(name, {**labels, "quantile": share}, us / 1e6) for share, us in found if us is not None]
