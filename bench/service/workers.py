"""Workers elsewhere: how many jobs a second they take and report, and what it costs to have many that wait.

python -m bench.service.workers [--json] [--jobs N] [--rounds N] [--idle N] [--directory DIR]

Cycles: workers take a batch and report it, and take the next with the same request. Beside them beanstalkd's reserve
and delete with a sync for each write (`-f0`), if it is installed: in turns, on the same disk, one connection for each
worker. Of each the best round counts. Idle: workers that wait for jobs, over a minute, beside the same daemon without
them; then jobs are posted one by one, and the time from the request to the worker that has the job is measured.
"""

import argparse
import asyncio
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.service.bedrock import BEANSTALKD, Measured, beanstalkd, best_of, drain
from bench.tools.connection import Connection, connect_many, message
from bench.tools.cpu import CLIENT, cpu_seconds, spent
from bench.tools.daemon import Service, posts, serve
from bench.tools.report import Report, parse_arguments
from bench.tools.vitals import MB, memory

JOBS: Final = 5_000
ROUNDS: Final = 3
WORKERS: Final = (1, 16)
BATCHES: Final = (1, 100)
IDLE: Final = 1_000
TENANT: Final = "bench"
_IDLE_S: Final = 60.0
_POSTS: Final = 50
_HANDLER: Final = {"lang": "worker"}

Round = Callable[[int, int, int], Awaitable[float]]
"""Seconds for so many jobs, by so many workers, in batches of so many."""


class Queue(NamedTuple):
    name: str
    pid: int
    run: Round


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.workers", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="for each round")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--idle", type=int, default=IDLE, help="workers that wait")
    parser.add_argument("--directory", type=Path, help="where the data is (default: a temporary folder)")
    arguments = parse_arguments(parser, None)
    report = Report("workers", as_json=arguments.json)
    rows = asyncio.run(measure(arguments.directory, arguments.jobs, arguments.rounds))
    report.table("jobs taken and reported", rows)
    report.table("workers that wait", [asyncio.run(measure_idle(arguments.directory, arguments.idle))])
    report.finish()


async def measure(directory: Path | None, jobs: int, rounds: int) -> list[dict[str, Any]]:
    found: dict[tuple[int, int, str], list[Measured]] = {}
    async with AsyncExitStack() as stack:
        queues = [await stack.enter_async_context(ours(directory))]
        if shutil.which("beanstalkd"):
            queues.append(await stack.enter_async_context(theirs(directory)))
        for workers in WORKERS:
            for batch in BATCHES:
                for _ in range(rounds):
                    for queue in queues:
                        measured = await measure_round(queue, jobs, workers, batch)
                        found.setdefault((workers, batch, queue.name), []).append(measured)
    best = {key: best_of(measured) for key, measured in found.items()}
    return [_row(*key, best[key], best.get((*key[:2], BEANSTALKD))) for key in best]


async def measure_round(queue: Queue, jobs: int, workers: int, batch: int) -> Measured:
    before_s = cpu_seconds(queue.pid)
    taken_s = await queue.run(jobs, workers, batch)
    used_s = sum(it for name, it in spent(before_s, cpu_seconds(queue.pid)).items() if name != CLIENT)
    return Measured(jobs / taken_s, used_s / jobs * 1e6)


def _row(workers: int, batch: int, name: str, measured: Measured, peer: Measured | None) -> dict[str, Any]:
    row: dict[str, Any] = {"workers": workers, "batch": batch, "queue": name, "jobs/s": measured.pairs_per_s}
    row["cpu us/job"] = measured.cpu_us
    row["of beanstalkd"] = measured.pairs_per_s / peer.pairs_per_s if peer is not None else None
    return row


# Ours


