"""The protocol of Bedrock::Jobs: pairs of GetJob and FinishJob a second, one after the other on each connection.

python -m bench.service.bedrock [--json] [--jobs N] [--rounds N] [--connections N ...] [--directory DIR]

Beside it beanstalkd's reserve and delete with a sync for each write (`-f0`), if it is installed: in turns, on the same
disk, by the same client. Of each the best round counts. Ours writes and syncs the taking of a job, too, so that it is
not lost with the daemon and no late worker ends the work of another; beanstalkd keeps it in memory. Processor time is
that of the server, the least of the rounds; it is what a busy machine spoils least. `bare asyncio` is a server in
Python that answers without doing anything: the limit of any.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.peers.servers import free_port, running_server
from bench.service.bare_queue import bare_queue
from bench.tools.cpu import CLIENT, cpu_seconds, spent
from bench.tools.daemon import serve
from bench.tools.report import Report, parse_arguments

JOBS: Final = 5_000
ROUNDS: Final = 3
CONNECTIONS: Final = (1, 16, 64)
TENANT: Final = "bench"
BEANSTALKD: Final = "beanstalkd -f0"
PAYLOAD: Final = b"x" * 100
_NOTHING: Final = b"404 "
_AT_ONCE: Final = 1000

Pair = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool]]
"""Take a job and end it. False: there is none left."""


class Queue(NamedTuple):
    name: str
    port: int
    pid: int
    fill: Callable[[int, int], Awaitable[None]]
    pair: Pair


class Measured(NamedTuple):
    pairs_per_s: float
    cpu_us: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.bedrock", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="for each round and number of connections")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--connections", type=int, nargs="+", default=CONNECTIONS)
    parser.add_argument("--directory", type=Path, help="where the data is (default: a temporary folder)")
    arguments = parse_arguments(parser, None)
    report = Report("bedrock", as_json=arguments.json)
    rows = asyncio.run(measure(arguments.directory, arguments.jobs, arguments.rounds, arguments.connections))
    report.table("pairs of taking and ending a job", rows)
    report.finish()


async def measure(directory: Path | None, jobs: int, rounds: int, connections: Sequence[int]) -> list[dict[str, Any]]:
    found: dict[tuple[str, int], list[Measured]] = {}
    async with AsyncExitStack() as stack:
        queues = [await stack.enter_async_context(ours(directory))]
        if shutil.which("beanstalkd"):
            queues.append(await stack.enter_async_context(beanstalkd(directory)))
        queues.append(await stack.enter_async_context(bare()))
        for count in connections:
            for _ in range(rounds):
                for queue in queues:
                    found.setdefault((queue.name, count), []).append(await measure_round(queue, jobs, count))
    best = {key: best_of(measured) for key, measured in found.items()}
    return [_row(name, count, best[name, count], best.get((BEANSTALKD, count))) for name, count in best]


async def measure_round(queue: Queue, jobs: int, connections: int) -> Measured:
    await queue.fill(queue.port, jobs)
    before_s = cpu_seconds(queue.pid)
    taken_s = await drain(queue.port, connections, queue.pair)
    used_s = sum(it for name, it in spent(before_s, cpu_seconds(queue.pid)).items() if name != CLIENT)
    return Measured(jobs / taken_s, used_s / jobs * 1e6)


def best_of(measured: Sequence[Measured]) -> Measured:
    return Measured(max(it.pairs_per_s for it in measured), min(it.cpu_us for it in measured))


@asynccontextmanager
async def ours(directory: Path | None) -> AsyncIterator[Queue]:
    folder = Path(tempfile.mkdtemp(prefix="bench-bedrock-", dir=directory))
    port = free_port()
    settings = ["--bedrock", f"127.0.0.1:{port}", "--bedrock-tenant", TENANT, "--log-jobs", "false"]
    try:
        async with serve(folder / "data", settings) as service:
            await service.make_tenant(TENANT, {})
            yield Queue("functory", port, service.pid, fill, _our_pair)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


async def fill(port: int, jobs: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for start in range(0, jobs, _AT_ONCE):
        many = min(_AT_ONCE, jobs - start)
        body = json.dumps({"jobs": [{"name": "x", "data": {"p": PAYLOAD.decode()}}] * many}).encode()
        writer.write(b"CreateJobs\nContent-Length: %d\n\n%s" % (len(body), body))
        if not (await reader.readuntil(b"]}")).startswith(b"200 "):
            raise RuntimeError("not created")
    writer.close()


@asynccontextmanager
async def beanstalkd(directory: Path | None) -> AsyncIterator[Queue]:
    folder = Path(tempfile.mkdtemp(prefix="bench-beanstalkd-", dir=directory))
    try:
        with running_server(BEANSTALKD, folder, synced_redis=False) as running:
            yield Queue(BEANSTALKD, running.port, running.pid, put, _their_pair)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


@asynccontextmanager
async def bare() -> AsyncIterator[Queue]:
    """It has as many jobs as were put in, for the client to count."""
    left = 0

    async def fill(_port: int, jobs: int) -> None:
        nonlocal left
        left = jobs

    async def pair(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        nonlocal left
        if not left:
            return False
        left -= 1
        for request in (b"GetJob\nname: x\n\n", b"FinishJob\njobID: 1\n\n"):
            writer.write(request)
            await reader.readuntil(b"\n\n")
        return True

    async with bare_queue() as server:
        yield Queue("bare asyncio", server.port, server.pid, fill, pair)


async def put(port: int, jobs: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for start in range(0, jobs, _AT_ONCE):
        many = min(_AT_ONCE, jobs - start)
        writer.write(b"put 0 0 600 %d\r\n%s\r\n" % (len(PAYLOAD), PAYLOAD) * many)
        for _ in range(many):
            await reader.readline()
    writer.close()


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
    if not (await reader.readline()).startswith(b"DELETED"):
        raise RuntimeError("not deleted")
    return True


def _row(name: str, connections: int, best: Measured, theirs: Measured | None) -> dict[str, Any]:
    times = best.pairs_per_s / theirs.pairs_per_s if theirs else None
    return {
        "queue": name,
        "connections": connections,
        "pairs/s": best.pairs_per_s,
        "cpu us/pair": best.cpu_us,
        "times beanstalkd": times,
    }


if __name__ == "__main__":
    main()
