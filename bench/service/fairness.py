"""Fairness: how long a quiet tenant waits for a job while another tenant floods the daemon, and without a flood.

python -m bench.service.fairness [--json] [--jobs N] [--seconds S]

The quiet tenant posts one job after the other and waits for each. The flood always has jobs waiting: first
no-ops, then jobs of 200 ms, so that all slots are always busy.
"""

import argparse
import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from bench.service.latency import Trip, round_trips
from bench.tools.daemon import NO_OP, serve
from bench.tools.load import flood
from bench.tools.report import Report, parse_arguments, quantile

JOBS: Final = 200
SECONDS: Final = 15.0
HANDLERS: Final = {
    "short": NO_OP["python"],
    "long": {"lang": "python", "before": "import time", "body": "time.sleep(0.2)"},
}
BACKLOGS: Final = {"short": 20_000, "long": 500}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.fairness", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="of the quiet tenant in each case")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each case at most")
    arguments = parse_arguments(parser, None)
    report = Report("fairness", as_json=arguments.json)
    rows = asyncio.run(measure(arguments.jobs, arguments.seconds))
    report.table("a quiet tenant's job, POST to recorded result, beside a tenant that floods", rows)
    report.finish()


async def measure(jobs: int, seconds: float) -> list[dict[str, Any]]:
    idle: list[Trip] = []
    rows = []
    for kind in ("idle", *BACKLOGS):  # a daemon for each: what a flood has left behind is not the next one's
        folder = Path(tempfile.mkdtemp(prefix="bench-fairness-"))
        try:
            trips = await quiet_trips(folder, kind, jobs, seconds)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder)
        idle = idle or trips
        rows.append(row(kind, trips, idle))
    return rows


async def quiet_trips(folder: Path, kind: str, jobs: int, seconds: float) -> list[Trip]:
    async with serve(folder / "data") as service:
        key = await service.make_tenant("quiet", {"noop": NO_OP["python"]})
        await round_trips(service.port, "quiet", "noop", key, 20, seconds)  # a warm context, as it has in use
        if kind == "idle":
            return await round_trips(service.port, "quiet", "noop", key, jobs, seconds)
        busy = await service.make_tenant("busy", {kind: HANDLERS[kind]})
        async with flood(service, "busy", kind, busy, BACKLOGS[kind]):
            return await round_trips(service.port, "quiet", "noop", key, jobs, seconds)


def row(kind: str, trips: list[Trip], idle: list[Trip]) -> dict[str, Any]:
    p50, p95, idle50, idle95 = (
        quantile([trip.took_ms for trip in some], q) for some in (trips, idle) for q in (0.5, 0.95)
    )
    return {
        "flood of": {"idle": "nothing", "short": "no-ops", "long": "jobs of 200 ms"}[kind],
        "jobs": len(trips),
        "p50 ms": p50,
        "p95 ms": p95,
        "p50 to start ms": quantile([trip.to_start_ms for trip in trips], 0.5),
        "p50, times idle": p50 / idle50,
        "p95, times idle": p95 / idle95,
    }


if __name__ == "__main__":
    main()
