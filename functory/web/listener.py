"""Listens: opens sockets, and passes what arrives on them to connections.

aiohttp closes idle connections that have made a request. What it leaves open is closed here (more than
`max_connections`) or by the connection itself (connection.py).
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from aiohttp import web

from functory.web.addresses import Addresses
from functory.web.api.add import ADD_ROUTE
from functory.web.app import PATHS, WEB
from functory.web.closing import stop_listening
from functory.web.connection import BUSY, Connection
from functory.web.express import Express
from functory.web.http.answers import problem
from functory.web.http.edge import Edge, Params
from functory.web.http.endpoint import Endpoint
from functory.web.http.path_index import PathIndex
from functory.web.http_faults import (
    UnknownCoding,
    UnknownExpectation,
    has_unknown_coding,
    has_unknown_expectation,
)

_OF_A_HOST: Final = 2
"""Slashes of a path with `http://` and a host before it."""
_MOST_PATH_CHARS: Final = 4000
"""The longest name in a path is a rate domain: 255 characters, each written as up to twelve."""


class Listener:
    """Serves an application from `start` to `stop`. `stop` is idempotent, and legal before start."""

    def __init__(self, app: web.Application, *, sockets: list[socket.socket] | None = None) -> None:
        """`sockets` are listening sockets of the caller, for several processes on one port; None: host and
        port of the settings."""
        self._app = app
        self._settings = app[WEB].settings
        self._sockets = sockets
        self._runner: web.AppRunner | None = None
        self._servers: list[asyncio.Server] = []

    @property
    def port(self) -> int:
        """The port in use, also when the setting is 0."""
        port: int = self._servers[0].sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Start listening. Raises OSError when the address is not available."""
        settings = self._settings
        # aiohttp waits for so long twice: for requests to end, and once more after it has asked them to
        self._runner = runner = web.AppRunner(
            self._app, access_log=None, handle_signals=False, shutdown_timeout=settings.shutdown_s / 2
        )
        await runner.setup()
        loop = asyncio.get_running_loop()
        manager = runner.server
        assert manager is not None
        state = self._app[WEB]
        paths = self._app[PATHS]
        express = Express(state) if paths.find("POST", ADD_ROUTE.format(tenant="t", type="t")) is not None else None
        most_parts = max(resource.canonical.count("/") for resource in self._app.router.resources())
        manager.request_handler = _Direct(paths, most_parts, state.edge, manager.request_handler)

        addresses = Addresses(settings.max_connections_of_one, settings.trusted_proxies)

        def make_protocol() -> asyncio.Protocol:
            if len(manager.connections) >= settings.max_connections:
                return _Refusal()
            return Connection(manager, settings, state.edge, express, addresses, loop)

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
        servers, self._servers = self._servers, []
        await stop_listening(servers)
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()


class _Direct:
    """Passes requests to their endpoints, past the application's router."""

    def __init__(
        self,
        paths: PathIndex[Endpoint],
        most_parts: int,
        edge: Edge,
        app: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
    ) -> None:
        """most_parts: of the longest path that the application's router knows."""
        self._paths = paths
        self._most_parts = most_parts
        self._edge = edge
        self._app = app

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if has_unknown_coding(request.headers):
            return request.protocol.handle_error(request, 400, UnknownCoding())
        if has_unknown_expectation(request.headers):
            return request.protocol.handle_error(request, 417, UnknownExpectation())
        path = request.raw_path.partition("?")[0]
        found = self._paths.find(request.method, path)
        if found is None and isinstance(request, web.Request) and self._is_nowhere(path):
            return await self._edge.pass_through(request, {}, _nowhere, "")
        if found is None or "Expect" in request.headers or not isinstance(request, web.Request):
            if not request.rel_url.raw_path.startswith("/"):  # the * of OPTIONS: the application knows only paths
                request = request.clone(rel_url="/" + request.rel_url.raw_path)
            return await self._app(request)  # it also handles "100 Continue"
        endpoint, params = found
        return await endpoint.handle(request, params)

    def _is_nowhere(self, path: str) -> bool:
        """Whether nobody needs to look for it. The router takes long for a long path, and anybody can send one."""
        return path.count("/") > self._most_parts + _OF_A_HOST or len(path) > _MOST_PATH_CHARS


async def _nowhere(_: web.Request, __: Params) -> web.StreamResponse:
    return problem(404, "no_such_path", "there is nothing at this path")


class _Refusal(asyncio.Protocol):
    """One connection too many: it is told so and closed, unread."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        with suppress(OSError):
            transport.write(BUSY)
        transport.close()
