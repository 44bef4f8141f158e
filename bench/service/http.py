"""POST of jobs beside its limits in the same run: a bare aiohttp POST for one line, write+fdatasync for a thousand.

python -m bench.service.http [--json] [--seconds S] [--connections N ...] [--directory DIR]

Each server has its own process, and so has the client, which uses plain sockets to cost little. `synced` is the bare
one with a write and a sync for each POST, the limit of one caller. `web` is our HTTP side with the journal. `daemon` is
a real `functory serve` that also moves lines into its store; nothing is executed. `runs` is the same one, and its jobs
have a handler: they are executed and recorded meanwhile, which one caller leaves time for. All of these respond after
a sync. All take turns, and the median round counts.
"""

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from bench.service.http_servers import TENANT, Server, started
from bench.tools.connection import Connection, connect_many, message
from bench.tools.cpu import parse_stat
from bench.tools.daemon import NO_OP, serve
from bench.tools.report import Report, parse_arguments, quantile

TYPE: Final = "thumb"
LINE: Final = b"x" * 100 + b"\n"
MANY: Final = 1000
MANY_CONNECTIONS: Final = 4
ROUNDS: Final = 3


class Load(NamedTuple):
    """What a server did in one round."""

    posts_per_s: float
    cpu_us: float
    """Of the server, all its threads, for each request: the figure that a busy machine does not spoil."""
    latencies_s: list[float]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.http", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--directory", type=Path, help="where the journals are (default: a temporary folder)")
    arguments = parse_arguments(parser, None)
    report = Report("http", as_json=arguments.json)
    home = Path(tempfile.mkdtemp(prefix="bench-http-", dir=arguments.directory))
    try:
        one, many = asyncio.run(measure(home, arguments.seconds, arguments.connections))
        report.table("one line a POST, 100 bytes, fsynced, beside a bare aiohttp POST", one)
        report.table(f"{MANY:,} lines a POST, fsynced, beside write+fdatasync of the same bytes", many)
        report.finish()
    finally:
        shutil.rmtree(home)


async def measure(
    home: Path, seconds: float, connections: Sequence[int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    async with AsyncExitStack() as stack:
        servers = {kind: await stack.enter_async_context(started(kind, home)) for kind in ("bare", "synced", "web")}
        service = await stack.enter_async_context(serve(home / "daemon"))
        servers["daemon"] = Server(service.port, await service.make_tenant(TENANT, {}), service.pid)
        key = await service.make_tenant("runs", {TYPE: NO_OP["python"]})
        runs = {"runs": Server(service.port, key, service.pid, "runs")}
        one = []
        for count in connections:
            loads = await in_turns(servers | runs if count == 1 else servers, LINE, seconds, count)
            one += [one_line_row(name, count, loads) for name in loads]
        plain = written_per_s(home / "plain", seconds / 2)
        loads = await in_turns({"web": servers["web"], "daemon": servers["daemon"]}, LINE * MANY, 1.0, MANY_CONNECTIONS)
        return one, [many_lines_row(name, loads, plain) for name in loads]


def one_line_row(name: str, connections: int, loads: dict[str, list[Load]]) -> dict[str, Any]:
    rate, bare = median_rate(loads[name]), median_rate(loads["bare"])
    cpu_us, bare_us = (median(load.cpu_us for load in loads[each]) for each in (name, "bare"))
    latencies_s = [latency for load in loads[name] for latency in load.latencies_s]
    return {
        "server": name,
        "connections": connections,
        "POST/s": rate,
        "of bare": rate / bare,
        "cpu us": cpu_us,
        "of bare cpu": bare_us / cpu_us,
        "p50 ms": quantile(latencies_s, 0.5) * 1000,
        "p99 ms": quantile(latencies_s, 0.99) * 1000,
    }


def many_lines_row(name: str, loads: dict[str, list[Load]], plain: float) -> dict[str, Any]:
    rate = median_rate(loads[name]) * MANY
    latencies_s = [latency for load in loads[name] for latency in load.latencies_s]
    return {
        "server": name,
        "connections": MANY_CONNECTIONS,
        "jobs/s": rate,
        "write+fdatasync lines/s": plain,
        "ratio": rate / plain,
        "cpu us/job": median(load.cpu_us for load in loads[name]) / MANY,
        "p50 ms": quantile(latencies_s, 0.5) * 1000,
        "p99 ms": quantile(latencies_s, 0.99) * 1000,
    }


def median_rate(loads: Sequence[Load]) -> float:
    return median(load.posts_per_s for load in loads)


async def in_turns(servers: dict[str, Server], body: bytes, seconds: float, connections: int) -> dict[str, list[Load]]:
    """So that a noisy neighbour hits all of them."""
    loads: dict[str, list[Load]] = {name: [] for name in servers}
    for _ in range(ROUNDS):
        for name, server in servers.items():
            request = message("POST", f"/{server.tenant}/job/{TYPE}/add", server.key, body)
            loads[name].append(await load_server(server, request, seconds / ROUNDS, connections))
    return loads


async def load_server(server: Server, request: bytes, seconds: float, connections: int) -> Load:
    async with connect_many(server.port, connections) as opened:
        cpu_s, ends_s = server_cpu_s(server), time.perf_counter() + seconds
        found = await asyncio.gather(*(client(connection, request, ends_s) for connection in opened))
        latencies_s = [latency for one in found for latency in one]
        cpu_us = (server_cpu_s(server) - cpu_s) / len(latencies_s) * 1e6
        return Load(len(latencies_s) / seconds, cpu_us, latencies_s)


async def client(connection: Connection, request: bytes, ends_s: float) -> list[float]:
    """One request after the other."""
    latencies_s = []
    while (began_s := time.perf_counter()) < ends_s:
        await connection.exchange(request)
        latencies_s.append(time.perf_counter() - began_s)
    return latencies_s


def server_cpu_s(server: Server) -> float:
    return parse_stat(Path(f"/proc/{server.pid}/stat").read_text()).own_s


def written_per_s(path: Path, seconds: float) -> float:
    """Lines a second of write+fdatasync, one body after the other."""
    body, lines = LINE * MANY, 0
    with path.open("wb", buffering=0) as file:
        began_s = time.perf_counter()
        while (taken_s := time.perf_counter() - began_s) < seconds:
            file.write(body)
            os.fdatasync(file.fileno())
            lines += MANY
    path.unlink()
    return lines / taken_s


if __name__ == "__main__":
    main()
