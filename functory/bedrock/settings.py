"""Limits of the listener. Values only."""

from dataclasses import dataclass

from vocabulary.sizes import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class BedrockSettings:
    host: str = "127.0.0.1"
    port: int = 8888
    tenant: str = ""
    """Requests without a key are this tenant's. Only on a loopback address."""

    max_connections: int = 1000
    max_connections_of_one: int = 500
    """From one address, or one /64 of IPv6."""
    max_head_bytes: int = 2 * MIB
    """Command and parameters: the data of a job is one of them."""
    max_body_bytes: int = 16 * MIB
    max_form_bytes: int = 4 * MIB
    """A body that is a form and not JSON: data of a MiB, and every byte of it written with three."""
    max_small_body_bytes: int = MIB // 8
    """Of a command that has no data: its few parameters, however they are written."""
    max_input_bytes: int = 64 * MIB
    """Of requests that are not read to their end, on all connections; one tenant has half of it. Requests whose key has
    not come yet have a quarter of it apart, and one address half of that."""

    request_s: float = 60.0
    """How long a request may take to arrive: somebody may be typing it."""
    idle_s: float = 600.0
    """A connection without a request is closed after this."""
    stall_s: float = 30.0
    """A client that reads nothing of its answer for this long is disconnected, and one that needs 20 times as long."""
    shutdown_s: float = 15.0
    """How long commands under way may take when the daemon stops."""
