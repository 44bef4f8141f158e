"""One connection: aiohttp's, with limits for slow clients, errors in our form, and the fast path (express.py).

The fast path needs the parsed message before aiohttp's task has it. So this knows more about `RequestHandler`
than aiohttp promises: the queue of messages, the waiter of its idle task, and what `shutdown` and keep-alive look
at. All of that is below `# The fast path`. pyproject.toml pins aiohttp's version, and tests/web/test_express.py
fails when this changes.
"""

import asyncio
import logging
from typing import Any, Final

from aiohttp import web
from aiohttp.http import RawRequestMessage

from functory.web.addresses import Addresses
from functory.web.express import Express, PlainAdd
from functory.web.http.answers import problem
from functory.web.http.edge import Edge
from functory.web.http.outflow import LARGE_BYTES
from functory.web.http.settings import WebSettings
from functory.web.http_faults import MAX_HEADER_BYTES, MAX_HEADERS, MAX_URL_BYTES, fault_of

log = logging.getLogger("functory.web")


_READ_BYTES: Final = 128 * 1024
"""Read at a time, and with that what a connection has in memory of a body that nobody reads yet: such as one that waits
for room. By default it would be six times as much. Reading is paused at half of it: a pause only above the size of a
usual body of lines saved such a body 4 % and cost the hostile soak 60 MB."""
_BUSY_BODY: Final = b'{"error":{"code":"too_many_connections","message":"try again in a moment","detail":{}}}'
BUSY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_BUSY_BODY), _BUSY_BODY)
)
"""What a connection too many is told."""


class Connection(web.RequestHandler):
    __slots__ = (
        "_addresses",
        "_client",
        "_edge",
        "_express",
        "_header_timer",
        "_left_bytes",
        "_limits",
        "_serving",
        "_stall_timer",
        "_under_way",
    )

    def __init__(
        self,
        manager: web.Server,
        settings: WebSettings,
        edge: Edge,
        express: Express | None,
        addresses: Addresses,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(
            manager,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # aiohttp's own runner passes None, its annotation forgot it
            keepalive_timeout=settings.keepalive_s,
            max_line_size=MAX_URL_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
            auto_decompress=False,
            read_bufsize=_READ_BYTES // 4,
        )
        self._limits = settings
        self._edge = edge
        self._express = express
        self._addresses = addresses
        self._client: str | None = None
        """What the connection counts as among all addresses; None before it is made, and for one that was refused."""
        self._header_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._left_bytes = 0
        self._under_way: PlainAdd | None = None
        """The request on the fast path now."""
        self._serving: asyncio.Task[None] | None = None
        """What serves it, once there is something to wait for."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        transport.max_size = _READ_BYTES  # type: ignore[attr-defined]  # of asyncio's own transports
        self._client = self._addresses.enter(_host(self.peername))
        if self._client is None:
            log.info("connection.too_many", extra={"peer": _with_port(self.peername)})
            assert self.transport is not None
            self.transport.write(BUSY)
            self.transport.close()
            return
        self._header_timer = self._loop.call_later(self._limits.header_timeout_s, self._on_slow_headers)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._client is not None:
            self._addresses.leave(self._client)
            self._client = None
        for timer in (self._header_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    # Limits

    def _on_slow_headers(self) -> None:
        if self._request_count == 0 and not self._messages:
            log.info("connection.slow_headers", extra={"peer": _with_port(self.peername)})
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
        """A slow client is allowed; one that has stopped reading is not."""
        if self.transport is None:
            return
        left_bytes = self.transport.get_write_buffer_size()
        if left_bytes < self._left_bytes:
            self._left_bytes = left_bytes
            self._stall_timer = self._loop.call_later(self._limits.stall_timeout_s, self._on_stall)
            return
        log.info("connection.stalled", extra={"peer": _with_port(self.peername), "left_bytes": left_bytes})
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
        """Answer what cannot be read as HTTP at all."""
        if status >= 500:
            log.error("request.broken", exc_info=exc)
            answer = problem(status, "internal", "something went wrong on our side")
        else:
            answer = problem(*fault_of(exc))
        answer.headers["X-Request-Id"] = self._edge.request_id(None)
        answer.force_close()
        return answer

    # The fast path

    def data_received(self, data: bytes) -> None:
        waiter, self._waiter = self._waiter, None  # or aiohttp would wake its task, which would take the message
        try:
            super().data_received(data)
        finally:
            self._waiter = waiter
        if waiter is None or waiter.done() or self._under_way is not None or not self._messages:
            return  # nothing new, or the request before it is not done; then this one follows it
        plain = self._plain() if self._express is not None and len(self._messages) == 1 else None
        if plain is None:
            waiter.set_result(None)
        else:
            self._under_way = plain
            self._request_in_progress = True  # a shutdown waits for it
            if not plain.begin(self._go_on):
                self._go_on()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Called for every piece of a body that is read. There is something to do only after a pause."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def _plain(self) -> PlainAdd | None:
        assert self._express is not None
        message, payload = self._messages[0]
        if not isinstance(message, RawRequestMessage):
            return None  # it could not be parsed
        self._messages.popleft()  # before the body is read: that may bring in the next message
        plain = self._express.take(message, payload)
        if plain is None:
            self._messages.appendleft((message, payload))
        elif self._parser is not None:
            self._parser.message_consumed()
        return plain

    def _go_on(self) -> None:
        """Its lines are durable, or nothing could be begun yet. Most that do not wait for their jobs are answered
        here: a task would cost them as much as all else about the answer."""
        plain = self._under_way
        if plain is None:
            return  # the service has stopped meanwhile
        answer = None if self.transport is None or self.writing_paused else plain.answer_now()
        if self.transport is None or answer is None:
            self._serving = self._loop.create_task(self._serve(plain))
        else:
            self.transport.write(answer)
            self._end()

    async def _serve(self, plain: PlainAdd) -> None:
        try:
            answer = await plain.answer(_host(self.peername), lambda: self.transport is not None)
            if len(answer) <= LARGE_BYTES:
                await self._send(answer)
            elif not await self._edge.outflow.send_bytes(plain.tenant, answer, self._send):
                self._cut_off()
        except ConnectionError:
            log.debug("connection.lost_before_answer")
        finally:
            self._end()

    def _end(self) -> None:
        self._under_way = self._serving = None
        self._request_in_progress = False
        if self._handler_waiter is not None and not self._handler_waiter.done():
            self._handler_waiter.set_result(None)
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if self._messages and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)  # requests that came meanwhile take the plain path

    async def _send(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)
        if self.transport is None or self.writing_paused:
            await self._drain_helper()

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        await super().shutdown(timeout)
        self._under_way = None
        if self._serving is not None:
            self._serving.cancel()

    def _process_keepalive(self) -> None:
        if self._under_way is not None:  # aiohttp's task looks idle, but the client waits for an answer
            self._keepalive_handle = self._loop.call_later(self._keepalive_timeout, self._process_keepalive)
        else:
            super()._process_keepalive()


def _host(peer: Any) -> str:
    return str(peer[0]) if isinstance(peer, tuple) else str(peer or "")


def _with_port(peer: Any) -> str:
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
