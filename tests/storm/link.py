"""A TCP relay, between daemons and their store or between workers and a daemon. It can be cut in the middle of whatever
is passing, or swallow it in silence, as a network does that drops packets."""

import asyncio
from types import TracebackType
from typing import Final, Self

_PIECE_BYTES: Final = 1 << 16


class Link:
    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_cut = False
        self._passes = asyncio.Event()
        self._passes.set()

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def cut(self) -> None:
        """Reset every connection, and every new one until `mend`."""
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def hold(self) -> None:
        """Let nothing through until `mend`; connections stay, and nobody is told."""
        self._passes.clear()

    def mend(self) -> None:
        self._is_cut = False
        self._passes.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.mend()
        self.cut()
        await asyncio.gather(*self._tasks)  # they end by themselves: both of their sides are closed

    async def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        writers = {to_client}
        self._writers.add(to_client)
        try:
            if self._is_cut:
                return
            server, to_server = await asyncio.open_connection(*self._upstream)
            writers.add(to_server)
            self._writers.add(to_server)
            await asyncio.gather(self._copy(client, to_server), self._copy(server, to_client))
        except OSError:
            return  # the server is away, or one side hung up
        finally:
            for writer in writers:
                writer.transport.abort()
            self._writers -= writers
            self._tasks.discard(task)

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Until one side ends; then both do, as nobody here uses a connection in one direction."""
        while piece := await source.read(_PIECE_BYTES):
            await self._passes.wait()
            target.write(piece)
            await target.drain()
        raise ConnectionResetError
