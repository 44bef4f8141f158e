"""One connection: bytes in, one command after the other, answers in the same order.

Ensures: what arrives while a command is under way is left in the kernel beyond a small buffer. A client that has closed
its side gets the answers to what it asked, and waits for no job any more. One that sends slowly or reads nothing is cut
off. A large request is read on when its key is known to be good.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from functory.bedrock.call import Peer
from functory.bedrock.commands import WITH_DATA, Commands
from functory.bedrock.input_room import FREE_BYTES, InputRoom
from functory.bedrock.messages import Answer, Request, render
from functory.bedrock.parser import Malformed, Parser
from functory.bedrock.settings import BedrockSettings
from functory.web.addresses import Addresses

log = logging.getLogger("functory.bedrock")

_NATIVE: Final = Request("", {})
_LINGER_S: Final = 2.0
_MOST_STALLS: Final = 20
"""How many times `stall_s` an answer may take to be read."""
_IGNORED_BYTES: Final = 1 << 20


_READ_BYTES: Final = 64 * 1024


class Shared:
    """What the connections of a listener share. buffer is where each reads into, and copies from at once."""

    def __init__(self, settings: BedrockSettings, commands: Commands) -> None:
        self.settings = settings
        self.commands = commands
        self.addresses = Addresses(settings.max_connections_of_one)
        most_bytes = settings.max_input_bytes
        self.room = InputRoom(most_bytes, most_bytes // 2)
        self.unknown_room = InputRoom(most_bytes // 4, most_bytes // 8)
        """For requests whose key has not come yet."""
        self.buffer = bytearray(_READ_BYTES)
        self.open: set[Connection] = set()
        self._closed = asyncio.Event()

    def leave(self, connection: "Connection") -> None:
        self.open.discard(connection)
        self._closed.set()

    async def all_closed(self) -> None:
        while self.open:
            self._closed.clear()
            await self._closed.wait()


class Connection(asyncio.BufferedProtocol):
    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._settings = shared.settings
        self._parser = Parser(shared.settings, WITH_DATA)
        self._held_bytes = 0
        self._tenant: str | None = None
        """Whose request is arriving; None: that is not known."""
        self._recognising: asyncio.Task[None] | None = None
        self._serving: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None
        self._unread_bytes = 0
        """Of an answer, at the last look."""
        self._write_until_s = 0.0
        self._client: str | None = None
        self._is_ended = False
        """No more is read: the client has closed its side, or was told to go."""
        self._is_stopping = False
        """The command under way is the last."""
        self._timer_is_idle = False
        self._ignored_bytes = 0

    # What asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        self.peer = Peer(address)
        if len(self._shared.open) < self._settings.max_connections:
            self._client = self._shared.addresses.enter(address)
        if self._client is None:
            log.info("bedrock.too_many", extra={"peer": address})
            self._end(Answer(503, "Too many connections"))
            return
        self._shared.open.add(self)
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's)
        self.peer.gone.set()
        self._is_ended = True
        self._cancel_timer()
        self._hold(0)
        if self._recognising is not None:
            self._recognising.cancel()
        if self._client is not None:
            self._shared.addresses.leave(self._client)
            self._client = None
            self._shared.leave(self)
        self.resume_writing()

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 (asyncio's)
        return self._shared.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_ended:
            self._ignored_bytes += nbytes
            if self._ignored_bytes > _IGNORED_BYTES:
                self._transport.abort()
            return
        self._parser.feed(memoryview(self._shared.buffer)[:nbytes])
        if self._serving is None:
            self._next()
            return
        self._hold(self._parser.size_bytes)
        if self._parser.size_bytes >= FREE_BYTES:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """True keeps the connection open for answers that are under way."""
        self.peer.gone.set()
        if self._serving is None:
            return False
        self._is_ended = True
        return True

    def pause_writing(self) -> None:
        loop = asyncio.get_running_loop()
        self._drained = loop.create_future()
        self._unread_bytes = self._transport.get_write_buffer_size()
        self._write_until_s = loop.time() + _MOST_STALLS * self._settings.stall_s
        self._set_timer(self._settings.stall_s, self._on_stall)

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)
            self._cancel_timer()

    # What the listener asks

    def stop(self) -> None:
        """Answer the command under way, and close. Idempotent."""
        self.peer.gone.set()
        self._is_ended = self._is_stopping = True
        if self._serving is None:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    # Steps

    def _next(self) -> None:
        """Serve the next request, if it is whole."""
        try:
            request = self._parser.next()
            if request is None:
                self._take_in()
                return
        except Malformed as error:
            self._refuse(error)
            return
        self._charge(None)
        self._hold(self._parser.size_bytes)
        self._cancel_timer()
        self._serving = asyncio.create_task(self._serve(request), name="bedrock")

    def _take_in(self) -> None:
        """Make room for the beginning of a request, or find out first whose it is. Raises Malformed."""
        self._wait_for_request()
        if self._parser.size_bytes > FREE_BYTES and self._tenant is None:
            authorization = self._parser.authorization()
            if authorization is not None or self._parser.has_head or self._settings.tenant:
                self._transport.pause_reading()
                self._recognising = asyncio.create_task(self._recognise(authorization), name="bedrock")
                return
        if not self._hold(self._parser.size_bytes):
            self._end(Answer(503, "Too many large requests are on their way: try again in a moment"))

    async def _recognise(self, authorization: str | None) -> None:
        """Learn whose request is arriving, and read on."""
        found = await self._shared.commands.tenant_of(authorization, self.peer)
        self._recognising = None
        if self._is_ended:
            return
        if isinstance(found, Answer):
            self._end(found, self._last_request())
        else:
            self._charge(found)
            self._next()
        if not self._transport.is_closing():
            self._transport.resume_reading()

    async def _serve(self, first: Request) -> None:
        request: Request | None = first
        try:
            while request is not None:
                answer = await self._shared.commands.answer(request, self.peer)
                await self._send(render(answer, request))
                if not request.keeps_alive or self._is_stopping or self._transport.is_closing():
                    self._is_ended = True
                    break
                request = self._parser.next()
                self._hold(self._parser.size_bytes)
                if (request is None or self._parser.size_bytes < FREE_BYTES) and not self._is_ended:
                    self._transport.resume_reading()
                if request is not None:
                    await asyncio.sleep(0)  # answers that cost nothing leave others their turn
        except Malformed as error:
            self._refuse(error)
        except Exception:  # a defect of ours: it costs this connection only
            log.exception("bedrock.failed", extra={"peer": self.peer.address})
            self._transport.abort()
        finally:
            self._serving = None
            if self._is_ended and self._timer is None:
                self._transport.close()
        self._wait_for_request()

    async def _send(self, data: bytes) -> None:
        """A large answer takes room until the client has read most of it."""
        room = self._shared.commands.room
        if len(data) <= room.free_bytes:
            await self._write(data)
            return
        async with room.of(self.peer.payer, len(data)):
            await self._write(data)

    async def _write(self, data: bytes) -> None:
        if self._transport.is_closing() and self.peer.if_unheard is not None:
            await self.peer.if_unheard()
        self._transport.write(data)
        if self._drained is not None:
            await self._drained

    def _charge(self, tenant: str | None) -> None:
        """What is held from now on is the tenant's, or the address's."""
        self._hold(0)
        self._tenant = tenant

    def _hold(self, size_bytes: int) -> bool:
        if self._tenant is None:
            room, owner = self._shared.unknown_room, self._client or ""
        else:
            room, owner = self._shared.room, self._tenant
        if not room.change(owner, self._held_bytes, size_bytes):
            return False
        self._held_bytes = size_bytes
        return True

    def _refuse(self, error: Malformed) -> None:
        self._end(Answer(error.status, str(error)), self._last_request())

    def _last_request(self) -> Request:
        """Says in which form the request that is arriving is answered."""
        return _NATIVE._replace(is_http=self._parser.is_http, line_end=self._parser.line_end, keeps_alive=False)

    def _end(self, answer: Answer, request: Request = _NATIVE) -> None:
        """Say why, and close when the client has closed its side: a close at once would take the answer back if the
        client is still sending."""
        self._is_ended = True
        self._parser.clear()
        self._hold(0)
        if not self._transport.is_closing():
            self._transport.write(render(answer, request))
            if self._transport.can_write_eof():
                self._transport.write_eof()
            self._set_timer(_LINGER_S, self._transport.abort)

    # Time

    def _wait_for_request(self) -> None:
        if self._is_ended:
            return
        is_idle = not self._parser.is_within
        if self._timer is not None and self._timer_is_idle is is_idle:
            return  # blank lines are no request, and win no time
        if is_idle:
            self._set_timer(self._settings.idle_s, self._transport.close)
        else:
            self._set_timer(self._settings.request_s, self._on_slow)
        self._timer_is_idle = is_idle

    def _on_slow(self) -> None:
        self._end(Answer(408, f"The request did not arrive within {self._settings.request_s:g} s"))

    def _on_stall(self) -> None:
        """Whoever reads on is waited for, if slowly, but not for ever: its answer takes room."""
        before_bytes, self._unread_bytes = self._unread_bytes, self._transport.get_write_buffer_size()
        if self._unread_bytes < before_bytes and asyncio.get_running_loop().time() < self._write_until_s:
            self._set_timer(self._settings.stall_s, self._on_stall)
            return
        log.info("bedrock.stalled", extra={"peer": self.peer.address})
        self._transport.abort()

    def _set_timer(self, after_s: float, call: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(after_s, call)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
