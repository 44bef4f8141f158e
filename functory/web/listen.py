"""The listening side: sockets, and who gets what arrives on them.

aiohttp closes idle connections that have made a request; what it leaves open is closed here (more connections than
`max_connections`) or by the connection itself (connection.py).
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from aiohttp import web

from functory.web.app import ADD_JOBS, WEB
from functory.web.connection import Connection
from functory.web.endpoint import Endpoint
from functory.web.express import ADD_PATH, Express

_BUSY_BODY: Final = b'{"error":{"code":"too_many_connections","message":"try again in a moment","detail":{}}}'
_BUSY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_BUSY_BODY), _BUSY_BODY)
)


class Listener:
    """Serves an application from `start` to `stop`. `stop` is idempotent, and legal before start."""

    def __init__(self, app: web.Application, *, sockets: list[socket.socket] | None = None) -> None:
        """`sockets` are listening ones of the caller's, for several processes on one port; else host and port."""
        self._app = app
        self._settings = app[WEB].settings
        self._sockets = sockets
        self._runner: web.AppRunner | None = None
        self._servers: list[asyncio.Server] = []

    @property
    def port(self) -> int:
        """The port it really got, when it was told 0."""
        port: int = self._servers[0].sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Raises OSError when the address cannot be had."""
        settings = self._settings
        self._runner = runner = web.AppRunner(
            self._app, access_log=None, handle_signals=False, shutdown_timeout=settings.shutdown_s
        )
        await runner.setup()
        loop = asyncio.get_running_loop()
        manager = runner.server
        assert manager is not None
        state = self._app[WEB]
        express = Express(state) if ADD_JOBS in self._app else None
        if express is not None:
            manager.request_handler = _AddFirst(self._app[ADD_JOBS], manager.request_handler)

        def make_protocol() -> asyncio.Protocol:
            if len(manager.connections) >= settings.max_connections:
                return _Refusal()
            return Connection(manager, settings, state.edge, express, loop)

        try:
            if self._sockets is None:
                server = await loop.create_server(make_protocol, settings.host, settings.port, backlog=1024)
                self._servers.append(server)
            else:
                for listening in self._sockets:
                    self._servers.append(await loop.create_server(make_protocol, sock=listening, backlog=1024))
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Take no more connections, let requests under way finish for `shutdown_s`, then close all."""
        for server in self._servers:
            server.close()
        self._servers = []
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()


class _AddFirst:
    """Most of what goes the ordinary way adds jobs, too: straight to its endpoint, past the application's router."""

    def __init__(self, add_jobs: Endpoint, app: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        self._add_jobs = add_jobs
        self._app = app

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        match = ADD_PATH.fullmatch(request.raw_path) if request.method == "POST" else None
        if match is None or "Expect" in request.headers or not isinstance(request, web.Request):
            return await self._app(request)  # which also answers who waits for "100 Continue"
        return await self._add_jobs.handle(request, {"tenant": match[1], "type": match[2]})


class _Refusal(asyncio.Protocol):
    """One connection too many: told so, and closed, without reading it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        with suppress(OSError):
            transport.write(_BUSY)
        transport.close()
