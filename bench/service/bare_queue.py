"""A queue in Python that does nothing: the limit of any asyncio server for workers that take and end jobs one by one.

A process of its own with one event loop. Every request, which ends with a blank line, gets the same answer: nothing is
parsed, looked up, written or synced. `python -m bench.service.bare_queue` prints its port.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

_ANSWER: Final = b"200 OK\nContent-Length: 0\n\n"
_END: Final = b"\n\n"


class Bare(NamedTuple):
    port: int
    pid: int


class _Answers(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(_ANSWER * data.count(_END))


@asynccontextmanager
async def bare_queue() -> AsyncIterator[Bare]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.service.bare_queue",
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield Bare(int(await process.stdout.readline()), process.pid)
    finally:
        process.terminate()
        await process.wait()


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(_Answers, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
