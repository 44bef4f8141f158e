"""The daemon's web side for the bench of the pages, in a process of its own, with a clock that the bench moves.

Ensures: all processor time of this process is the daemon's (event loop, store's threads, sending), none the reader's.
Started by `bench.service.pages`. Prints its address and key on the first line. Each line that it reads is a number of
seconds to go forward; it prints the figures since the line before.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.service.pages_fill import TENANT
from functory.daemon.garbage_collector import settle_garbage
from functory.operations.keys import create_key
from functory.web.http.settings import WebSettings
from tests.support.clocks import FakeClock
from tests.support.web import open_site

KEYS: Final = ("tenant", "live", "live by failed")
"""Of the tenant. There is a bound on the live pages that one key may have open."""


class Spent(NamedTuple):
    """Milliseconds of processor time of the whole process, and of the longest piece that the event loop was held."""

    cpu_ms: float
    piece_ms: float


class _Pieces:
    """Times every callback of the event loop: between two of them others have their turn."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        run = asyncio.Handle._run  # noqa: SLF001 (there is no public place that all pass)

        def timed(handle: asyncio.Handle) -> None:
            began_s = time.thread_time()
            run(handle)
            self.longest_ms = max(self.longest_ms, (time.thread_time() - began_s) * 1000)

        asyncio.Handle._run = timed  # type: ignore[method-assign,assignment]  # noqa: SLF001

    def take(self) -> float:
        longest_ms, self.longest_ms = self.longest_ms, 0.0
        return longest_ms


async def serve(folder: Path, now_ms: int) -> None:
    clock = FakeClock(now_ms)
    settings = WebSettings(port=0, shutdown_s=1.0, live_tick_s=3600.0)
    async with open_site(folder, clock=clock, settings=settings, tenants=()) as site:
        keys = {name: (await create_key(site.service, "bench", TENANT))[1] for name in KEYS}
        settle_garbage()
        pieces = _Pieces()
        lines = await _lines_in()
        _say({"url": site.url, "operator": site.keys["operator"], **keys})
        before_s = time.process_time()
        while line := await lines.readline():
            spent = Spent((time.process_time() - before_s) * 1000, pieces.take())
            clock.advance(float(line))
            _say(spent._asdict())
            before_s = time.process_time()


async def _lines_in() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


def _say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
