"""Acts over HTTP: answers that nobody reads, bodies that grow, requests that never end, types without number."""

import asyncio
import gzip
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

from functory.errors import ClientError
from functory.hostile.act import Act
from functory.hostile.arena import Arena
from functory.hostile.watch import only_id

_BIG: Final = "import time; time.sleep(float(payload or 0)); return b'\\x01' * 16_000_000"
_HOLD_S: Final = 2.0
_STATUS_S: Final = 10.0
_MANY: Final = 100


async def unread_answers(arena: Arena) -> str:
    """Ask for a result of 16 MB on a hundred connections, and read none of the answers."""
    job = await arena.run_job("big", _BIG, "0", memory_mb=200)
    statuses = await _ask(arena, [_get(arena, f"/{arena.name}/job/{job.id}")] * _MANY)
    return f"the answers were {_told(statuses)}"


async def awaited_answers(arena: Arena) -> str:
    """Wait on a hundred connections for a job that will leave 16 MB, and read none of the answers."""
    await arena.hostile.put_handler("big", "python", _BIG, memory_mb=200)
    job_id = only_id(await arena.hostile.add_jobs("big", ["2"]))
    statuses = await _ask(arena, [_get(arena, f"/{arena.name}/job/{job_id}?wait_s=30")] * _MANY)
    return f"the answers were {_told(statuses)}"


async def unread_ids(arena: Arena) -> str:
    """Add a hundred thousand jobs in 200 KB on each of six connections, and read none of the ids."""
    request = _post(arena, "many", b"x\n" * 100_000, "", query="")
    return f"the answers were {_told(await _ask(arena, [request] * 6))}"


async def packed_bodies(arena: Arena) -> str:
    """Post 16 MiB as 16 KiB of gzip on forty connections at once: lines, and JSON of many values."""
    lines, objects = gzip.compress(b"\n" * (16 << 20)), gzip.compress(b"[" + b"{}," * (5 << 20) + b"{}]")
    requests = [
        _post(arena, "packed", body, f"Content-Encoding: gzip\r\nContent-Type: {kind}\r\n")
        for body, kind in ((lines, "text/plain"), (objects, "application/json"))
    ]
    return f"the answers were {_told(await _ask(arena, requests * 20))}"


async def large_bodies(arena: Arena) -> str:
    """Post a hundred thousand jobs of 150 bytes on twelve connections at once."""
    body = gzip.compress((b"x" * 150 + b"\n") * 100_000)
    request = _post(arena, "many", body, "Content-Encoding: gzip\r\n")
    return f"the answers were {_told(await _ask(arena, [request] * 12, read=True))}"


async def many_creates(arena: Arena) -> str:
    """Create a thousand jobs together in 130 KB on each of three hundred connections at once."""
    job = b'{"type":"many","payload":"' + b"x" * 100 + b'"}'
    request = _post_to(arena, "jobs", b'{"jobs":[' + b",".join([job] * 1000) + b"]}")
    return f"the answers were {_told(await _ask(arena, [request] * 300, read=True))}"


async def half_requests(arena: Arena) -> str:
    """Open three hundred connections and send half a request on each."""
    whole = _post(arena, "half", b"x" * 1_000_000, "")
    halves = [whole[: len(whole) // 2], whole[:40], whole[:200_000]]
    async with AsyncExitStack() as stack:
        for number in range(300):
            _, writer = await stack.enter_async_context(_connection(arena))
            writer.write(halves[number % len(halves)])
        await asyncio.sleep(_HOLD_S)
    return "300 connections were held open"


async def many_types(arena: Arena) -> str:
    """Post a job to each of two thousand types that have no handler."""
    taken, refusals = 0, Counter[str]()
    numbers = iter(range(2000))

    async def post_some() -> None:
        nonlocal taken
        for number in numbers:
            try:
                await arena.hostile.add_jobs(f"type{number}", ["x"])
            except ClientError as error:
                refusals[error.code] += 1
            else:
                taken += 1

    await asyncio.gather(*(post_some() for _ in range(8)))
    return f"{taken} were taken{''.join(f', {count} refused as {code}' for code, count in refusals.items())}"


HTTP_ACTS: Final[tuple[Act, ...]] = (
    unread_answers,
    awaited_answers,
    unread_ids,
    packed_bodies,
    large_bodies,
    many_creates,
    half_requests,
    many_types,
)


def _get(arena: Arena, path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {arena.key}\r\n\r\n".encode()


def _post(arena: Arena, job_type: str, body: bytes, headers: str, query: str = "?ids=no") -> bytes:
    return _post_to(arena, f"job/{job_type}/add{query}", body, headers)


def _post_to(arena: Arena, path: str, body: bytes, headers: str = "") -> bytes:
    head = (
        f"POST /{arena.name}/{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {arena.key}\r\n"
        f"{headers}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _ask(arena: Arena, requests: list[bytes], *, read: bool = False) -> Counter[str]:
    """Send each request on a connection of its own, all at once; the statuses of those that were answered."""
    statuses: Counter[str] = Counter()

    async def ask(request: bytes) -> None:
        async with _connection(arena) as (reader, writer):
            writer.write(request)
            try:
                async with asyncio.timeout(_STATUS_S if not read else 60.0):
                    line = await reader.readline()
            except (TimeoutError, OSError):
                statuses["none"] += 1
                return
            statuses[line[9:12].decode("latin-1") or "none"] += 1
            await asyncio.sleep(_HOLD_S)

    await asyncio.gather(*map(ask, requests))
    return statuses


def _told(statuses: Counter[str]) -> str:
    return ", ".join(f"{count} times {status}" for status, count in sorted(statuses.items()))


@asynccontextmanager
async def _connection(arena: Arena) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """One that keeps next to nothing of what it is sent."""
    address = urlsplit(arena.daemon.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=2048)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()
