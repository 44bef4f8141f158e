"""Rate domains: how much of the rate that was set jobs get, with a burst of one, in this daemon and by a worker.

python -m bench.service.rates [--json] [--rates N ...] [--burst N] [--seconds S]

More jobs wait than may run. The worker takes one job after the other and reports it with the request for the next.
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

from bench.tools.connection import connect, message
from bench.tools.cpu import CLIENT, cpu_seconds, spent
from bench.tools.daemon import NO_OP, Service, serve
from bench.tools.report import Report, parse_arguments

TENANT: Final = "bench"
RATES: Final = (10, 50, 100)
_SETTLE_S: Final = 2.0
"""Before it is measured: contexts are started, and the burst is used up."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.rates", description=__doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=list(RATES), help="jobs a second")
    parser.add_argument("--burst", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each of them")
    arguments = parse_arguments(parser, None)
    report = Report("rates", as_json=arguments.json)
    rows = [
        asyncio.run(measure(runs, rate, arguments.burst, arguments.seconds))
        for rate in arguments.rates
        for runs in ("python", "worker")
    ]
    report.table(f"jobs of a rate domain with a burst of {arguments.burst}", rows)
    report.finish()


async def measure(runs: str, rate: int, burst: int, seconds: float) -> dict[str, Any]:
    handler = {"lang": "worker"} if runs == "worker" else NO_OP[runs]
    folder = Path(tempfile.mkdtemp(prefix="bench-rates-"))
    try:
        async with serve(folder) as service:
            key = await service.make_tenant(TENANT, {"work": handler})
            await service.ask("PUT", f"/{TENANT}/rate/d", {"rate_per_s": rate, "burst": burst}, key=key)
            jobs = round((2 * _SETTLE_S + 2 * seconds) * rate) + burst
            await service.post([message("POST", f"/{TENANT}/job/work/add?domain=d", key, b"x\n" * jobs)])
            await service.until_stored(jobs)
            async with _taken(service, key, runs) as count:
                await asyncio.sleep(_SETTLE_S)
                before, before_s, began_s = await count(), cpu_seconds(service.pid), time.perf_counter()
                await asyncio.sleep(seconds)
                took_s, after = time.perf_counter() - began_s, await count()
                used = spent(before_s, cpu_seconds(service.pid))
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)
    if after == jobs:
        raise RuntimeError("all jobs were taken before the end: there was not enough to do")
    jobs_per_s = (after - before) / took_s
    used_s = sum(it for name, it in used.items() if name != CLIENT)
    return {
        "run by": runs,
        "rate set": rate,
        "jobs/s": jobs_per_s,
        "of the rate": jobs_per_s / rate,
        "cpu ms/job": 1000 * used_s / (after - before),
    }


@asynccontextmanager
async def _taken(service: Service, key: str, runs: str) -> AsyncIterator[Any]:
    """A function that says how many jobs were taken so far."""
    if runs != "worker":

        async def claimed() -> float:
            return (await service.gauges())["jobs_claimed_total"]

        yield claimed
        return
    done = 0

    async def work() -> None:
        nonlocal done
        take = {"types": ["work"], "wait_s": 30}
        reports: list[dict[str, Any]] = []
        async with connect(service.port) as connection:
            while True:
                body = json.dumps({"reports": reports, "take": take} if reports else take).encode()
                path = f"/{TENANT}/work/{'report' if reports else 'take'}"
                answer = json.loads(await connection.exchange(message("POST", path, key, body, "application/json")))
                reports = [{"id": job["id"], "token": job["token"], "outcome": "ok"} for job in answer["jobs"]]
                done += len(reports)

    async def counted() -> float:
        return done

    working = asyncio.create_task(work())
    try:
        yield counted
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


if __name__ == "__main__":
    main()
