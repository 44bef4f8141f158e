"""What a job costs a daemon and what it costs the store, in processor time: the numbers behind docs/scaling.md.

One real daemon with one store, no-op jobs of 100 bytes posted 1,000 at a time; the processor time of the daemon, of its
contexts and of the store's own processes between the first POST and the last outcome. Processor time
depends far less than the clock on other work of the machine.

    python -m bench.service.scaling [--jobs 20000] [--store sqlite | mongodb]
"""

import argparse
import asyncio
import math
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.tools.report import Report, parse_arguments
from functory.client import Client
from tests.support.daemon_process import daemon, make_key
from tests.support.mongo_server import server_here
from tests.support.processes import descendants

_LINES = 1000
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pids: Iterable[int]) -> float:
    """Processor time of these processes so far, and of their children that have ended."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(field) for field in fields[11:15])
    return total / _TICKS


def tree(pid: int) -> set[int]:
    return {pid} | {process.pid for process in descendants(pid)}


async def measure(name: str, store_url: str, folder: Path, jobs: int, store_pids: set[int]) -> dict[str, Any]:
    await asyncio.to_thread(folder.mkdir)
    settings = {"store": store_url} if store_url else {}
    async with daemon(folder / "data", settings, poll="1s") as server:
        key = await make_key(server, "acme")
        async with Client(server.url, key, "acme", timeout_s=600) as acme:
            await acme.put_handler("x", "python", "return None")
            await _run(acme, _LINES)  # warm
            before = await asyncio.to_thread(_split, server.pid, store_pids)
            await _run(acme, jobs)
            after = await asyncio.to_thread(_split, server.pid, store_pids)
    used = [round(1e6 * (late - early) / jobs) for early, late in zip(before, after, strict=True)]
    return {"store": name, "daemon us/job": used[0], "contexts us/job": used[1], "store us/job": used[2]}


def _split(daemon_pid: int, store_pids: set[int]) -> tuple[float, float, float]:
    """Daemon, its contexts, the store's processes."""
    everything = [pid for each in store_pids for pid in tree(each)]
    return cpu_s([daemon_pid]), cpu_s(tree(daemon_pid) - {daemon_pid}), cpu_s(everything)


async def _run(acme: Client, jobs: int) -> None:
    already = sum(row.ok for row in (await acme.scoreboard()).types)
    for _ in range(jobs // _LINES):
        await acme.add_jobs("x", ["x" * 100] * _LINES, ids="no")
    while sum(row.ok for row in (await acme.scoreboard()).types) < already + jobs:  # noqa: ASYNC110 (another process)
        await asyncio.sleep(0.2)


def expected(costs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Products of measured costs, not measurements: daemons of one core with two more for their contexts, one store."""
    rows = []
    for handler_ms in (0, 1, 10, 100):
        per_s = min(1e6 / costs["daemon us/job"], 2e3 / handler_ms if handler_ms else math.inf)
        row: dict[str, Any] = {"handler": f"{handler_ms} ms" if handler_ms else "nothing"}
        for daemons in (1, 10, 100):
            row[f"{daemons} daemons" if daemons > 1 else "1 daemon"] = daemons * per_s
            row[f"cores of the store at {daemons}"] = daemons * per_s * costs["store us/job"] / 1e6
        rows.append(row)
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="processor time of a job, on the daemon's side and on the store's")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--store", choices=["sqlite", "mongodb", "both"], default="both")
    arguments = parse_arguments(parser, argv)
    report = Report("scaling", as_json=arguments.json)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        if arguments.store in ("sqlite", "both"):
            rows.append(asyncio.run(measure("SQLite, in the daemon", "", Path(name, "s"), arguments.jobs, set())))
        server = server_here(fsync=True) if arguments.store in ("mongodb", "both") else None
        if server is not None:
            server.start()
            try:
                own = {process.pid for process in descendants(os.getpid())}
                url = f"{server.url}bench_scaling"
                rows.append(asyncio.run(measure(type(server).__name__, url, Path(name, "m"), arguments.jobs, own)))
            finally:
                server.close()
    report.table("processor time of a job", rows)
    for row in rows:
        if row["store us/job"]:  # a store that several machines can share
            report.table(f"expected jobs/s, and cores of the store: {row['store']}", expected(row))
    report.finish()


if __name__ == "__main__":
    main()
