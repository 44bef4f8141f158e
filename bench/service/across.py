"""Across daemons: a job is posted to A, runs on B and is waited for on A; a worker waits on B for a job posted to A.

python -m bench.service.across [--json] [--jobs N] [--polled N] [--store sqlite | mongodb | both]

A is paused, so only B runs handlers. In the rows "polled" the daemons do not tell each other anything (`--wake off`).
The limit is the same on B alone, with every job through the store (`--straight off`).
The flood posts its jobs to A, which runs some of them as well, and counts what the daemons told each other meanwhile.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from bench.service.latency import round_trips
from bench.tools.connection import connect, message
from bench.tools.daemon import NO_OP, PAYLOAD, Service, posts, serve
from bench.tools.report import Report, parse_arguments, quantile
from functory.daemon.operator_key import OPERATOR_KEY_FILE
from tests.support.mongo_server import MongoServer, server_here

JOBS: Final = 200
POLLED: Final = 15
FLOOD: Final = 20_000
_LOOK_S: Final = 0.02
_TIMEOUT_S: Final = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.across", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="single jobs in each case")
    parser.add_argument("--polled", type=int, default=POLLED, help="the same, without being told; each takes a second")
    parser.add_argument("--flood", type=int, default=FLOOD, help="jobs of the flood")
    parser.add_argument("--store", choices=["sqlite", "mongodb", "both"], default="both")
    arguments = parse_arguments(parser, None)
    report = Report("across", as_json=arguments.json)
    server = server_here(fsync=True) if arguments.store != "sqlite" else None
    trips: list[dict[str, Any]] = []
    floods: list[dict[str, Any]] = []
    try:
        if arguments.store != "mongodb":
            asyncio.run(measure("sqlite", None, arguments, trips, floods))
        if server is not None:
            server.start()
            asyncio.run(measure("mongodb", server, arguments, trips, floods))
    finally:
        if server is not None:
            server.close()
    report.table("one no-op python job, posted to A, run by B, its result read from A", trips)
    report.table("a flood posted to A, run by both", floods)
    report.finish()


async def measure(
    name: str,
    server: MongoServer | None,
    arguments: argparse.Namespace,
    trips: list[dict[str, Any]],
    floods: list[dict[str, Any]],
) -> None:
    for wake, jobs in (("auto", arguments.jobs), ("off", arguments.polled)):
        system = f"{name}, {'told' if wake == 'auto' else 'polled'}"
        async with pair(server, wake) as (a, b):
            key = await a.make_tenant("acme", {"noop": NO_OP["python"], "outside": {"lang": "worker"}})
            await pause(a, (await sysids(a))[0])
            await round_trips(a.port, "acme", "noop", key, 3)
            times_ms = [trip.took_ms for trip in await round_trips(a.port, "acme", "noop", key, jobs)]
            trips.append(row(f"{system}: POST to result", times_ms))
            if wake == "auto":
                alone_ms = [trip.took_ms for trip in await round_trips(b.port, "acme", "noop", key, jobs)]
                trips.append(row(f"{name}, the limit: B alone, through the store", alone_ms))
            trips.append(row(f"{system}: POST to a worker that waits", await takes_ms(a, b, key, jobs)))
            if wake == "auto":
                floods.append(await flood(name, a, b, key, arguments.flood))


def row(system: str, times_ms: list[float]) -> dict[str, Any]:
    return {
        "system": system,
        "jobs": len(times_ms),
        "p50 ms": quantile(times_ms, 0.5),
        "p95 ms": quantile(times_ms, 0.95),
        "p99 ms": quantile(times_ms, 0.99),
    }


@asynccontextmanager
async def pair(server: MongoServer | None, wake: str) -> AsyncIterator[tuple[Service, Service]]:
    """Two daemons on a new store that know each other."""
    folder = Path(tempfile.mkdtemp(prefix="bench-across-"))
    url = f"sqlite://{folder}/store.db" if server is None else f"{server.url.rstrip('/')}/across_{wake}"
    settings = ["--store", url, "--wake", wake, "--straight", "off"]
    try:
        async with serve(folder / "a", settings) as a:
            (folder / "b").mkdir()
            shutil.copy(folder / "a" / OPERATOR_KEY_FILE, folder / "b" / OPERATOR_KEY_FILE)
            async with serve(folder / "b", settings) as b:
                if wake == "auto":
                    await until(a, "peers")
                yield a, b
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


async def until(service: Service, gauge: str) -> None:
    """Wait until a gauge is not zero."""
    async with asyncio.timeout(_TIMEOUT_S):
        while True:
            if (await service.gauges())[gauge]:
                return
            await asyncio.sleep(_LOOK_S)


async def sysids(service: Service) -> list[str]:
    return [daemon["sysid"] for daemon in (await service.ask("GET", "/admin/daemons"))["daemons"]]


async def pause(service: Service, sysid: str, verb: str = "pause") -> None:
    await service.ask("POST", f"/admin/daemons/{sysid}/{verb}")


async def takes_ms(a: Service, b: Service, key: str, count: int) -> list[float]:
    """From the POST on A to the answer of a take that waits on B."""
    times_ms = []
    post = message("POST", "/acme/job/outside/add", key, PAYLOAD)
    take = json.dumps({"types": ["outside"], "limit": 1, "wait_s": 30, "worker": {"name": "bench"}}).encode()
    async with connect(a.port) as poster, connect(b.port) as worker:
        for _ in range(count):
            waiting = asyncio.create_task(
                worker.exchange(message("POST", "/acme/work/take", key, take, "application/json"))
            )
            await until(b, "workers_waiting")
            began_s = time.perf_counter()
            await poster.exchange(post)
            taken = json.loads(await waiting)
            times_ms.append((time.perf_counter() - began_s) * 1000)
            if len(taken["jobs"]) != 1:
                raise RuntimeError(f"the worker got {taken}")
    return times_ms


async def flood(name: str, a: Service, b: Service, key: str, jobs: int) -> dict[str, Any]:
    await pause(a, (await sysids(a))[0], "resume")
    before = [await each.gauges() for each in (a, b)]
    began_s = time.perf_counter()
    await a.post(posts("acme", "noop", key, jobs))
    while True:
        after = [await each.gauges() for each in (a, b)]
        claimed = [
            late["jobs_claimed_total"] - early["jobs_claimed_total"] for early, late in zip(before, after, strict=True)
        ]
        if sum(claimed) >= jobs and not any(each["leases_held"] for each in after):
            break
        await asyncio.sleep(_LOOK_S)
    took_s = time.perf_counter() - began_s
    sent = sum(
        late["peer_datagrams_sent_total"] - early["peer_datagrams_sent_total"]
        for early, late in zip(before, after, strict=True)
    )
    return {
        "store": name,
        "jobs": jobs,
        "jobs/s": jobs / took_s,
        "run by B": claimed[1],
        "datagrams": sent,
        "datagrams/s and peer": sent / took_s / 2,
    }


if __name__ == "__main__":
    main()
