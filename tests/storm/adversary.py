"""Strikes the deployment, one fault after the other, and measures how long it takes to serve again after each.

The end of a fault is when its cause is gone: the process started again, the link mended, the disk freed. From then on
two times count: until a POST is accepted by the daemon that was struck, and until a job that was posted after the fault
has its outcome.
"""

import asyncio
import os
import random
import signal
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from functory.client import ClientError, ServerUnreachable
from tests.storm.deployment import PROBE_TYPE, Deployment
from tests.storm.load import PATH
from tests.storm.member import Member
from tests.storm.plan import Fault, Kind
from tests.storm.records import LineFile, Mark
from tests.support.polling import until

_STEP_S: Final = (30.0, 240.0)
"""Of the clock. MongoDB's form promises its counters up to five minutes (docs/mongodb.md)."""
_AWAY_S: Final = (0.1, 4.0)
"""How long the store cannot be reached."""
_PAST_EVERYTHING_S: Final = 600.0
"""More than the five minutes after which a dead daemon's part of MongoDB's counters is mended by others."""
_REQUESTS: Final = (5, 30)
_LINES: Final = 50


Act = Callable[[Fault, Member], Awaitable[None]]


class Recovery(NamedTuple):
    kind: Kind
    accepted_s: float
    finished_s: float


