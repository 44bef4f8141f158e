"""The listening side: sockets, and limits on what a client can hold without having said anything useful.

aiohttp closes idle connections that have made a request; what it leaves open is closed here: more connections than
`max_connections`, a client that does not finish its first headers, and one that does not read its answer.
"""

import asyncio
import logging
import re
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from aiohttp import web

from functory.web.answers import problem
from functory.web.app import ADD_JOBS, WEB
from functory.web.edge import Edge
from functory.web.endpoint import Endpoint
from functory.web.settings import WebSettings

log = logging.getLogger("functory.web")

_ADD_PATH: Final = re.compile(r"/([a-z0-9_]{1,32})/job/([A-Za-z0-9_.:-]{1,127})/add(?:\?.*)?", re.ASCII)
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
        if ADD_JOBS in self._app:
            manager.request_handler = _FastLane(self._app[ADD_JOBS], manager.request_handler)

        def make_protocol() -> asyncio.Protocol:
            if len(manager.connections) >= settings.max_connections:
                return _Refusal()
            return _Connection(manager, settings, self._app[WEB].edge, loop)

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


class _FastLane:
    """Most requests add jobs: those go straight to their endpoint, all others through the application's router."""

    def __init__(self, add_jobs: Endpoint, app: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        self._add_jobs = add_jobs
        self._app = app

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        match = _ADD_PATH.fullmatch(request.raw_path) if request.method == "POST" else None
        if match is None or not isinstance(request, web.Request):
            return await self._app(request)
        return await self._add_jobs.handle(request, {"tenant": match[1], "type": match[2]})


class _Connection(web.RequestHandler):
    """aiohttp's connection with two timers of ours, and its errors in our form."""

    __slots__ = ("_edge", "_header_timer", "_left_bytes", "_limits", "_stall_timer")

    def __init__(self, manager: web.Server, settings: WebSettings, edge: Edge, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            manager,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # aiohttp's own runner passes None, its annotation forgot it
            keepalive_timeout=settings.keepalive_s,
            max_line_size=settings.max_header_bytes,
            max_field_size=settings.max_header_bytes,
            max_headers=settings.max_headers,
            auto_decompress=False,
        )
        self._limits = settings
        self._edge = edge
        self._header_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._left_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._header_timer = self._loop.call_later(self._limits.header_timeout_s, self._on_slow_headers)

    def connection_lost(self, exc: BaseException | None) -> None:
        for timer in (self._header_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _on_slow_headers(self) -> None:
        if self._request_count == 0 and not self._messages:
            log.info("connection.slow_headers", extra={"peer": _address(self.peername)})
            self._cut_off()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.transport is not None:
            self._left_bytes = self.transport.get_write_buffer_size()
            self._stall_timer = self._loop.call_later(self._limits.stall_timeout_s, self._on_stall)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _on_stall(self) -> None:
        """Slow is allowed, standing still is not."""
        if self.transport is None:
            return
        left_bytes = self.transport.get_write_buffer_size()
        if left_bytes < self._left_bytes:
            self._left_bytes = left_bytes
            self._stall_timer = self._loop.call_later(self._limits.stall_timeout_s, self._on_stall)
            return
        log.info("connection.stalled", extra={"peer": _address(self.peername), "left_bytes": left_bytes})
        self._cut_off()

    def _cut_off(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,  # noqa: ARG002 (the names are aiohttp's)
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002
    ) -> web.StreamResponse:
        """What cannot be read as HTTP at all comes here, and is told so; no text of the parser's goes back."""
        if status >= 500:
            log.error("request.broken", exc_info=exc)
        text = "the request is not valid HTTP" if status < 500 else "something went wrong on our side"
        answer = problem(status, "bad_http" if status < 500 else "internal", text)
        answer.headers["X-Request-Id"] = self._edge.request_id(None)
        answer.force_close()
        return answer


class _Refusal(asyncio.Protocol):
    """One connection too many: told so, and closed, without reading it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        with suppress(OSError):
            transport.write(_BUSY)
        transport.close()


def _address(peer: Any) -> str:
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
