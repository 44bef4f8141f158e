"""The end of listening: every connection that was accepted has got its protocol, and can be closed."""

import asyncio
import socket

import pytest

from functory.web.closing import stop_listening


class Made(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport


@pytest.mark.parametrize("turns", range(6))
async def test_no_connection_is_left_half_made(turns: int) -> None:
    """At whatever turn of the loop between a connection's arrival and its protocol it comes."""
    protocols: list[Made] = []

    def make() -> Made:
        protocols.append(Made())
        return protocols[-1]

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    with socket.socket() as client:
        client.setblocking(False)
        client.connect_ex(server.sockets[0].getsockname())
        for _ in range(turns):
            await asyncio.sleep(0)
        await stop_listening([server])
        await asyncio.sleep(0)
        assert all(protocol.transport is not None for protocol in protocols)
        for protocol in protocols:
            assert protocol.transport is not None
            protocol.transport.close()
        await asyncio.sleep(0)
    assert not server.sockets


async def test_nothing_to_stop() -> None:
    await stop_listening([])
