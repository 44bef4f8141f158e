"""Latency: one job from its POST to its terminal result through `wait_s`, in an idle system and at half load.

python -m bench.service.latency [--json] [--jobs N] [--full N]

The limit is two bare aiohttp POSTs to another process in the same run: the cost of HTTP alone.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.service.http_servers import started
from bench.tools.connection import connect, message
from bench.tools.daemon import NO_OP, PAYLOAD, serve
from bench.tools.load import find_full_rate, steady
from bench.tools.report import Report, parse_arguments, quantile

WAIT_S: Final = 30
JOBS: Final = 1000
FULL_JOBS: Final = 30_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.latency", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="single jobs to time in each case")
    parser.add_argument("--full", type=int, default=FULL_JOBS, help="jobs that find out what the full load is")
    arguments = parse_arguments(parser, None)
    report = Report("latency", as_json=arguments.json)
    rows = asyncio.run(measure(arguments.jobs, arguments.full))
    report.table("one no-op python job, POST to recorded result through wait_s", rows)
    report.finish()


async def measure(jobs: int, full_jobs: int) -> list[dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="bench-latency-"))
    try:
        bare = await bare_times(folder, jobs)
        async with serve(folder / "data") as service:
            quiet, busy = [await service.make_tenant(name, {"noop": NO_OP["python"]}) for name in ("quiet", "busy")]
            full_rate = await find_full_rate(service, "busy", "noop", busy, full_jobs)
            idle = await round_trips(service.port, "quiet", "noop", quiet, jobs)
            async with steady(service, "busy", "noop", busy, full_rate / 2):
                loaded = await round_trips(service.port, "quiet", "noop", quiet, jobs)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)
    limit_ms = quantile([trip.took_ms for trip in bare], 0.5)
    return [
        row("two bare aiohttp POSTs", bare, limit_ms),
        row("idle", idle, limit_ms),
        row(f"beside {full_rate / 2:,.0f} jobs/s, half of what it can do", loaded, limit_ms),
    ]


class Trip(NamedTuple):
    """A job from its POST to its result; of that, from the journal to the start of its batch (whole milliseconds)."""

    took_ms: float
    to_start_ms: float


def row(name: str, trips: Sequence[Trip], limit_ms: float) -> dict[str, Any]:
    times_ms = [trip.took_ms for trip in trips]
    p50 = quantile(times_ms, 0.5)
    return {
        "system": name,
        "jobs": len(trips),
        "p50 ms": p50,
        "p95 ms": quantile(times_ms, 0.95),
        "p99 ms": quantile(times_ms, 0.99),
        "p50 to start ms": quantile([trip.to_start_ms for trip in trips], 0.5),
        "p50, times the bare one": p50 / limit_ms,
    }


async def round_trips(
    port: int, tenant: str, job_type: str, key: str, count: int, most_s: float = float("inf")
) -> list[Trip]:
    """One job after the other, each posted and waited for; fewer of them when the time is up."""
    trips: list[Trip] = []
    ends_s = time.perf_counter() + most_s
    post = message("POST", f"/{tenant}/job/{job_type}/add", key, PAYLOAD)
    async with connect(port) as connection:
        while len(trips) < count and (began_s := time.perf_counter()) < ends_s:
            job = json.loads(await connection.exchange(post))["ids"][0]
            answer = json.loads(await connection.exchange(message("GET", f"/{tenant}/job/{job}?wait_s={WAIT_S}", key)))
            took_ms = (time.perf_counter() - began_s) * 1000
            if answer["code"] != "ok":
                raise RuntimeError(f"the job did not end well: {answer}")
            trips.append(Trip(took_ms, answer["started_ms"] - answer["created_ms"]))
    return trips


async def bare_times(folder: Path, count: int) -> list[Trip]:
    """Two requests one after the other, like a job: its POST and its result."""
    trips = []
    async with started("bare", folder) as server, connect(server.port) as connection:
        post = message("POST", "/quiet/job/noop/add", server.key, PAYLOAD)
        for _ in range(count):
            began_s = time.perf_counter()
            await connection.exchange(post)
            await connection.exchange(post)
            trips.append(Trip((time.perf_counter() - began_s) * 1000, 0))
    return trips


if __name__ == "__main__":
    main()
