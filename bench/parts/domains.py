"""Rate domains: what a claim costs by their number, when one pattern gives each of them a token a second.

python -m bench.parts.domains [--json] [--domains N ...] [--mongo]

Every domain has jobs waiting all the time, and time is simulated: it moves on by as much as gives CLAIM domains their
next token, so that a claim has as much to take whatever the number of domains, and all others may not run. Three claims
are measured: of CLAIM jobs, of one job that has no domain beside all of them, and one for which nothing may run.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.parts.store_limit import NOW_MS
from bench.tools.report import Report, parse_arguments, quantile
from store.base import Job, NewJob, RateDomain, Store
from store.url import open_store
from tests.support.mongo_server import server_here

CLAIM: Final = 100
MEASURED: Final = 101
MEASURED_IN_MONGODB: Final = 15
ADDED: Final = 5000
TENANT: Final = "bench"
JOBTYPE: Final = "bench-a"


def make_job(number: int, domain: str) -> NewJob:
    return NewJob(f"20261114T235959123Z-a7-{number:08x}", JOBTYPE, b"x" * 100, NOW_MS, NOW_MS, 500, domain)


async def claim(store: Store, limit: int, now_ms: int) -> list[Job]:
    return await store.claim_jobs(JOBTYPE, limit, owner="a7", lease_ms=3_600_000, now_ms=now_ms)


async def timed(work: Callable[[], Awaitable[list[Job]]], expected: int) -> tuple[float, float]:
    """Milliseconds of the clock and of all processors."""
    began, cpu = time.perf_counter(), time.process_time()
    found = await work()
    spent = (time.perf_counter() - began) * 1e3, (time.process_time() - cpu) * 1e3
    assert len(found) == expected, f"{len(found)} jobs and not {expected}"
    return spent


async def point(url: str, domains: int, measured: int) -> dict[str, Any]:
    store = open_store(url)
    await store.open()
    try:
        await store.set_rate_domain(RateDomain(TENANT, "*", 1.0, 1), now_ms=NOW_MS)
        rounds = 1 + -(-(measured + 1) * CLAIM // domains)
        jobs = [make_job(n, f"mail:{n % domains}") for n in range(domains * (rounds + 1))]
        for start in range(0, len(jobs), ADDED):
            await store.add_jobs(jobs[start : start + ADDED], now_ms=NOW_MS)
        now_ms = NOW_MS
        step_ms = CLAIM * 1000 // domains
        for _ in range(domains // CLAIM):
            await claim(store, CLAIM, now_ms)
            now_ms += step_ms
        many, empty, plain = [], [], []
        for n in range(measured):
            many.append(await timed(partial(claim, store, CLAIM, now_ms), CLAIM))
            empty.append(await timed(partial(claim, store, CLAIM, now_ms), 0))
            await store.add_jobs([make_job(len(jobs) + n, "")], now_ms=now_ms)
            plain.append(await timed(partial(claim, store, 1, now_ms), 1))
            now_ms += step_ms
    finally:
        await store.close()
    row: dict[str, Any] = {"domains": domains}
    for name, laps in ((f"{CLAIM} jobs", many), ("no domain", plain), ("nothing", empty)):
        row[f"{name}, p50 ms"] = quantile([wall for wall, _ in laps], 0.5)
        row[f"{name}, processor ms"] = quantile([cpu for _, cpu in laps], 0.5)
    return row


def in_sqlite(sizes: list[int]) -> list[dict[str, Any]]:
    rows = []
    for domains in sizes:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(asyncio.run(point(f"sqlite:///{Path(folder) / 'bench.db'}", domains, MEASURED)))
    return rows


def in_mongodb(sizes: list[int]) -> list[dict[str, Any]]:
    server = server_here(fsync=True)
    if server is None:
        raise SystemExit("domains: no MongoDB server here; `make mongo` builds one")
    try:
        server.start()
        base = f"{server.url.rstrip('/')}/domains"
        return [asyncio.run(point(f"{base}{domains}", domains, MEASURED_IN_MONGODB)) for domains in sizes]
    finally:
        server.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.parts.domains", description=__doc__)
    parser.add_argument("--domains", type=int, nargs="+", default=[100, 100_000], help="numbers of domains to compare")
    parser.add_argument("--mongo", action="store_true", help="on the server that the tests run on, not on SQLite")
    arguments = parse_arguments(parser, None)
    if any(CLAIM * 1000 % domains or domains < CLAIM for domains in arguments.domains):
        parser.error(
            f"--domains: numbers from {CLAIM} on that divide {CLAIM * 1000}, so that a step is whole milliseconds"
        )
    report = Report("domains", as_json=arguments.json)
    rows = in_mongodb(arguments.domains) if arguments.mongo else in_sqlite(arguments.domains)
    report.table("a claim, by the number of rate domains with one token a second each", rows)
    first, last = rows[0], rows[-1]
    times = {"domains": f"{last['domains']} of {first['domains']}"}
    report.table("times", [times | {name: last[name] / first[name] for name in first if name != "domains"}])
    report.finish()


if __name__ == "__main__":
    main()
