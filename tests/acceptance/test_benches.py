"""The benches run: a real daemon under a tiny load, and figures that agree with each other."""

import asyncio
import json
import sys
from typing import Any

import pytest

from bench.tools.cpu import CONTEXTS, EVENT_LOOP
from tests.support.needs import missing

pytestmark = pytest.mark.slow


async def test_end_to_end_counts_every_job_and_says_where_the_time_went() -> None:
    result = await run("endtoend", "--jobs", "1500", "--result-bytes", "64", "--types", "2")
    [rates], [costs] = result["tables"].values()
    assert rates["jobs"] == 1500
    assert 0 < rates["jobs/s"] < rates["accepted/s"]
    parts = [value for name, value in costs.items() if name not in {"jobs are", "all", "SQLite alone"}]
    assert sum(parts) == pytest.approx(costs["all"])
    assert costs[EVENT_LOOP] > 0
    assert costs[CONTEXTS] >= 0
    assert result["machine"]["sync"]


async def test_growth_fills_a_store_beside_a_tenant_that_posts() -> None:
    [rows] = (await run("growth", "--jobs", "300", "--waiting", "1000", "2000"))["tables"].values()
    assert [row["waiting"] for row in rows] == [1000, 2000]
    assert all(row["cpu us/job"] > 0 for row in rows)


async def run(bench: str, *options: str) -> Any:
    """What this bench of the service gives as JSON."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"bench.service.{bench}", "--json", *options,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    if b"no isolation here" in err:
        missing("isolation", "run the tests where a sandbox can be made (`functory doctor` says what is missing)")
    assert process.returncode == 0, err.decode()
    return json.loads(out)
