"""One connection of a context to the proxy, from its first byte to its last.

    read the head -> ask whether it may -> connect -> let bytes flow both ways -> end

Ensures: bytes go only to the host and port that the gate let through, at the address that was checked; each direction
holds at most one piece of `PIECE_BYTES` in memory, and before it a head or a ClientHello that is not whole yet, which
have bounds of their own; a side that does not read stops the other; it ends with its context, when it is idle, when TLS
does not begin in time, and when it is too old. Nothing that comes from either side raises out of here.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from functory.egress import head
from functory.egress.answer import AnswerHead
from functory.egress.client_hello import ClientHello, NotReadable, is_tls
from functory.egress.head import BadRequest, Wanted
from functory.egress.meters import Meters
from functory.egress.request_body import BadBody
from functory.egress.side import Side
from handlers.hosts import MAX_NAME

_LAST_WORDS_S: Final = 2.0
_LINGER_S: Final = 30.0
"""So long the rest of a body is read that nobody wants any more, because its sender reads the answer after that."""
_TUNNEL_READY: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Refused(Exception):
    """The request is answered with `status` and the message, which has no more of the request than its host, whole."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


Connect = Callable[[Wanted], Awaitable[socket.socket]]
"""Whether it may, and a socket that is connected to an address that was checked. Raises Refused."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose connection it is, and who hears of refusals."""

    tenant: str
    meters: Meters
    tell: Callable[[str], None]


class _Gone(Exception):
    """The context hung up before it had asked for anything."""


