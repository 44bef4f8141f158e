"""What the host of an http handler sends back is a tenant's: whatever it is, it costs that tenant's job and nobody
else's time.
"""

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

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
