"""The database goes away for longer than the driver waits, or hangs, and comes back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from store.errors import StoreUnavailable
from store.mongo import MongoStore
from store.mongo.server.driver import connect
from tests.support.jobs import T0, new_jobs
from tests.support.service import until

pytestmark = pytest.mark.slow
_FEW_PASSES = 10
_SOCKET_TIMEOUT_S = 60


class Line:
    """A way to the server that can be cut and mended, at the same address."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.flows = asyncio.Event()
        """While it is not set, connections stay open and nothing gets through."""
        self.flows.set()
        self.port = 0

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection(*self._upstream)
        self._writers |= {to_client, to_server}
        await asyncio.gather(self._copy(client, to_server), self._copy(server, to_client))
        self._writers -= {to_client, to_server}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                await self.flows.wait()
                writer.write(data)
        except ConnectionError:
            pass
        writer.close()


@asynccontextmanager
async def line_to(mongo_url: str, options: str) -> AsyncIterator[tuple[Line, str]]:
    """It, and a URL that leads through it."""
    parts = urlsplit(mongo_url)
    assert parts.hostname is not None
    assert parts.port is not None
    line = Line(parts.hostname, parts.port)
    await line.mend()
    try:
        yield line, f"mongodb://127.0.0.1:{line.port}{parts.path}?directConnection=true&{options}"
    finally:
        await line.cut()


async def test_calls_fail_at_once_while_the_database_is_away_and_go_on_when_it_is_back(mongo_url: str) -> None:
    async with line_to(mongo_url, "serverSelectionTimeoutMS=500") as (line, url), MongoStore(url) as store:
        await store.add_jobs(new_jobs(3), now_ms=T0)
        await line.cut()
        with pytest.raises(StoreUnavailable):
            await store.get_key("x")
        calls = [asyncio.create_task(store.get_key("x")) for _ in range(100)]
        calls.append(asyncio.create_task(_add(store)))
        for _ in range(_FEW_PASSES):
            await asyncio.sleep(0)
        assert all(call.done() for call in calls), "none waits for a server"
        assert all(isinstance(it, StoreUnavailable) for it in await asyncio.gather(*calls, return_exceptions=True))
        await line.mend()

        async def is_back() -> bool:
            try:
                return await store.get_key("x") is None
            except StoreUnavailable:
                return False

        await until(is_back)
        assert (await store.add_jobs(new_jobs(5), now_ms=T0)).added == 2
    await line.cut()


async def _add(store: MongoStore) -> None:
    await store.add_jobs(new_jobs(4), now_ms=T0)


async def test_a_database_that_hangs_is_found_out_by_a_heartbeat(mongo_url: str) -> None:
    options = "serverSelectionTimeoutMS=500&heartbeatFrequencyMS=500&connectTimeoutMS=500"
    async with line_to(mongo_url, options) as (line, url), MongoStore(url) as store:
        await store.add_jobs(new_jobs(3), now_ms=T0)
        line.flows.clear()
        calls = [store.get_key("x"), store.add_jobs(new_jobs(5), now_ms=T0)]
        answers = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), _SOCKET_TIMEOUT_S / 2)
        assert [type(answer) for answer in answers] == [StoreUnavailable] * 2
        line.flows.set()

        async def is_back() -> bool:
            try:
                return (await store.add_jobs(new_jobs(5), now_ms=T0)).added <= 2
            except StoreUnavailable:
                return False

        await until(is_back)


def test_heartbeats_are_quick_unless_the_url_says_otherwise() -> None:
    def seconds(url: str) -> tuple[float, float]:
        client, _ = connect(url)
        try:
            delegate = client.delegate
            return delegate.options.pool_options.connect_timeout, delegate._topology_settings.heartbeat_frequency
        finally:
            client.close()

    assert seconds("mongodb://127.0.0.1:1/x") == (5, 5)
    assert seconds("mongodb://127.0.0.1:1/x?connectTimeoutMS=7000&heartbeatFrequencyMS=9000") == (7, 9)
