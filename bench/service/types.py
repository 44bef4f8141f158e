"""Many types with little to do: single jobs of 10,000 types of 1,000 tenants, and how long each takes.

python -m bench.service.types [--json] [--tenants N] [--types N] [--rates N ...] [--seconds S]

At each rate, jobs are posted one by one (`add?wait_s`), each of another type, at fixed times whether or not those
before are done, and each is waited for; not beyond 400 that wait. So hardly any finds a context of its type that is
warm: the limit is the start of a context (`python -m bench.parts.runner`). `behind` is the share of jobs that were not
over when the time was up.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from bench.tools.connection import Connection, connect, message
from bench.tools.cpu import cpu_seconds, spent
from bench.tools.daemon import NO_OP, PAYLOAD, Service, serve
from bench.tools.report import Report, parse_arguments, quantile
from store.base import NewHandler
from store.url import open_store

TENANTS: Final = 1000
TYPES: Final = 10
RATES: Final = (50, 100, 200, 400)
SECONDS: Final = 10.0
_WAIT_S: Final = 30
_MOST_WAITING: Final = 400
"""More jobs that wait than this, and the rate is given up."""
_STORE: Final = "functory.db"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.types", description=__doc__)
    parser.add_argument("--tenants", type=int, default=TENANTS)
    parser.add_argument("--types", type=int, default=TYPES, help="of each tenant")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help="jobs a second, of all together")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each rate")
    arguments = parse_arguments(parser, None)
    report = Report("types", as_json=arguments.json)
    rows = asyncio.run(measure(arguments.tenants, arguments.types, arguments.rates, arguments.seconds))
    report.table(f"single jobs of {arguments.tenants * arguments.types:,} types", rows)
    report.finish()


async def measure(tenants: int, types: int, rates: Sequence[float], seconds: float) -> list[dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="bench-types-"))
    try:
        async with serve(folder / "data") as service:
            keys = {f"t{number}": await service.make_tenant(f"t{number}", {}) for number in range(tenants)}
            await put_handlers(folder / "data" / _STORE, keys, types)
            requests = [
                message("POST", f"/{tenant}/job/n{number}/add?wait_s={_WAIT_S}", key, PAYLOAD)
                for number in range(types)
                for tenant, key in keys.items()
            ]
            rows = []
            for rate in rates:
                rows.append(await at_rate(service, requests, rate, seconds))
                requests = requests[len(requests) // 2 :] + requests[: len(requests) // 2]
        return rows
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


async def put_handlers(path: Path, tenants: Sequence[str] | dict[str, str], types: int) -> None:
    """Straight into the store: each PUT would also check its handler in a sandbox."""
    document = json.dumps(NO_OP["python"]).encode()
    async with open_store(f"sqlite://{path}") as store:
        for tenant in tenants:
            await asyncio.gather(
                *(
                    store.set_handler(tenant, NewHandler(f"{tenant}-n{number}", "python", document, 0))
                    for number in range(types)
                )
            )


async def at_rate(service: Service, requests: Sequence[bytes], rate: float, seconds: float) -> dict[str, Any]:
    jobs = int(rate * seconds)
    times_ms: list[float] = []
    idle: list[Connection] = []
    before_s = cpu_seconds(service.pid)
    async with AsyncExitStack() as stack:

        async def one(request: bytes, due_s: float) -> None:
            connection = idle.pop() if idle else await stack.enter_async_context(connect(service.port))
            (job,) = json.loads(await connection.exchange(request))["jobs"]
            if job["code"] != "ok":
                raise RuntimeError(f"the job did not end well: {job}")
            times_ms.append((time.perf_counter() - due_s) * 1000)
            idle.append(connection)

        began_s = time.perf_counter()
        running: list[asyncio.Task[None]] = []
        for number in range(jobs):
            due_s = began_s + number / rate
            await asyncio.sleep(max(due_s - time.perf_counter(), 0))
            if number - len(times_ms) >= _MOST_WAITING:
                break
            running.append(asyncio.create_task(one(requests[number % len(requests)], due_s)))
        behind = 1 - len(times_ms) / jobs
        await asyncio.gather(*running)
    used_s = sum(spent(before_s, cpu_seconds(service.pid)).values())
    return {
        "jobs/s": rate,
        "p50 ms": quantile(times_ms, 0.5),
        "p95 ms": quantile(times_ms, 0.95),
        "p99 ms": quantile(times_ms, 0.99),
        "behind": behind,
        "processor ms": used_s / len(times_ms) * 1000,
    }


if __name__ == "__main__":
    main()
