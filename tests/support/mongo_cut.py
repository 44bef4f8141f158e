"""A proxy in front of a MongoDB server that breaks the connection for good at a chosen command.

It stands for a process that dies between two of its writes: `before` the server sees the command, or `after` the
server has answered it and nobody hears the answer. From then on nothing gets through.
"""

import asyncio
import struct
from types import TracebackType
from typing import Final, Self

_NOT_COUNTED: Final = (b"hello\x00", b"ismaster\x00", b"isMaster\x00", b"endSessions\x00")


class CutProxy:
    def __init__(self, host: str, port: int, *, cut_at: int | None, after: bool, heals: bool = False) -> None:
        """With heals only that one connection is lost, and the next one is good."""
        self._upstream = (host, port)
        self._cut_at = cut_at
        self._after = after
        self._heals = heals
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.commands = 0
        self._dead = asyncio.Event()

    def cut_in(self, commands: int) -> None:
        """Cut at the so-manieth command from now."""
        self._cut_at = self.commands + commands

    def is_cut(self) -> bool:
        return self._dead.is_set()

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._die()
        await asyncio.gather(*self._tasks)  # they end by themselves: both of their sides are closed

    def _die(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()

    async def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(to_client)
        if self.is_cut() and not self._heals:
            to_client.close()
            return
        server, to_server = await asyncio.open_connection(*self._upstream)
        self._writers.add(to_server)
        try:
            cut_here = False
            while not cut_here:
                request = await _message(client)
                cut_here = self._count(request)
                if cut_here and not self._after:
                    break
                to_server.write(request)
                reply = await _message(server)
                if not cut_here:
                    to_client.write(reply)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # one side hung up, which is what this is about
        finally:
            if self.is_cut() and not self._heals:
                self._die()
            to_client.close()
            to_server.close()
            self._writers -= {to_client, to_server}
            self._tasks.discard(task)

    def _count(self, request: bytes) -> bool:
        """Whether this is the command to cut at."""
        if any(name in request[:200] for name in _NOT_COUNTED):
            return False
        self.commands += 1
        if self.commands != self._cut_at:
            return False
        self._dead.set()
        return True


async def _message(stream: asyncio.StreamReader) -> bytes:
    head = await stream.readexactly(4)
    (length,) = struct.unpack("<i", head)
    return head + await stream.readexactly(length - 4)