@asynccontextmanager
async def ours(directory: Path | None) -> AsyncIterator[Queue]:
    folder = Path(tempfile.mkdtemp(prefix="bench-workers-", dir=directory))
    try:
        async with serve(folder / "data", ["--log-jobs", "false"]) as service:
            key = await service.make_tenant(TENANT, {"work": _HANDLER})
            stored = 0

            async def run(jobs: int, workers: int, batch: int) -> float:
                nonlocal stored
                stored += jobs
                await service.post(posts(TENANT, "work", key, jobs))
                await service.until_stored(stored)
                async with connect_many(service.port, workers) as connections:
                    began_s = time.perf_counter()
                    done = await asyncio.gather(*(_work(each, key, batch) for each in connections))
                    taken_s = time.perf_counter() - began_s
                if sum(done) != jobs:
                    raise RuntimeError(f"{sum(done)} of {jobs} jobs were reported")
                return taken_s

            yield Queue("functory", service.pid, run)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


async def _work(connection: Connection, key: str, batch: int) -> int:
    """Until nothing is left. Returns how many jobs it has reported."""
    take = {"types": ["work"], "limit": batch}
    answer = await _ask(connection, key, "take", take)
    done = 0
    while jobs := answer["jobs"]:
        reports = [{"id": job["id"], "token": job["token"], "outcome": "ok"} for job in jobs]
        told = await _ask(connection, key, "report", {"reports": reports, "take": take})
        done += len(jobs)
        answer = told
    return done


async def _ask(connection: Connection, key: str, verb: str, body: object) -> Any:
    content = json.dumps(body).encode()
    return json.loads(
        await connection.exchange(message("POST", f"/{TENANT}/work/{verb}", key, content, "application/json"))
    )


# Theirs


@asynccontextmanager
async def theirs(directory: Path | None) -> AsyncIterator[Queue]:
    async with beanstalkd(directory) as queue:

        async def run(jobs: int, workers: int, batch: int) -> float:  # noqa: ARG001  it takes one at a time
            await queue.fill(queue.port, jobs)
            return await drain(queue.port, workers, queue.pair)

        yield Queue(queue.name, queue.pid, run)


# Idle ones


async def measure_idle(directory: Path | None, workers: int) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="bench-workers-", dir=directory))
    try:
        async with serve(folder / "data", ["--log-jobs", "false", "--connections", str(4 * workers)]) as service:
            key = await service.make_tenant(TENANT, {"work": _HANDLER})
            return await _idle(service, key, workers)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


async def _idle(service: Service, key: str, workers: int) -> dict[str, Any]:
    alone = await _core_share(service)
    before_bytes = memory(service.pid).now_bytes
    taken: asyncio.Queue[float] = asyncio.Queue()

    async def wait(connection: Connection) -> None:
        while True:
            answer = await _ask(connection, key, "take", {"types": ["work"], "wait_s": 60})
            if answer["jobs"]:
                taken.put_nowait(time.perf_counter())

    async with connect_many(service.port, workers) as connections:
        waiting = [asyncio.create_task(wait(each)) for each in connections]
        try:
            await asyncio.sleep(5)  # until all of them wait
            core = await _core_share(service)
            times_ms = [await _arrival_ms(service, key, taken) for _ in range(_POSTS)]
            return {
                "workers": workers,
                "% of a core": core * 100,
                "without them": alone * 100,
                "MB more": (memory(service.pid).now_bytes - before_bytes) / MB,
                "p50 ms to the worker": statistics.median(times_ms),
            }
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)


async def _core_share(service: Service) -> float:
    """Of the daemon, while nothing happens."""
    before_s, began_s = cpu_seconds(service.pid), time.perf_counter()
    await asyncio.sleep(_IDLE_S)
    used_s = sum(it for name, it in spent(before_s, cpu_seconds(service.pid)).items() if name != CLIENT)
    return used_s / (time.perf_counter() - began_s)


async def _arrival_ms(service: Service, key: str, taken: asyncio.Queue[float]) -> float:
    """From the request that adds a job to the worker that has it."""
    began_s = time.perf_counter()
    await service.post(posts(TENANT, "work", key, 1), posters=1)
    return (await taken.get() - began_s) * 1000


if __name__ == "__main__":
    main()
