"""POST of jobs beside a bare aiohttp POST in the same run: same bytes, same client, same machine.

python -m bench.http [--json] [--seconds S] [--connections N] [--directory DIR]

Each server is a process of its own; the client is another, and speaks plain sockets so that it is not what is measured.
Ours authenticates, checks, writes to the journal, syncs, and answers with the ids; nothing is taken into the store.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from aiohttp import web

from bench.report import Report, parse_arguments, quantile
from functory.operations.keys import create_key
from functory.operations.service import Service
from functory.operations.tenants import create_tenant
from functory.web.app import make_app
from functory.web.listen import Listener
from functory.web.settings import WebSettings
from functory.wire.admin import TenantLimits
from journal import Journal, SystemClock
from store.url import open_store
from tests.support.seams import LineIntake, PaperBench, PaperControl, ToldEndings

PATH = "/acme/job/thumb/add"
LINE = b"x" * 100 + b"\n"
ROUNDS = 3


class Load(NamedTuple):
    requests_per_s: float
    cpu_us: float
    """Of the server, all its threads, for each request: the figure that a busy machine does not spoil."""
    latencies_s: list[float]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.http", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--directory", type=Path, help="where the journal is (default: a temporary folder)")
    parser.add_argument("--serve", choices=["ours", "bare"], help=argparse.SUPPRESS)
    arguments = parse_arguments(parser, None)
    if arguments.serve:
        asyncio.run(serve(arguments.serve, arguments.directory))
        return
    report = Report("http", as_json=arguments.json)
    home = Path(tempfile.mkdtemp(prefix="bench-http-", dir=arguments.directory))
    try:
        rows = asyncio.run(measure(home, arguments.seconds, arguments.connections))
        report.table(f"POST {PATH}, 100-byte payloads, {arguments.connections} connections", rows)
        report.finish()
    finally:
        shutil.rmtree(home)


async def measure(home: Path, seconds: float, connections: int) -> list[dict[str, Any]]:
    rows = []
    async with started("bare", home) as bare, started("ours", home) as ours:
        for lines, query in ((1, ""), (1000, ""), (1000, "?ids=no")):
            loads: dict[str, list[Load]] = {"bare": [], "ours": []}
            for _ in range(ROUNDS):  # in turns, so that a noisy neighbour hits both
                for name, server in (("bare", bare), ("ours", ours)):
                    loads[name].append(await load(server, request(server, lines, query), seconds / ROUNDS, connections))
            plain, full = (median([it.requests_per_s for it in loads[name]]) for name in ("bare", "ours"))
            plain_us, full_us = (median([it.cpu_us for it in loads[name]]) for name in ("bare", "ours"))
            latencies = [latency for it in loads["ours"] for latency in it.latencies_s]
            rows.append(
                {
                    "lines/POST": lines,
                    "query": query or "-",
                    "bare POST/s": plain,
                    "ours POST/s": full,
                    "ratio": full / plain,
                    "bare cpu us": plain_us,
                    "ours cpu us": full_us,
                    "cpu ratio": plain_us / full_us,
                    "jobs/s": full * lines,
                    "p50 ms": quantile(latencies, 0.5) * 1000,
                    "p99 ms": quantile(latencies, 0.99) * 1000,
                }
            )
    return rows


class Server(NamedTuple):
    port: int
    key: str
    pid: int

    def cpu_s(self) -> float:
        """Processor time so far, of all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def started(kind: str, home: Path) -> AsyncIterator[Server]:
    folder = home / kind
    folder.mkdir()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.http", "--serve", kind, "--directory", str(folder),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        port, key = (await process.stdout.readline()).decode().split()
        yield Server(int(port), key, process.pid)
    finally:
        process.terminate()
        await process.wait()


def request(server: Server, lines: int, query: str) -> bytes:
    body = LINE * lines
    head = (
        f"POST {PATH}{query} HTTP/1.1\r\nHost: localhost:{server.port}\r\nAuthorization: Bearer {server.key}\r\n"
        f"Content-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def load(server: Server, message: bytes, seconds: float, connections: int) -> Load:
    cpu_s, ends_s = server.cpu_s(), time.perf_counter() + seconds
    latencies = await asyncio.gather(*(client(server.port, message, ends_s) for _ in range(connections)))
    flat = [latency for one in latencies for latency in one]
    return Load(len(flat) / seconds, (server.cpu_s() - cpu_s) / len(flat) * 1e6, flat)


async def client(port: int, message: bytes, ends_s: float) -> Sequence[float]:
    """One connection: a request, its answer, the next."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    latencies = []
    try:
        while (began := time.perf_counter()) < ends_s:
            writer.write(message)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"the server answered {head[:200]!r}")
            at = head.index(b"Content-Length: ") + 16
            await reader.readexactly(int(head[at : head.index(b"\r", at)]))
            latencies.append(time.perf_counter() - began)
    finally:
        writer.close()
    return latencies


async def serve(kind: str, folder: Path) -> None:
    """In a process of its own: say where, and wait to be ended."""
    if kind == "bare":
        await serve_bare()
    else:
        await serve_ours(folder)


async def serve_bare() -> None:
    async def add(request: web.Request) -> web.Response:
        body = await request.read()
        return web.json_response({"count": body.count(b"\n")})

    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/{tenant}/job/{type}/add", add)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], "no-key", flush=True)
    await asyncio.Event().wait()


async def serve_ours(folder: Path) -> None:
    now_ms = SystemClock().now_ms
    async with open_store(f"sqlite://{folder}/store.db") as store, Journal(folder / "journal", "a7") as journal:
        service = Service(
            store=store,
            journal=journal,
            intake=LineIntake(journal, store, now_ms),
            endings=ToldEndings(),
            bench=PaperBench(),
            control=PaperControl("a7"),
            now_ms=now_ms,
        )
        await create_tenant(service, "bench", "acme", 1, TenantLimits())
        _, key = await create_key(service, "bench", "acme")
        listener = Listener(make_app(service, WebSettings(port=0)))
        await listener.start()
        print(listener.port, key, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
