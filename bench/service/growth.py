"""Growth: cost of a job and memory of a daemon with ten thousand, a million and ten million jobs waiting.

python -m bench.service.growth [--json] [--waiting N ...] [--jobs N] [--directory DIR]

The store is filled between two starts of the daemon. Then jobs of the same type are posted and run, so that the backlog
stays the same. Ten million jobs take about 3 GB of disk.
"""

import argparse
import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bench.parts.store_limit import fill
from bench.tools.cpu import CLIENT, cpu_seconds, spent
from bench.tools.daemon import NO_OP, Service, posts, serve
from bench.tools.report import Report, parse_arguments
from bench.tools.vitals import MB, memory

WAITING: Final = (10_000, 1_000_000, 10_000_000)
JOBS: Final = 30_000
WARM_JOBS: Final = 3_000
TENANT: Final = "bench"  # as `fill` names it
TYPE: Final = "t0"
_LOOK_S: Final = 0.02
_TIMEOUT_S: Final = 300.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.growth", description=__doc__)
    parser.add_argument("--waiting", type=int, nargs="+", default=WAITING, help="backlogs to compare")
    parser.add_argument("--jobs", type=int, default=JOBS, help="posted and run beside each backlog")
    parser.add_argument("--directory", type=Path, help="where the data is (default: a temporary folder)")
    arguments = parse_arguments(parser, None)
    report = Report("growth", as_json=arguments.json)
    rows: list[dict[str, Any]] = []
    for waiting in sorted(arguments.waiting):
        row = asyncio.run(measure(waiting, arguments.jobs, arguments.directory))
        row["times the first"] = row["cpu us/job"] / (rows[0] if rows else row)["cpu us/job"]
        rows.append(row)
    report.table(f"{arguments.jobs:,} no-op jobs posted and run beside a backlog of their type", rows)
    report.finish()


async def measure(waiting: int, jobs: int, directory: Path | None) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="bench-growth-", dir=directory))
    try:
        data = folder / "data"
        data.mkdir()
        path = data / "functory.db"
        async with serve(data) as service:
            key = await service.make_tenant(TENANT, {})
        await asyncio.to_thread(fill, path, waiting, 1, time.time_ns() // 1_000_000)
        began_s = time.perf_counter()
        async with serve(data) as service:
            started_s = time.perf_counter() - began_s
            idle = memory(service.pid)
            await service.ask("PUT", f"/{TENANT}/handler/{TYPE}", NO_OP["python"], key=key)
            await run(service, key, WARM_JOBS, 0)
            cpu_s, began_s = cpu_seconds(service.pid), time.perf_counter()
            ended = await run(service, key, jobs, WARM_JOBS)
            taken_s, used_s = time.perf_counter() - began_s, spent(cpu_s, cpu_seconds(service.pid))
            busy = memory(service.pid)
        return {
            "waiting": waiting,
            "jobs/s": ended / taken_s,
            "cpu us/job": sum(seconds for name, seconds in used_s.items() if name != CLIENT) / ended * 1e6,
            "start s": started_s,
            "memory at start MB": idle.now_bytes / MB,
            "memory at most MB": busy.peak_bytes / MB,
            "file MB": path.stat().st_size / MB,
        }
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


async def run(service: Service, key: str, jobs: int, before: int) -> int:
    """Post this number of jobs, and wait until as many more have ended. Returns the number that has ended."""
    await service.post(posts(TENANT, TYPE, key, jobs))
    async with asyncio.timeout(_TIMEOUT_S):
        while True:
            ended = (await service.metrics()).get("job_endings_total ok", 0)
            if ended >= before + jobs:
                return int(ended) - before
            await asyncio.sleep(_LOOK_S)


if __name__ == "__main__":
    main()
