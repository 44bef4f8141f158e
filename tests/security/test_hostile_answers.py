"""What the host of an http handler sends back is a tenant's: whatever it is, it costs that tenant's job and nobody
else's time.
"""

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import aiohttp.client_proto
import pytest

from handlers.model import Handler
from runner.plain import PlainLauncher
from runner.runner import Runner, RunnerSettings
from tests.support.engines import jobs, run

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
async def runner() -> AsyncIterator[Runner]:
    made = Runner(PlainLauncher(), RunnerSettings(http_allowed=(ipaddress.ip_network("127.0.0.2/32"),)))
    yield made
    await made.close()


@asynccontextmanager
async def host(answer: Answer) -> AsyncIterator[str]:
    """Where a host answers each request so."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(2)
                await answer(writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.2")
    yield f"http://127.0.0.2:{server.sockets[0].getsockname()[1]}/"
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize(
    "location", ["http://[::1]@", "//[]@", "http://[::1", "http://x:y/", "http://\u2024/", "\ud800"]
)
async def test_a_redirect_to_what_is_no_url_is_the_outcome_of_its_job(runner: Runner, location: str) -> None:
    """Some of these made the library raise what it does not promise: the job was given back, and posted for ever."""

    async def redirect(writer: asyncio.StreamWriter) -> None:
        to = location.encode("utf-8", "surrogatepass")
        writer.write(b"HTTP/1.1 307 Moved\r\nLocation: " + to + b"\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async with host(redirect) as url:
        seen = await run(runner, Handler("http", url), jobs("a"))
    assert len(seen.stopped) == 1
    assert seen.exitcodes[0] in {403, 502}


async def test_heads_before_the_answer_do_not_come_without_end(runner: Runner) -> None:
    """Each has to be taken in, and a host sends them faster than that: the event loop would do nothing else until the
    time of the job is up."""

    async def promise(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 5000)
            await writer.drain()

    async with host(promise) as url:
        seen = await run(runner, Handler("http", url, timeout_s=30), jobs("a"))
    assert seen.exitcodes == [502]
    assert b"heads" in seen.results[0]


async def test_a_few_heads_before_the_answer_are_passed_over_each_time(runner: Runner) -> None:
    async def hint(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 8 + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood")
        await writer.drain()

    async with host(hint) as url:
        for _ in range(3):
            seen = await run(runner, Handler("http", url), jobs("a"))
            assert (seen.exitcodes, seen.results) == ([200], [b"good"])


async def test_answers_that_nobody_asked_for_are_not_taken_in(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first counts. Thousands behind it in one read would hold up everybody."""
    taken = 0
    feed = aiohttp.client_proto.ResponseHandler.feed_data

    def count(self: aiohttp.client_proto.ResponseHandler, data: object, size: int = 0) -> None:
        nonlocal taken
        taken += 1
        feed(self, data, size)  # type: ignore[arg-type]

    monkeypatch.setattr(aiohttp.client_proto.ResponseHandler, "feed_data", count)

    async def repeat(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" * 5000)
        await writer.drain()

    async with host(repeat) as url:
        for _ in range(2):
            seen = await run(runner, Handler("http", url), jobs("a"))
            assert (seen.exitcodes, seen.results) == ([200], [b""])
    assert taken <= 20