class Adversary:
    def __init__(self, deployment: Deployment, seed: int) -> None:
        self._deployment = deployment
        self._dice = random.Random(seed)
        self._record = LineFile(deployment.records / "adversary.log")
        self._requests = 0
        observer = deployment.observer
        self._observer = LineFile(observer) if observer else None
        self._acts: dict[Kind, Act] = {
            Kind.KILL: self._kill,
            Kind.RESTART: self._restart,
            Kind.FREEZE: self._freeze,
            Kind.KILL_CONTEXT: self._kill_context,
            Kind.FREEZE_CONTEXT: self._freeze_context,
            Kind.TORN_REQUEST: self._tear_requests,
            Kind.UNREAD_ANSWER: self._leave_answers_unread,
            Kind.FULL_DISK: self._fill_disk,
            Kind.CLOCK_AHEAD: self._step_clock,
            Kind.CLOCK_BACK: self._step_clock,
            Kind.STORE_KILL: self._kill_store,
            Kind.STORE_LINK: self._cut_link,
        }

    def close(self) -> None:
        self._record.close()
        if self._observer:
            self._observer.close()

    async def strike(self, fault: Fault) -> Recovery:
        target = self._deployment.members[fault.target]
        return await self._survive(fault.number, fault.kind, target, self._acts[fault.kind](fault, target))

    async def let_time_pass(self, number: int) -> None:
        """What was put off while the clock was ahead would wait for that time to come; here it comes at once.

        A step of the clock like any other, and marked as one; but it finds all the work that is left, so how long the
        next job takes says nothing.
        """

        async def run_ahead() -> None:
            self._deployment.clock.run_ahead(_PAST_EVERYTHING_S)

        await self._survive(number, Kind.CLOCK_AHEAD, self._deployment.members[0], run_ahead())

    async def _survive(self, number: int, kind: Kind, target: Member, act: Awaitable[None]) -> Recovery:
        affects = self._affects(kind, target)
        self._mark(Mark(number, True, affects, kind))
        await act
        ended_s = time.monotonic()
        id_ = await until(lambda: self.probe(target))
        assert id_
        accepted_s = time.monotonic()
        await until(partial(self._has_finished, target, id_))
        finished_s = time.monotonic()
        for member in self._deployment.members:
            # A claim that was under way when the fault began may still be in the queue to the store. It was in flight,
            # and its line belongs before the end; this write is behind it in that queue.
            if member.name in affects:
                await until(partial(self.probe, member, ack="store"))
        self._mark(Mark(number, False, affects, kind))
        return Recovery(kind, accepted_s - ended_s, finished_s - ended_s)

    async def probe(self, member: Member, **options: object) -> str | None:
        """One job to this daemon: its id, or None if it was not accepted."""
        request = self._submit(1)
        async with self._deployment.client(member) as client:
            try:
                (id_,) = (await client.add_jobs(PROBE_TYPE, [f"{request}.0"], **options)).ids or []
            except (ClientError, ServerUnreachable) as error:
                self._record.write(f"N {request} {getattr(error, 'error_code', 'unreachable')}")
                return None
        self._record.write(f"A {request} {id_}")
        return id_

    def _affects(self, kind: Kind, target: Member) -> frozenset[str]:
        """The daemons whose deliveries such a fault may cut short."""
        everyone = frozenset(member.name for member in self._deployment.members)
        match kind:
            case Kind.KILL | Kind.KILL_CONTEXT:
                return frozenset({target.name})
            case Kind.FREEZE:
                # SQLite has one writer at a time: frozen within a write, it holds up the other's renewals, too.
                return everyone if self._deployment.form.store == "sqlite" else frozenset({target.name})
            case Kind.RESTART | Kind.FREEZE_CONTEXT | Kind.TORN_REQUEST | Kind.UNREAD_ANSWER:
                return frozenset()
            case _:
                return everyone

    def _mark(self, mark: Mark) -> None:
        for file in (self._record, self._observer, *(member.log for member in self._deployment.members)):
            if file is not None:
                file.write(mark.line())

    def _submit(self, count: int, word: str = "S") -> str:
        """Write down a request that is about to be made; its name."""
        self._requests += 1
        request = f"a{self._requests}"
        self._record.write(f"{word} {request} {count}")
        return request

    async def _has_finished(self, member: Member, id_: str) -> bool:
        with suppress(ClientError, ServerUnreachable):
            async with self._deployment.client(member) as client:
                return (await client.get_job(id_, wait_s=1)).state == "archived"
        return False

    # The faults

    async def _kill(self, fault: Fault, target: Member) -> None:
        await target.kill()
        await target.start()

    async def _restart(self, fault: Fault, target: Member) -> None:
        await target.stop()
        await target.start()

    async def _freeze(self, fault: Fault, target: Member) -> None:
        target.send(signal.SIGSTOP)
        await self._outlast_lease(fault)
        target.send(signal.SIGCONT)

    async def _kill_context(self, fault: Fault, target: Member) -> None:
        if context := await target.pick_context(self._dice):
            with suppress(ProcessLookupError):
                os.kill(context.pid, signal.SIGKILL)

    async def _freeze_context(self, fault: Fault, target: Member) -> None:
        context = await target.pick_context(self._dice)
        if context is None:
            return
        with suppress(ProcessLookupError):
            os.kill(context.pid, signal.SIGSTOP)
        await self._outlast_lease(fault)
        if context.is_there:
            os.kill(context.pid, signal.SIGCONT)

    async def _outlast_lease(self, fault: Fault) -> None:
        await asyncio.sleep(self._deployment.form.lease_s * (1.2 + 0.5 * fault.size))  # the time is what is tested

    async def _fill_disk(self, fault: Fault, target: Member) -> None:
        disk = self._deployment.disk
        assert disk
        await asyncio.to_thread(disk.fill)
        with suppress(TimeoutError):  # a daemon may get by with the room that it has, for a while
            await until(lambda: self._is_refused(target), timeout_s=5)
        await asyncio.to_thread(disk.free)

    async def _is_refused(self, member: Member) -> bool:
        return await self.probe(member) is None

    async def _step_clock(self, fault: Fault, target: Member) -> None:
        step_s = _between(_STEP_S, fault.size)
        self._deployment.clock.step(step_s if fault.kind is Kind.CLOCK_AHEAD else -step_s)

    async def _kill_store(self, fault: Fault, target: Member) -> None:
        server = self._deployment.server
        assert server
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(_between(_AWAY_S, fault.size))
        await asyncio.to_thread(server.start)

    async def _cut_link(self, fault: Fault, target: Member) -> None:
        link = self._deployment.link
        assert link
        link.cut()
        await asyncio.sleep(_between(_AWAY_S, fault.size))
        link.mend()

    async def _tear_requests(self, fault: Fault, target: Member) -> None:
        """Half a body, then a reset: nothing of it may be taken."""
        for _ in range(round(_between(_REQUESTS, fault.size))):
            head, body = self._request(self._submit(_LINES, "T"))
            await _send_and_reset(target.url, head + body[: self._dice.randrange(len(body))])

    async def _leave_answers_unread(self, fault: Fault, target: Member) -> None:
        """A whole request, then a reset at some moment while it is being served."""
        for _ in range(round(_between(_REQUESTS, fault.size))):
            head, body = self._request(self._submit(_LINES))
            await _send_and_reset(target.url, head + body, after_s=self._dice.random() * 0.01)

    def _request(self, request: str) -> tuple[bytes, bytes]:
        body = "\n".join(f"{request}.{n}" for n in range(_LINES)).encode()
        head = (
            f"POST {PATH} HTTP/1.1\r\nHost: storm\r\nAuthorization: Bearer {self._deployment.key}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode(), body


async def _send_and_reset(url: str, text: bytes, after_s: float = 0.0) -> None:
    parts = urlsplit(url)
    with suppress(OSError):
        _, writer = await asyncio.open_connection(parts.hostname, parts.port)
        kept: socket.socket = writer.get_extra_info("socket")
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close sends a reset
        writer.write(text)
        await writer.drain()
        await asyncio.sleep(after_s)  # a moment that the seed has chosen
        writer.transport.abort()


def _between(bounds: tuple[float, float], part: float) -> float:
    low, high = bounds
    return low + (high - low) * part
