"""Several daemons on one machine, sharing the port: a parent that starts them, passes signals on, and replaces those
that die. Each has a journal of its own; they share the store."""

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

log = logging.getLogger("functory.processes")

_RESTART_PAUSE_S: Final = 1.0


def own_arguments(index: int) -> list[str]:
    """What makes one daemon of several different from the others; the last word on a command line counts."""
    return ["--processes", "1", "--share-port", "true", "--journal", f"journal-{index}"]


async def run_processes(count: int, arguments: Sequence[str]) -> int:
    """Run `functory serve` so many times until asked to stop; 0 when all ended well."""
    stop = asyncio.Event()
    children: dict[int, asyncio.subprocess.Process] = {}

    def pass_on() -> None:
        stop.set()
        for child in children.values():
            with suppress(ProcessLookupError):
                child.terminate()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, pass_on)

    async def keep_running(index: int) -> int:
        while True:
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "functory",
                "serve",
                *arguments,
                *own_arguments(index),
            )
            children[index] = child
            if stop.is_set():
                child.terminate()
            status = await child.wait()
            del children[index]
            if stop.is_set():
                return status
            log.error("processes.died", extra={"index": index, "status": status})
            await asyncio.wait([asyncio.ensure_future(stop.wait())], timeout=_RESTART_PAUSE_S)
            if stop.is_set():
                return status

    statuses = await asyncio.gather(*[keep_running(index) for index in range(count)])
    return max(abs(status) for status in statuses)