class Connection:
    """`run` or `run_refused` is awaited once; it returns when both ends are closed. Cancelling it closes them."""

    def __init__(self, accepted: socket.socket, owner: Owner) -> None:
        self._accepted: socket.socket | None = accepted
        self._owner = owner
        self._limits = owner.meters.limits
        self._client = Side(self)
        self._host = Side(self)
        self._early = bytearray()  # what came before there was somewhere to send it
        self._head: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wanted: Wanted | None = None
        self._is_flowing = False
        self._is_checked = False  # a tunnel's first bytes
        self._hello: ClientHello | None = None  # while it arrives
        self._hello_timer: asyncio.TimerHandle | None = None
        self._answer = AnswerHead()  # to a plain request
        self._linger_timer: asyncio.TimerHandle | None = None  # while the rest of a body is read and dropped
        self._body_timer: asyncio.TimerHandle | None = None  # while a part of it has not been looked at
        self.moved_at = self.started_at = time.monotonic()

    async def run(self, connect: Connect) -> None:
        loop = asyncio.get_running_loop()
        try:
            await self._take_client()
            try:
                self._wanted = await self._read_head()
                upstream = await connect(self._wanted)
                await loop.create_connection(lambda: self._host, sock=upstream)
                self._begin(self._wanted)
                await self._over
            except Refused as error:
                await self._refuse(error)
            except _Gone:
                return
        finally:
            for timer in (self._hello_timer, self._linger_timer, self._body_timer):
                if timer is not None:
                    timer.cancel()
            self._client.abort()
            self._host.abort()

    async def run_refused(self, error: Refused) -> None:
        """Answer without asking what it wants."""
        self._head.set_result(None)
        try:
            await self._take_client()
            await self._refuse(error)
        finally:
            self._client.abort()

    def is_due(self, now: float) -> bool:
        """Whether it is idle for too long, or too old."""
        return now - self.moved_at > self._limits.idle_s or now - self.started_at > self._limits.life_s

    def close(self) -> None:
        self._finish()

    def discard(self) -> None:
        """For one that may have been cancelled before it began."""
        if self._accepted is not None:
            self._accepted.close()

    # Steps --------------------------------------------------------------------------------------------------------

    async def _take_client(self) -> None:
        accepted, self._accepted = self._accepted, None
        assert accepted is not None
        await asyncio.get_running_loop().connect_accepted_socket(lambda: self._client, accepted)

    async def _read_head(self) -> Wanted:
        try:
            async with asyncio.timeout(self._limits.head_s):
                await self._head
        except TimeoutError:
            raise Refused(408, f"the head of the request did not arrive within {self._limits.head_s:g} s") from None
        if self._over.done():
            raise _Gone
        at = self._early.find(head.END)
        if at < 0:
            raise Refused(431, f"the head of a request has at most {head.MAX_BYTES} bytes")
        text = bytes(self._early[: at + len(head.END)])
        del self._early[: len(text)]
        try:
            return head.parse_head(text)
        except BadRequest as error:
            raise Refused(400, str(error)) from None

    def _begin(self, wanted: Wanted) -> None:
        """Both ends are there: what came early goes first."""
        self._is_flowing = True
        early, self._early = bytes(self._early), bytearray()
        self._count(self._client, len(wanted.head) + len(early))
        self._host.write(wanted.head)
        if wanted.is_tunnel:
            self._client.write(_TUNNEL_READY)
        if early:
            self._from_client(early)
        self._client.let_go("head")

    async def _refuse(self, error: Refused) -> None:
        """Answer and close. Whoever does not read the answer is not waited for."""
        text = str(error).encode("ascii", "replace").decode()
        self._owner.meters.refused(self._owner.tenant)
        self._owner.tell(text)
        body = f"{text}\n"
        # Most programs show no more of a refused CONNECT than its first line.
        self._client.write(
            f"HTTP/1.1 {error.status} {text}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
        )
        self._client.end()
        self._early.clear()
        self._client.let_go("head")  # what is still on its way is read and dropped, or the answer would be lost
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await self._over

    # What the two sides tell --------------------------------------------------------------------------------------

    def other(self, side: Side) -> Side:
        return self._host if side is self._client else self._client

    def received(self, side: Side, data: bytes) -> None:
        if self._over.done():
            return
        self.moved_at = time.monotonic()
        self._pace(side, count=len(data))
        if self._is_flowing:
            self._count(side, len(data))
            if side is self._client:
                self._from_client(data)
            else:
                self._client.write(data if self._is_tunnel else self._answer.take(data))
        elif not self._head.done():
            self._early += data
            if head.END in self._early or len(self._early) > head.MAX_BYTES:
                self._client.hold("head")
                self._head.set_result(None)

    def ended(self, side: Side) -> None:
        """One side will send no more. The other is told so, and may still send."""
        self._client.write(self._answer.rest() if side is self._host else b"")
        if not self._is_flowing:
            self._finish()
        elif side is self._host and self._has_more_to_send:
            self._linger()
        elif self.other(side).has_ended or (side is self._host and not self._is_tunnel):
            self._client.close()
            self._host.close()
        elif self._is_tunnel or self._answer.is_over:  # of a plain request the end is known without that
            self.other(side).end()
        elif self._wanted is not None and self._wanted.body is not None and not self._wanted.body.is_over:
            self._finish()  # the context has given up: nobody will send the rest of the body

    def lost(self, side: Side) -> None:
        """One side is gone. The other still gets what was meant for it."""
        other = self.other(side)
        if other.transport is None:
            self._finish()
        elif side is self._host and self._has_more_to_send:
            self._linger()
        else:
            other.close()

    @property
    def _has_more_to_send(self) -> bool:
        """Whether the context is still at the body of a plain request that has its answer."""
        body = None if self._wanted is None else self._wanted.body
        return body is not None and not body.is_over and self._answer.is_over and not self._client.has_ended

    def _linger(self) -> None:
        """The host answered before it had all of the body. Whoever sends it reads the answer when all is sent, and
        would lose it if the connection were closed before that."""
        if self._linger_timer is None:
            self._linger_timer = asyncio.get_running_loop().call_later(_LINGER_S, self._finish)
            self._host.has_ended = True
            self._host.abort()
            self._client.end()
            self._client.let_go("full")

    @property
    def _is_tunnel(self) -> bool:
        return self._wanted is not None and self._wanted.is_tunnel

    def _finish(self) -> None:
        for step in (self._over, self._head):
            if not step.done():
                step.set_result(None)

    def _pace(self, side: Side, *, count: int = 0, pieces: int = 0) -> float:
        rest_s = self._owner.meters.took(self._owner.tenant, self.moved_at, count=count, pieces=pieces)
        if rest_s:
            side.rest(rest_s)
        return rest_s

    def _count(self, side: Side, count: int) -> None:
        meters, tenant = self._owner.meters, self._owner.tenant
        meters.moved(tenant, count, self.moved_at, to_host=side is self._client)
        if reason := meters.why_no_more(tenant, self.moved_at):
            self._break_off(reason)

    def _from_client(self, data: bytes) -> None:
        """Bytes of the context, after the head."""
        assert self._wanted is not None
        if not self._is_tunnel:
            self._pass_body(self._wanted, data)
        elif self._is_checked:
            self._host.write(data)
        else:
            self._check_first_bytes(self._wanted.host, data)

    def _pass_body(self, wanted: Wanted, data: bytes) -> None:
        body = wanted.body
        before = 0 if body is None else body.pieces
        try:
            own = 0 if body is None else body.take(data)
        except BadBody as error:
            self._break_off(f"the body of the request cannot be read: {error}")
            return
        self._host.write(data[:own])
        rest_s = 0.0 if body is None else self._pace(self._client, pieces=body.pieces - before)
        if body is not None and own < len(data) and not body.is_over:
            self._client.hold("pieces")
            loop = asyncio.get_running_loop()
            self._body_timer = loop.call_later(rest_s, self._pass_more, wanted, data[own:])
        elif self._linger_timer is not None and not self._has_more_to_send:
            self._client.close()
        elif own < len(data):  # a second request, which may be meant for anywhere: the program must connect again
            self._client.hold("body")

    def _pass_more(self, wanted: Wanted, data: bytes) -> None:
        """Of an arrival that has more pieces than are looked at in one go."""
        if not self._over.done():
            self._client.let_go("pieces")
            self._pass_body(wanted, data)

    def _check_first_bytes(self, host: str, data: bytes) -> None:
        """Pass on what is not TLS, and TLS that asks for the host that the tunnel was made to."""
        if self._hello is None and is_tls(data):
            self._hello = ClientHello()
            loop = asyncio.get_running_loop()
            self._hello_timer = loop.call_later(self._limits.head_s, self._end_late_hello)
        self._early += data
        if self._hello is not None and not self._may_pass(self._hello, host, data):
            return
        first = bytes(self._early)
        self._is_checked = True
        self._early.clear()
        self._host.write(first)

    def _may_pass(self, hello: ClientHello, host: str, data: bytes) -> bool:
        """Whether the ClientHello is whole and asks for the host. Else breaks off, or waits for more."""
        try:
            if not hello.take(data):
                return False
            name = hello.server_name()
        except NotReadable as error:
            self._break_off(f"TLS cannot be read: {error}")
            return False
        if name is not None and name != host:
            other = name if len(name) <= MAX_NAME else "another host"
            self._break_off(f"TLS asks for {other} in a tunnel to {host}")
            return False
        return True

    def _end_late_hello(self) -> None:
        if not self._is_checked and not self._over.done():
            self._break_off(f"TLS cannot be read: its ClientHello did not arrive within {self._limits.head_s:g} s")

    def _break_off(self, reason: str) -> None:
        """Too late for an answer: the log says why the connection is gone."""
        self._owner.meters.refused(self._owner.tenant)
        self._owner.tell(reason.encode("ascii", "replace").decode())
        self._finish()
