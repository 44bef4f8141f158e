"""Consumers: what it costs to work through a type by number, beside a plain queue and with more and more to do.

python -m bench.service.consumers [--json] [--jobs N] [--held N ...] [--idle N] [--pipeline N] [--directory DIR]

Throughput: the same number of no-op jobs, posted and run, of a plain type and of one with a consumer. Growth: jobs of a
consumer that was stopped are posted, so that all are held; then it starts, and the first of them are measured. Idle:
consumers that have nothing to do, beside a daemon that has none. Pipeline: two consumers, each job of the first makes
one of the second, beside the same handlers without consumers; on SQLite, and on FerretDB if it is here (`make mongo`).
"""

import argparse
import asyncio
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from bench.tools.cpu import CLIENT, cpu_seconds, spent
from bench.tools.daemon import NO_OP, Service, posts, serve
from bench.tools.report import Report, parse_arguments
from tests.support.mongo_server import server_here

JOBS: Final = 50_000
PIPELINE: Final = 2_000
WARM_JOBS: Final = 3_000
HELD: Final = (10_000, 1_000_000)
TENANT: Final = "bench"
_SETTINGS: Final = {"max_processing": 5000, "max_search_ahead": 10_000}
_LOOK_S: Final = 0.02
_IDLE_S: Final = 20.0
_TIMEOUT_S: Final = 600.0

_T = TypeVar("_T")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.consumers", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="posted and run, of a plain type and of a consumer's")
    parser.add_argument("--held", type=int, nargs="+", default=HELD, help="jobs that a consumer has before it")
    parser.add_argument("--idle", type=int, default=100, help="consumers that have nothing to do")
    parser.add_argument("--pipeline", type=int, default=PIPELINE, help="jobs that pass two stages")
    parser.add_argument("--directory", type=Path, help="where the data is (default: a temporary folder)")
    arguments = parse_arguments(parser, None)
    report = Report("consumers", as_json=arguments.json)
    rows = asyncio.run(in_folder(arguments.directory, partial(measure_both, jobs=arguments.jobs)))
    report.table(f"{arguments.jobs:,} no-op jobs posted and run", rows)
    grown: list[dict[str, Any]] = []
    for held in sorted(arguments.held):
        row = asyncio.run(in_folder(arguments.directory, partial(measure_start, jobs=min(arguments.held), held=held)))
        row["times the first"] = row["cpu us/index"] / (grown[0] if grown else row)["cpu us/index"]
        grown.append(row)
    report.table(f"the first {min(arguments.held):,} indexes of a consumer that has so many before it", grown)
    rows = asyncio.run(in_folder(arguments.directory, partial(measure_idle, consumers=arguments.idle)))
    report.table("consumers that have nothing to do", rows)
    rows = asyncio.run(measure_pipelines(arguments.directory, arguments.pipeline))
    report.table(f"{arguments.pipeline:,} jobs through two stages", rows)
    report.finish()


async def in_folder(
    directory: Path | None, measure: Callable[[Service], Awaitable[_T]], options: Sequence[str] = ()
) -> _T:
    folder = Path(tempfile.mkdtemp(prefix="bench-consumers-", dir=directory))
    try:
        async with serve(folder / "data", options) as service:
            return await measure(service)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


