"""The protocol of Bedrock::Jobs: pairs of GetJob and FinishJob a second, one after the other on each connection.

python -m bench.service.bedrock [--json] [--jobs N] [--connections N ...] [--directory DIR]

Every FinishJob is durable when it is answered. Beside it beanstalkd's reserve and delete with a sync for each write
(`-f0`), if it is installed.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from bench.peers.servers import free_port, server
from bench.tools.cpu import CLIENT, cpu_seconds, spent
from bench.tools.daemon import serve
from bench.tools.report import Report, parse_arguments

JOBS: Final = 5_000
CONNECTIONS: Final = (1, 16, 64)
TENANT: Final = "bench"
PAYLOAD: Final = b"x" * 100
_NOTHING: Final = b"404 "
_AT_ONCE: Final = 1000

Pair = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool]]
"""Take a job and end it. False: there is none left."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.bedrock", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="for each number of connections")
    parser.add_argument("--connections", type=int, nargs="+", default=CONNECTIONS)
    parser.add_argument("--directory", type=Path, help="where the data is (default: a temporary folder)")
    arguments = parse_arguments(parser, None)
    report = Report("bedrock", as_json=arguments.json)
    rows = asyncio.run(measure_ours(arguments.directory, arguments.jobs, arguments.connections))
    if shutil.which("beanstalkd"):
        rows += asyncio.run(measure_beanstalkd(arguments.directory, arguments.jobs, arguments.connections))
    report.table("pairs of taking and ending a job", rows)
    report.finish()


async def measure_ours(directory: Path | None, jobs: int, connections: list[int]) -> list[dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="bench-bedrock-", dir=directory))
    port = free_port()
    settings = ["--bedrock", f"127.0.0.1:{port}", "--bedrock-tenant", TENANT, "--log-jobs", "false"]
    rows = []
    try:
        async with serve(folder / "data", settings) as service:
            await service.make_tenant(TENANT, {})
            for count in connections:
                await fill(port, jobs)
                cpu_s = cpu_seconds(service.pid)
                taken_s = await drain(port, count, _our_pair)
                used_s = sum(it for name, it in spent(cpu_s, cpu_seconds(service.pid)).items() if name != CLIENT)
                rows.append(_row("functory", count, jobs, taken_s) | {"cpu us/pair": used_s / jobs * 1e6})
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)
    return rows


async def fill(port: int, jobs: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for start in range(0, jobs, _AT_ONCE):
        many = min(_AT_ONCE, jobs - start)
        body = json.dumps({"jobs": [{"name": "x", "data": {"p": PAYLOAD.decode()}}] * many}).encode()
        writer.write(b"CreateJobs\nContent-Length: %d\n\n%s" % (len(body), body))
        if not (await reader.readuntil(b"]}")).startswith(b"200 "):
            raise RuntimeError("not created")
    writer.close()


async def measure_beanstalkd(directory: Path | None, jobs: int, connections: list[int]) -> list[dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="bench-beanstalkd-", dir=directory))
    rows = []
    try:
        with server("beanstalkd -f0", folder, synced_redis=False) as url:
            port = int(url.rpartition(":")[2])
            for count in connections:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                for _ in range(jobs):
                    writer.write(b"put 0 0 600 %d\r\n%s\r\n" % (len(PAYLOAD), PAYLOAD))
                    await reader.readline()
                writer.close()
                rows.append(_row("beanstalkd -f0", count, jobs, await drain(port, count, _their_pair)))
                rows[-1]["cpu us/pair"] = None
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)
    return rows


async def drain(port: int, connections: int, pair: Pair) -> float:
    """Seconds until nothing is left."""
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(connections)]

    async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await pair(reader, writer):
            pass
        writer.close()

    began_s = time.perf_counter()
    await asyncio.gather(*(work(*each) for each in opened))
    return time.perf_counter() - began_s


async def _our_pair(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    writer.write(b"GetJob\nname: x\n\n")
    if (await reader.readuntil(b"\n\n")).startswith(_NOTHING):
        return False
    body = await reader.readuntil(b'"name":"x"}')
    number = body.partition(b'"jobID":')[2].partition(b",")[0]
    writer.write(b"FinishJob\njobID: %s\n\n" % number)
    answer = await reader.readuntil(b"\n\n")
    if not answer.startswith(b"200 "):
        raise RuntimeError(answer)
    return True


async def _their_pair(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    writer.write(b"reserve-with-timeout 0\r\n")
    answer = await reader.readline()
    if not answer.startswith(b"RESERVED"):
        return False
    _, job, size = answer.split()
    await reader.readexactly(int(size) + 2)
    writer.write(b"delete %s\r\n" % job)
    await reader.readline()
    return True


def _row(name: str, connections: int, jobs: int, taken_s: float) -> dict[str, Any]:
    return {"queue": name, "connections": connections, "pairs/s": jobs / taken_s}


if __name__ == "__main__":
    main()
