"""Connections that node keeps between batches, while the process is stopped and hears of nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from handlers.model import Handler
from runner.runner import Runner
from tests.support.engines import jobs, run

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKS = """(payload) => new Promise((done, failed) => {
  require('http').get(payload, (answer) => {
    answer.resume();
    answer.on('end', () => done(answer.statusCode === 204 ? 'answered' : 'refused'));
  }).on('error', failed);
})"""


@dataclass
class Server:
    url: str = ""
    visitors: list[asyncio.StreamWriter] = field(default_factory=list)

    async def close_all(self) -> None:
        for writer in self.visitors:
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def keeping_server() -> AsyncIterator[Server]:
    """Keeps its connections until it is told to close them."""
    made = Server()

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.visitors.append(writer)
        while await reader.readline():
            while (await reader.readline()).strip():
                pass
            writer.write(b"HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n")

    server = await asyncio.start_server(visit, "127.0.0.1")
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    try:
        yield made
    finally:
        server.close()
        await made.close_all()


async def test_a_connection_that_its_host_has_closed_is_not_used_again(runner: Runner) -> None:
    handler = Handler("node", ASKS, memory_mb=192, network=True, before="require('http').globalAgent.keepAlive = true")
    async with keeping_server() as server:
        for _ in range(2):
            seen = await run(runner, handler, jobs(server.url))
            assert seen.results == [b'"answered"']
        assert len(server.visitors) == 1, "one that is open is used again"
        await server.close_all()
        seen = await run(runner, handler, jobs(server.url))
        assert seen.results == [b'"answered"']
        assert len(server.visitors) == 2
