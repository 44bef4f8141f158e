"""The seam between contexts and whoever lets them out: the network by name, for handlers that list `hosts`.

A context with hosts has a network namespace with nothing in it but a loopback interface. The one port there is the
proxy's: the listening socket was made inside and handed to the daemon, so what connects to it is that context and no
other, and the context has no way around it. That needs namespaces (L2): without them a context would share the
machine's loopback interface with everybody, so its handler is not run.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from handlers.hosts import HostPattern, parse_pattern
from handlers.model import Handler
from runner.launch import PROXY_PORT, Child, Level
from runner.raw_log import RawLog

LOWEST_LEVEL: Final = Level.L2

PROXY_VARIABLES: Final = dict.fromkeys(
    ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), f"http://127.0.0.1:{PROXY_PORT}"
)
"""What programs look at to find a proxy. curl reads `http_proxy` in lower case only."""
_NODE_TOO: Final = "NODE_USE_ENV_PROXY"
"""For node from version 24 on, where a handler starts it. Handlers in node are led to the proxy by their bootstrap."""


class Gate(Protocol):
    def close(self) -> object:
        """End every connection through it. Idempotent."""


class Egress(Protocol):
    """The proxy of the daemon."""

    def open(
        self, listener: socket.socket, tenant: str, hosts: Sequence[HostPattern], tell: Callable[[str], None]
    ) -> Gate:
        """Let whoever connects to `listener` call these hosts. `tell` hears of what was refused."""

    def end_tenant(self, tenant: str, *, is_back: bool) -> None:
        """The tenant is suspended or gone. is_back: another has its name, whose gates stay open; those of the old one
        close with its contexts."""


class NoEgress:
    """For runners without a proxy: nothing can be called."""

    def open(
        self,
        listener: socket.socket,
        tenant: str,  # noqa: ARG002 (the protocol's)
        hosts: Sequence[HostPattern],  # noqa: ARG002
        tell: Callable[[str], None],  # noqa: ARG002
    ) -> Gate:
        listener.close()
        return self

    def close(self) -> None:
        """Nothing is open."""

    def end_tenant(self, tenant: str, *, is_back: bool) -> None:
        """Nothing is open."""


def environment(handler: Handler) -> dict[str, str]:
    """What its programs need to find the proxy."""
    if not handler.hosts:
        return {}
    return PROXY_VARIABLES | ({} if handler.lang == "node" else {_NODE_TOO: "1"})


def let_out(child: Child, log: RawLog, egress: Egress, tenant: str, handler: Handler) -> None:
    """Open the gate of a context that has one, for as long as the context lives."""
    listener = child.take_listener()
    if listener is None:
        return
    gate = egress.open(listener, tenant, list(map(parse_pattern, handler.hosts)), log.note)
    asyncio.ensure_future(child.wait()).add_done_callback(lambda _: gate.close())


def needs_own_network(level: Level) -> str:
    return (
        f"a handler with `hosts` runs only where contexts have a network of their own (isolation {LOWEST_LEVEL.name}); "
        f"here the level is {level.name}"
    )
