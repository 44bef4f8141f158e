"""Listens for clients of the protocol."""

import asyncio
import socket
from contextlib import suppress

from functory.bedrock.commands import Commands
from functory.bedrock.connection import Connection, Shared
from functory.bedrock.settings import BedrockSettings
from functory.web.closing import stop_listening
from functory.web.http.endpoint import Web


class BedrockListener:
    """From `start` to `stop`. `stop` is idempotent, and legal before start."""

    def __init__(self, web: Web, settings: BedrockSettings, *, listening: socket.socket | None = None) -> None:
        """listening: a socket of the caller, for several processes on one port."""
        self._settings = settings
        self._listening = listening
        self._shared = Shared(settings, Commands(web, settings.tenant))
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port in use, also when the setting is 0."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def connections(self) -> int:
        return len(self._shared.open)

    async def start(self) -> None:
        """Raises OSError when the address is not available."""
        loop = asyncio.get_running_loop()
        if self._listening is None:
            self._server = await loop.create_server(self._connect, self._settings.host, self._settings.port)
        else:
            self._server = await loop.create_server(self._connect, sock=self._listening)

    async def stop(self) -> None:
        """Take no more connections, end those that wait for jobs at once, let other commands finish, then close all."""
        server, self._server = self._server, None
        if server is not None:
            await stop_listening([server])
        for connection in list(self._shared.open):
            connection.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.shutdown_s):
                await self._shared.all_closed()
        for connection in list(self._shared.open):
            connection.abort()

    def _connect(self) -> Connection:
        return Connection(self._shared)
