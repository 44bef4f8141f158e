"""The text of `/{tenant}/metrics`. Names and labels are those of the operator's `/metrics` where they mean the same.
They stay: docs/alerts.md lists them."""

from typing import Final

from functory.loops.slices import Slices
from functory.operations.allowance import Allowance, quotas
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
    """In slices: a tenant may have thousands of types. Each leaves bytes, so that little is left to do at the end."""
    texts = {name: bytearray(f"# TYPE functory_{name} {kind}\n".encode()) for name, kind in _KINDS.items()}
    slices = Slices()
    for figures in found.types:
        for name, lines in _lines_of(found.tenant, figures).items():
            texts[name] += "".join(f"{line}\n" for line in lines).encode()
        await slices.spend(_ROW)
    window = sample("recent_window_seconds", {"tenant": found.tenant}, found.window_s)
    return b"".join(
        [
            f"# TYPE functory_recent_window_seconds gauge\n{window}\n".encode(),
            _render_allowance(found.tenant, found.allowance).encode(),
            *texts.values(),
        ]
    )


def _render_allowance(tenant: str, it: Allowance) -> str:
    """Of what there is no limit, there is no sample of one."""
    found = [(quota, {"tenant": tenant, "of": quota.what}) for quota in quotas(it)]
    used = [sample("usage", labels, quota.used) for quota, labels in found]
    most = [sample("limit", labels, quota.limit) for quota, labels in found if quota.limit is not None]
    lines = ["# TYPE functory_usage gauge", *used, "# TYPE functory_limit gauge", *most]
    return "".join(f"{line}\n" for line in lines)


def _lines_of(tenant: str, figures: TypeFigures) -> dict[str, list[str]]:
    row, recent = figures.counters, figures.recent
    labels = {"tenant": tenant, "type": type_of(row.jobtype)}
    endings = "job_endings_total"
    return {
        "jobs": [sample("jobs", {**labels, "state": state}, getattr(row, state)) for state in NOW],
        endings: [sample(endings, {**labels, "code": code}, getattr(row, code)) for code in ENDINGS],
        "type_paused": [sample("type_paused", labels, row.paused)],
        "waiting_oldest_seconds": [sample("waiting_oldest_seconds", labels, figures.oldest_s)],
        "recent_runs": [sample("recent_runs", labels, recent.duration.count)],
        "recent_run_seconds": [sample("recent_run_seconds", labels, recent.runner_us / 1e6)],
        "run_seconds": _quantiles("run_seconds", labels, recent.duration),
        "wait_seconds": _quantiles("wait_seconds", labels, recent.wait),
    }


def _quantiles(name: str, labels: dict[str, str], histogram: Histogram) -> list[str]:
    """Nothing when nothing ran lately: a quantile of nothing is no number."""
    found = [(share, histogram.quantile(share)) for share in _QUANTILES]
    return [sample(name, {**labels, "quantile": share}, us / 1e6) for share, us in found if us is not None]
