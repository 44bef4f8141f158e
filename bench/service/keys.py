"""Keys: a quiet key alone and beside a hundred that flood its type, and the cost of claims by the number of keys.

python -m bench.service.keys [--json] [--jobs N] [--job-ms N] [--keys N ...]

The quiet key posts a job every two seconds and waits for its result; the others have far more jobs than can run. Costs
are processor time of a SQLite store in this process: claims of ten jobs with a cap of one, beside keys of which one job
runs and more wait.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bench.tools.connection import connect, message
from bench.tools.daemon import Service, serve
from bench.tools.report import Report, parse_arguments, quantile
from store.base import Archive, Code, NewJob, Outcome
from store.sqlite import SqliteStore

FLOODS: Final = 100
EVERY_S: Final = 2.0
NOW_MS: Final = 1_800_000_000_000
TAKEN: Final = 10
ROUNDS: Final = 50


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.keys", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10, help="jobs of the quiet key in each case")
    parser.add_argument("--job-ms", type=int, default=50, help="how long a job takes")
    parser.add_argument("--keys", type=int, nargs="+", default=[100, 10_000], help="keys of which a job runs")
    arguments = parse_arguments(parser, None)
    report = Report("keys", as_json=arguments.json)
    waits = asyncio.run(quiet_waits(arguments.jobs, arguments.job_ms))
    report.table(f"a quiet key, jobs of {arguments.job_ms} ms, alone and beside {FLOODS} that flood", waits)
    costs = [asyncio.run(claim_cost(keys)) for keys in arguments.keys]
    report.table(f"claim and release of {TAKEN} jobs with keys, SQLite, beside keys at their cap", costs)
    report.finish()


async def quiet_waits(jobs: int, job_ms: int) -> list[dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="bench-keys-"))
    body = f"import time\ntime.sleep({job_ms / 1000})"
    try:
        async with serve(folder) as service:
            handler = {"lang": "python", "body": body, "options": {"max_per_key": 1}}
            key = await service.make_tenant("acme", {"work": handler})
            await trips_ms(service, key, 2)  # warm contexts
            alone = await trips_ms(service, key, jobs)
            flood = [message("POST", f"/acme/job/work/add?key=f{n}", key, b"x\n" * 2000) for n in range(FLOODS)]
            await service.post(flood)
            await trips_ms(service, key, 2)
            beside = await trips_ms(service, key, jobs)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)
    rows = [("alone", alone), (f"beside {FLOODS}", beside)]
    return [
        {
            "quiet key": name,
            "p50 ms": quantile(times_ms, 0.5),
            "p95 ms": quantile(times_ms, 0.95),
            "of alone": quantile(times_ms, 0.5) / quantile(alone, 0.5),
        }
        for name, times_ms in rows
    ]


async def trips_ms(service: Service, key: str, count: int) -> list[float]:
    post = message("POST", "/acme/job/work/add?key=quiet&wait_s=60", key, b"x")
    times_ms = []
    async with connect(service.port) as connection:
        for _ in range(count):
            began_s = time.perf_counter()
            (job,) = json.loads(await connection.exchange(post))["jobs"]
            times_ms.append((time.perf_counter() - began_s) * 1000)
            await asyncio.sleep(EVERY_S)
            if job["code"] != "ok":
                raise RuntimeError(f"a job ended with {job}")
    return times_ms


async def claim_cost(keys: int) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="bench-keys-"))
    try:
        async with SqliteStore(folder / "store.db") as store:
            for start in range(0, keys, 1000):
                for n in (0, 1):
                    some = [_job(f"{n}-{k:08d}", f"k{k}") for k in range(start, min(start + 1000, keys))]
                    await store.add_jobs(some, now_ms=NOW_MS)
            for start in range(0, keys, 1000):
                await _claim(store, min(1000, keys - start))
            spent_s = 0.0
            for round_ in range(ROUNDS):
                await store.add_jobs([_job(f"x-{round_}-{k}", f"free{k}") for k in range(TAKEN)], now_ms=NOW_MS)
                began_s = time.process_time()
                jobs = await _claim(store, TAKEN)
                outcome = Outcome(Code.OK, 200, NOW_MS, 1000)
                await store.release_jobs("a1", [Archive(job.id, job.token, outcome) for job in jobs], now_ms=NOW_MS)
                spent_s += time.process_time() - began_s
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)
    return {"keys at their cap": keys, "us per job": 1e6 * spent_s / ROUNDS / TAKEN}


async def _claim(store: SqliteStore, limit: int) -> Any:
    jobs = await store.claim_jobs("acme-a", limit, owner="a1", lease_ms=10**9, now_ms=NOW_MS, max_per_key=1)
    if len(jobs) != limit:
        raise RuntimeError(f"{len(jobs)} jobs were claimed, and not {limit}")
    return jobs


def _job(job_id: str, key: str) -> NewJob:
    return NewJob(job_id, "acme-a", b"x" * 100, NOW_MS, NOW_MS, key=key)


if __name__ == "__main__":
    main()
