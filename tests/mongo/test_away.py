"""The database goes away for longer than the driver waits, and comes back."""

import asyncio
from urllib.parse import urlsplit

import pytest

from store.errors import StoreUnavailable
from store.mongo import MongoStore
from tests.support.jobs import T0, new_jobs
from tests.support.service import until

pytestmark = pytest.mark.slow
_FEW_PASSES = 10


class Line:
    """A way to the server that can be cut and mended, at the same address."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
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
        await asyncio.gather(_copy(client, to_server), _copy(server, to_client))
        self._writers -= {to_client, to_server}


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
    except ConnectionError:
        pass
    writer.close()


async def test_calls_fail_at_once_while_the_database_is_away_and_go_on_when_it_is_back(mongo_url: str) -> None:
    parts = urlsplit(mongo_url)
    assert parts.hostname is not None
    assert parts.port is not None
    line = Line(parts.hostname, parts.port)
    await line.mend()
    url = f"mongodb://127.0.0.1:{line.port}{parts.path}?directConnection=true&serverSelectionTimeoutMS=500"
    async with MongoStore(url) as store:
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
