"""The proxy that the daemon owns: a gate for each context, and what may pass through it.

A gate is a listening socket that only one context can reach, so whoever connects is known by where it connects: there
is no token to steal, and another context's gate is out of reach. The gate knows the hosts of that context's handler.

    the handler's hosts -> the operator's rules -> quotas -> resolve -> the operator's rules on addresses -> connect

Ensures: names are resolved here, and the address that was checked is the one that is connected to. When a gate closes,
every connection through it is gone. Whatever contexts do, connections are accepted one at a time and at a bounded pace.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Final

from functory.egress.connection import Connection, Owner, Refused
from functory.egress.head import Wanted
from functory.egress.meters import EgressLimits, Meters
from handlers.hosts import HostPattern, matches_any
from runner.errors import TargetRefusedError
from runner.resolver import Resolver

_BACKLOG: Final = 32
_SWEEP_S: Final = 5.0
_MOST_TRIED: Final = 5
"""Addresses of a host. If it has more, some may go untried: less time would be too little to answer from afar."""
_RETRY_S: Final = 0.2
_MOST_REFUSALS: Final = 4
"""Answers to connections that are too many, under way at a time; more of them wait in the kernel's queue."""

Tell = Callable[[str], None]
_Running = dict[asyncio.Task[None], Connection]


class EgressProxy:
    """Implements `runner.egress.Egress`. `close` ends everything and is idempotent. `listed_in` is where the hosts of a
    gate are listed, in words for whoever is refused."""

    def __init__(
        self, resolver: Resolver, limits: EgressLimits | None = None, *, listed_in: str = "this handler's `hosts`"
    ) -> None:
        self._listed_in = listed_in
        self.meters = Meters(limits or EgressLimits())
        self._resolver = resolver
        self._gates: set[Gate] = set()
        self._sweeper: asyncio.TimerHandle | None = None

    def open(
        self, listener: socket.socket, tenant: str, hosts: Sequence[HostPattern], tell: Tell = lambda _: None
    ) -> "Gate":
        """Serve those who connect to `listener`, of any family; from now on it is the gate's. `tell` hears, in a
        sentence, of what was refused."""
        gate = Gate(self, listener, Owner(tenant, self.meters, tell), tuple(hosts))
        self._gates.add(gate)
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)
        return gate

    def forget(self, gate: "Gate") -> None:
        self._gates.discard(gate)

    def end_tenant(self, tenant: str, *, is_back: bool) -> None:
        """The tenant is suspended or gone: its connections end, and its counters begin anew. is_back: another has its
        name, whose gates stay open; those of the old one close with its contexts."""
        for gate in [gate for gate in self._gates if gate.tenant == tenant and not is_back]:
            gate.close()
        self.meters.forget(tenant)

    async def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        tasks = [task for gate in tuple(self._gates) for task in gate.close()]
        await asyncio.gather(*tasks, return_exceptions=True)

    def gauges(self) -> dict[str, float]:
        return {f"egress_{name}": value for name, value in self.meters.all.figures().items()}

    def by_tenant(self) -> dict[str, dict[str, float]]:
        return {tenant: meter.figures() for tenant, meter in self.meters.by_tenant().items()}

    def _sweep(self) -> None:
        now = time.monotonic()
        for gate in tuple(self._gates):
            gate.end_due(now)
        self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep) if self._gates else None

    async def connect(self, gate: "Gate", wanted: Wanted) -> socket.socket:
        """A socket that is connected to where the request wants to go. Raises Refused."""
        host, port = wanted.host, wanted.port
        if not matches_any(gate.hosts, host, port):
            raise Refused(403, self._not_listed(gate.hosts, host, port))
        try:
            addresses = await self._resolver.resolve(gate.tenant, host, port)
        except TargetRefusedError as error:
            raise Refused(403, f"{host} may not be called: {error}") from None
        except TimeoutError:
            raise Refused(504, f"the name {host} was not resolved in time") from None
        except OSError:
            raise Refused(502, f"the name {host} cannot be resolved now") from None
        return await self._connect_to(addresses, host, port)

    def _not_listed(self, hosts: Sequence[HostPattern], host: str, port: int) -> str:
        if any(pattern.matches(host, each) for pattern in hosts for each in pattern.ports):
            return f"{host} is in {self._listed_in}, but not at port {port}: add {HostPattern(host, (port,))}"
        return f"{host} is not in {self._listed_in}"

    async def _connect_to(self, addresses: Sequence[str], host: str, port: int) -> socket.socket:
        """To the first that answers; each has its share of the time that is left, and never too little. No message
        tells which address a name has: it may be one of the operator's."""
        reason, is_silent = "no connection", False
        connect_s = self.meters.limits.connect_s
        until = time.monotonic() + connect_s
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                left_s = until - time.monotonic()
                async with asyncio.timeout(max(left_s / left, min(left_s, connect_s / _MOST_TRIED))):
                    return await _connected(address, port)
            except TimeoutError:
                is_silent = True
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno else reason
        if is_silent:
            raise Refused(504, f"{host}:{port} does not answer")
        raise Refused(502, f"{host}:{port} cannot be reached: {reason}")


class Gate:
    """The way out of one context. `close` is idempotent."""

    def __init__(
        self, proxy: EgressProxy, listener: socket.socket, owner: Owner, hosts: tuple[HostPattern, ...]
    ) -> None:
        self._proxy = proxy
        self._listener = listener
        self._owner = owner
        self.hosts = hosts
        self._connections: _Running = {}
        self._refusals: _Running = {}
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        listener.setblocking(False)
        listener.listen(_BACKLOG)
        self._loop.add_reader(listener, self._accept)

    @property
    def tenant(self) -> str:
        return self._owner.tenant

    def close(self) -> list[asyncio.Task[None]]:
        """Returns what is still ending."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._proxy.forget(self)
            for task in (*self._connections, *self._refusals):
                task.cancel()
        return [*self._connections, *self._refusals]

    def end_due(self, now: float) -> None:
        for connection in self._connections.values():
            if connection.is_due(now):
                connection.close()

    def _accept(self) -> None:
        """One at a time: whoever connects in a loop gets a turn like everybody else, and waits when it is too fast."""
        now = time.monotonic()
        meters = self._owner.meters
        reason = meters.why_not(self.tenant, len(self._connections), now)
        if reason and len(self._refusals) >= _MOST_REFUSALS:
            self._rest(_RETRY_S)
            return
        try:
            accepted, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:  # no descriptor is left, as a rule: whoever waits in the queue waits a little longer
            self._rest(_RETRY_S)
            return
        accepted.setblocking(False)
        if rest_s := meters.of(self.tenant).starts.take(1, now):
            self._rest(rest_s)
        connection = Connection(accepted, self._owner)
        if reason:
            self._begin(connection.run_refused(Refused(429, reason)), self._refusals, connection)
        else:
            meters.opened(self.tenant)
            self._begin(connection.run(self._connect), self._connections, connection)

    def _begin(self, run: Coroutine[None, None, None], among: _Running, connection: Connection) -> None:
        task = self._loop.create_task(run)
        among[task] = connection
        task.add_done_callback(self._ended)

    def _rest(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener)
        self._loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener, self._accept)

    async def _connect(self, wanted: Wanted) -> socket.socket:
        return await self._proxy.connect(self, wanted)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task in self._connections:
            self._owner.meters.closed(self.tenant)
        (self._connections.pop(task, None) or self._refusals.pop(task)).discard()
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, OSError):
            self._loop.call_exception_handler({"message": "a connection of the proxy failed", "exception": error})


async def _connected(address: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(made, (address, port))
    except BaseException:
        made.close()
        raise
    return made
