"""What the benches send, and how they read what the daemon answers."""

import pytest

from bench.service.soak import Sample, flatness
from bench.tools.daemon import PAYLOAD, posts, sum_metrics


@pytest.mark.parametrize(("jobs", "lines"), [(0, 10), (-5, 10), (1, 10), (10, 10), (25, 10), (3, 1)])
def test_every_job_is_posted_once(jobs: int, lines: int) -> None:
    requests = posts("acme", "noop", "key", jobs, lines)
    assert sum(request.count(PAYLOAD + b"\n") for request in requests) == max(jobs, 0)
    for request in requests:
        head, _, body = request.partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head


def test_metrics_are_summed_over_tenants_and_types_but_not_over_codes() -> None:
    text = """# TYPE functory_job_endings_total counter
functory_job_endings_total{tenant="a",type="x",code="ok"} 3
functory_job_endings_total{tenant="b",type="y",code="ok"} 4
functory_job_endings_total{tenant="a",type="x",code="failed"} 1
functory_jobs{tenant="a",type="x",state="waiting"} 7
functory_journal_lines_read_total 12
"""
    assert sum_metrics(text) == {
        "job_endings_total ok": 7,
        "job_endings_total failed": 1,
        "jobs waiting": 7,
        "journal_lines_read_total": 12,
    }


def soak(memory_mb: list[float]) -> dict[str, str]:
    """The verdicts of a run with these figures of memory, and everything else steady."""
    steady = {"jobs/s": 1000.0, "open files": 48.0, "journal lag lines": 100.0, "waiting": 200.0}
    samples = [Sample(float(at), {**steady, "memory MB": mb}) for at, mb in enumerate(memory_mb)]
    return {row["what"]: row["flat"] for row in flatness(samples)}


def test_caches_that_fill_at_first_are_no_leak() -> None:
    assert set(soak([50, 80, 95, 99, 99, 99, 99, 100, 99, 99, 100, 100]).values()) == {"yes"}


def test_a_slow_leak_is_found() -> None:
    verdicts = soak([100 + 5 * minute for minute in range(12)])
    assert verdicts.pop("memory MB") == "no"
    assert set(verdicts.values()) == {"yes"}