async def measure_both(service: Service, jobs: int) -> list[dict[str, Any]]:
    key = await service.make_tenant(TENANT, {"plain": NO_OP["python"], "numbered": NO_OP["python"]})
    await service.ask("PUT", f"/{TENANT}/consumer/c", {"source": "numbered", **_SETTINGS}, key=key)
    rows: list[dict[str, Any]] = []
    ended = 0
    for name in ("plain", "numbered"):
        await service.post(posts(TENANT, name, key, jobs // 10))
        ended += jobs // 10
        await until_ended(service, ended)
        cpu_s, began_s = cpu_seconds(service.pid), time.perf_counter()
        await service.post(posts(TENANT, name, key, jobs))
        ended += jobs
        await until_ended(service, ended)
        taken_s, used_s = time.perf_counter() - began_s, spent(cpu_s, cpu_seconds(service.pid))
        rows.append({"queue": name, "jobs/s": jobs / taken_s, "cpu us/job": _daemon_s(used_s) / jobs * 1e6})
        rows[-1]["of plain"] = rows[-1]["jobs/s"] / rows[0]["jobs/s"]
    return rows


async def measure_start(service: Service, jobs: int, held: int) -> dict[str, Any]:
    key = await service.make_tenant(TENANT, {"numbered": NO_OP["python"]})
    await service.ask("PUT", f"/{TENANT}/consumer/c", {"source": "numbered", **_SETTINGS}, key=key)
    await service.post(posts(TENANT, "numbered", key, WARM_JOBS))
    await until_ended(service, WARM_JOBS)
    await service.ask("POST", f"/{TENANT}/consumer/c/stop", key=key)
    await service.post(posts(TENANT, "numbered", key, held))
    await service.until_stored(WARM_JOBS + held)
    cpu_s, began_s = cpu_seconds(service.pid), time.perf_counter()
    await service.ask("POST", f"/{TENANT}/consumer/c/start", key=key)
    ended = await until_ended(service, WARM_JOBS + jobs) - WARM_JOBS
    taken_s, used_s = time.perf_counter() - began_s, spent(cpu_s, cpu_seconds(service.pid))
    return {"held": held, "indexes/s": ended / taken_s, "cpu us/index": _daemon_s(used_s) / ended * 1e6}


async def measure_idle(service: Service, consumers: int) -> list[dict[str, Any]]:
    key = await service.make_tenant(TENANT, {})
    rows: list[dict[str, Any]] = []
    for count in (0, consumers):
        for number in range(count):
            await service.ask("PUT", f"/{TENANT}/consumer/c{number}", {"source": f"type{number}", **_SETTINGS}, key=key)
        cpu_s, began_s = cpu_seconds(service.pid), time.perf_counter()
        await asyncio.sleep(_IDLE_S)
        taken_s, used_s = time.perf_counter() - began_s, spent(cpu_s, cpu_seconds(service.pid))
        rows.append({"consumers": count, "% of a core": 100 * _daemon_s(used_s) / taken_s})
    return rows


async def measure_pipelines(directory: Path | None, jobs: int) -> list[dict[str, Any]]:
    rows = await in_folder(directory, partial(measure_pipeline, name="SQLite", jobs=jobs))
    if (server := server_here(fsync=True)) is not None:
        server.start()
        try:
            measure = partial(measure_pipeline, name=type(server).__name__, jobs=jobs)
            rows += await in_folder(directory, measure, ["--store", f"{server.url}pipeline"])
        finally:
            server.close()
    return rows


async def measure_pipeline(service: Service, name: str, jobs: int) -> list[dict[str, Any]]:
    handlers = {
        f"{kind}{stage}": {"lang": "python", "body": f"ctx.enqueue('{kind}2', payload)" if stage == 1 else "return 1"}
        for kind in ("plain", "numbered")
        for stage in (1, 2)
    }
    key = await service.make_tenant(TENANT, handlers)
    for stage in (1, 2):
        await service.ask("PUT", f"/{TENANT}/consumer/c{stage}", {"source": f"numbered{stage}", **_SETTINGS}, key=key)
    rows: list[dict[str, Any]] = []
    ended = 0
    for kind in ("plain", "numbered"):
        cpu_s, began_s = {}, 0.0
        for count in (jobs // 10, jobs):
            cpu_s, began_s = cpu_seconds(service.pid), time.perf_counter()
            await service.post(posts(TENANT, f"{kind}1", key, count))
            ended += 2 * count
            await until_ended(service, ended)
        taken_s, used_s = time.perf_counter() - began_s, spent(cpu_s, cpu_seconds(service.pid))
        rows.append(
            {"store": name, "stages": kind, "jobs/s": jobs / taken_s, "cpu us/job": _daemon_s(used_s) / jobs * 1e6}
        )
    return rows


async def until_ended(service: Service, count: int) -> int:
    """Wait until this number of jobs has ended. Returns how many have."""
    async with asyncio.timeout(_TIMEOUT_S):
        while True:
            ended = int((await service.metrics()).get("job_endings_total ok", 0))
            if ended >= count:
                return ended
            await asyncio.sleep(_LOOK_S)


def _daemon_s(used_s: dict[str, float]) -> float:
    return sum(seconds for name, seconds in used_s.items() if name != CLIENT)


if __name__ == "__main__":
    main()
