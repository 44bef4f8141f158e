"""Stops listening without leaving a connection half made."""

import asyncio
from collections.abc import Sequence
from typing import Final

_TURNS: Final = 4
"""Of the event loop, until a connection that was accepted has its protocol."""


async def stop_listening(servers: Sequence[asyncio.Server]) -> None:
    """Close the listening sockets. Connections that were accepted before are made first: asyncio forgets the socket of
    one whose server closes meanwhile, and nobody ever closes it."""
    loop = asyncio.get_running_loop()
    for server in servers:
        for listening in server.sockets:
            loop.remove_reader(listening.fileno())
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    for server in servers:
        server.close()
