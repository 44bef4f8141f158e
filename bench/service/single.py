"""Single jobs: POST and wait by one and by eight tenants, in one request and in two; `invoke`, which makes no job;
a flood beside quiet tenants.

python -m bench.service.single [--json] [--jobs N] [--flood N]

The limit of a round trip is a bare aiohttp POST to another process in the same run. The long way is the same with
`--straight off`. Processor time is that of the daemon and its contexts together. The flood's throughput is measured
alone and beside tenants that post a job a second, and how long these wait for it.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from bench.service.http_servers import started
from bench.tools.connection import connect, message
from bench.tools.cpu import cpu_seconds, spent
from bench.tools.daemon import NO_OP, PAYLOAD, Service, posts, serve
from bench.tools.report import Report, parse_arguments, quantile

JOBS: Final = 2000
FLOOD_JOBS: Final = 120_000
QUIET_EVERY_S: Final = 1.0
WAIT_S: Final = 30
BARE: Final[dict[str, Any]] = {
    "who": "bare aiohttp POST",
    "jobs/s": 0.0,
    "p50 ms": 0.0,
    "p99 ms": "",
    "processor ms": "",
    "of bare": 1.0,
}
Trip = Callable[[int, str, str, int], Awaitable[list[float]]]
"""To a port, of a tenant with its key, so many times; how many milliseconds each took."""
_LOOK_S: Final = 0.02
_RUN_TIMEOUT_S: Final = 600.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.single", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="single jobs in each case")
    parser.add_argument("--flood", type=int, default=FLOOD_JOBS, help="jobs of the flood")
    arguments = parse_arguments(parser, None)
    report = Report("single", as_json=arguments.json)
    trips, floods = asyncio.run(measure(arguments.jobs, arguments.flood))
    report.table("POST and wait for the result, one no-op python job at a time for each tenant", trips)
    report.table("a flood of no-ops, beside tenants that post one job a second", floods)
    report.finish()


async def measure(jobs: int, flood_jobs: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    folder = Path(tempfile.mkdtemp(prefix="bench-single-"))
    try:
        bare_ms = quantile(await bare_times_ms(folder, jobs), 0.5)
        trips = [BARE | {"jobs/s": 1000 / bare_ms, "p50 ms": bare_ms}]
        for way in ("on", "off"):
            async with serve(folder / way, ["--straight", way]) as service:
                keys = {name: await service.make_tenant(name, {"noop": NO_OP["python"]}) for name in _names(8)}
                await each_of(service, keys, 20, in_one_request)  # warm contexts
                for name, who, trip in (
                    ("1 tenant, add?wait_s", _first(keys, 1), in_one_request),
                    ("1 tenant, add then get", _first(keys, 1), in_two_requests),
                    ("8 tenants, add?wait_s", keys, in_one_request),
                    ("8 tenants, add then get", keys, in_two_requests),
                ):
                    shown = name if way == "on" else f"{name}, long way"
                    trips.append(await trip_row(service, shown, who, jobs, bare_ms, trip))
                if way == "on":
                    trips.append(await trip_row(service, "1 tenant, invoke", _first(keys, 1), jobs, bare_ms, invoke))
                    trips.append(await trip_row(service, "8 tenants, invoke", keys, jobs, bare_ms, invoke))
        floods: list[dict[str, Any]] = []
        for quiet in (0, 1, 10):
            async with serve(folder / f"flood-{quiet}") as service:
                rate, waits_ms = await flood_rate(service, quiet, flood_jobs)
            alone = floods[0]["jobs/s"] if floods else rate
            floods.append(flood_row(quiet, rate, alone, waits_ms))
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)
    return trips, floods


def _names(count: int) -> list[str]:
    return [f"t{number}" for number in range(count)]


def _first(keys: dict[str, str], count: int) -> dict[str, str]:
    return dict(list(keys.items())[:count])


async def bare_times_ms(folder: Path, count: int) -> list[float]:
    times_ms = []
    async with started("bare", folder) as server, connect(server.port) as connection:
        post = message("POST", "/quiet/job/noop/add", server.key, PAYLOAD)
        for _ in range(count):
            began_s = time.perf_counter()
            await connection.exchange(post)
            times_ms.append((time.perf_counter() - began_s) * 1000)
    return times_ms


async def trip_row(
    service: Service, name: str, keys: dict[str, str], jobs: int, bare_ms: float, trip: Trip
) -> dict[str, Any]:
    before, began_s = cpu_seconds(service.pid), time.perf_counter()
    times_ms = await each_of(service, keys, max(jobs // len(keys), 1), trip)
    took_s = time.perf_counter() - began_s
    cpu_s = sum(spent(before, cpu_seconds(service.pid)).values())
    p50 = quantile(times_ms, 0.5)
    return {
        "who": name,
        "jobs/s": len(times_ms) / took_s,
        "p50 ms": p50,
        "p99 ms": quantile(times_ms, 0.99),
        "processor ms": 1000 * cpu_s / len(times_ms),
        "of bare": p50 / bare_ms,
    }


async def each_of(service: Service, keys: dict[str, str], count: int, trip: Trip) -> list[float]:
    """So many trips of each tenant, one after the other; the tenants side by side."""
    found = await asyncio.gather(*(trip(service.port, tenant, key, count) for tenant, key in keys.items()))
    return [took_ms for some in found for took_ms in some]


async def in_one_request(port: int, tenant: str, key: str, count: int) -> list[float]:
    post = message("POST", f"/{tenant}/job/noop/add?wait_s={WAIT_S}", key, PAYLOAD)
    times_ms = []
    async with connect(port) as connection:
        for _ in range(count):
            began_s = time.perf_counter()
            (job,) = json.loads(await connection.exchange(post))["jobs"]
            times_ms.append((time.perf_counter() - began_s) * 1000)
            _require_ok(job)
    return times_ms


async def in_two_requests(port: int, tenant: str, key: str, count: int) -> list[float]:
    post = message("POST", f"/{tenant}/job/noop/add", key, PAYLOAD)
    times_ms = []
    async with connect(port) as connection:
        for _ in range(count):
            began_s = time.perf_counter()
            job_id = json.loads(await connection.exchange(post))["ids"][0]
            get = message("GET", f"/{tenant}/job/{job_id}?wait_s={WAIT_S}", key)
            job = json.loads(await connection.exchange(get))
            times_ms.append((time.perf_counter() - began_s) * 1000)
            _require_ok(job)
    return times_ms


async def invoke(port: int, tenant: str, key: str, count: int) -> list[float]:
    """Without a job: what HTTP and the runner alone take."""
    post = message("POST", f"/{tenant}/handler/noop/invoke", key, b'{"payload":"x"}', "application/json")
    times_ms = []
    async with connect(port) as connection:
        for _ in range(count):
            began_s = time.perf_counter()
            outcome = json.loads(await connection.exchange(post))
            times_ms.append((time.perf_counter() - began_s) * 1000)
            _require_ok(outcome)
    return times_ms


def _require_ok(job: dict[str, Any]) -> None:
    if job["code"] != "ok":
        raise RuntimeError(f"the job did not end well: {job}")


def flood_row(quiet: int, rate: float, alone: float, waits_ms: list[float]) -> dict[str, Any]:
    return {
        "quiet tenants": quiet,
        "jobs/s": rate,
        "of the flood alone": rate / alone,
        "quiet p50 ms": quantile(waits_ms, 0.5) if waits_ms else "",
        "quiet p95 ms": quantile(waits_ms, 0.95) if waits_ms else "",
    }


async def flood_rate(service: Service, quiet: int, jobs: int) -> tuple[float, list[float]]:
    """The better of two floods, and what the jobs of the quiet tenants took meanwhile."""
    key = await service.make_tenant("busy", {"noop": NO_OP["python"]})
    keys = {name: await service.make_tenant(name, {"noop": NO_OP["python"]}) for name in _names(quiet)}
    await each_of(service, keys, 2, in_one_request)
    waits_ms: list[float] = []
    async with AsyncExitStack() as stack:
        for number, (tenant, its_key) in enumerate(keys.items()):
            first_s = QUIET_EVERY_S * number / quiet  # not all at once
            task = asyncio.create_task(_now_and_then(service.port, tenant, its_key, first_s, waits_ms))
            stack.push_async_callback(_ended, task)
        rates = [await _drain(service, key, jobs) for _ in range(2)]
    return max(rates), waits_ms


async def _drain(service: Service, key: str, jobs: int) -> float:
    ended = await _ended_jobs(service)
    began_s = time.perf_counter()
    await service.post(posts("busy", "noop", key, jobs))
    async with asyncio.timeout(_RUN_TIMEOUT_S):
        while True:
            if await _ended_jobs(service) >= ended + jobs:
                break
            await asyncio.sleep(_LOOK_S)
    return jobs / (time.perf_counter() - began_s)


async def _ended_jobs(service: Service) -> float:
    return (await service.metrics()).get("job_endings_total ok", 0.0)


async def _now_and_then(port: int, tenant: str, key: str, first_s: float, waits_ms: list[float]) -> None:
    await asyncio.sleep(first_s)
    while True:
        waits_ms += await in_one_request(port, tenant, key, 1)
        await asyncio.sleep(QUIET_EVERY_S)


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


if __name__ == "__main__":
    main()
