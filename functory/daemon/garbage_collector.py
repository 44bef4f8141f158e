"""Settings of Python's cycle collector and of the C library's memory, for a process that runs jobs all day."""

import asyncio
import ctypes
import gc
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_LARGE_BYTES: Final = 512 * 1024
"""Above what a read of a socket or a pipe asks for: each would pay for pages of its own, and a request would
take half as much processor time again (`python -m bench http`)."""
_ARENAS: Final = 4
"""Few, to stay small, and enough that the event loop and the store's writer do not share one. With two they waited for
each other's lock of the memory: in a flood both went to sleep three times as often."""
_GROWTH_BYTES: Final = 24 << 20
_SMALL_BYTES: Final = 176 << 20
"""A process that uses less is left alone: its memory comes and goes with the load, and a collection is not free."""
_YOUNGER, _ALL = 1, 2
"""Generations of the cycle collector."""


def settle_garbage() -> None:
    """Exempt everything that exists now from collection, and collect rarely. Jobs leave no cycles behind: reference
    counting frees what they used. The default, a collection every 700 objects, costs a tenth of all work."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def return_memory() -> None:
    """Have large blocks go back to the system as soon as they are free. Call it before there are threads.

    By default glibc keeps blocks of up to 32 MB once it has seen some, and in an arena for each thread: a few large
    results make the process large for good. Other C libraries have no such settings, and are left alone.
    """
    with suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        libc.mallopt(_M_ARENA_MAX, _ARENAS)


class GrowthCollector:
    """Collects cycles when the process has grown, however few objects they are.

    Python counts objects, not bytes: a request that its client broke off leaves a cycle of some tens of objects, which
    hold a piece of its body. A thousand of those are hundreds of megabytes, and no reason for Python to collect them.
    """

    def __init__(self, resident_bytes: Callable[[], int]) -> None:
        self._resident_bytes = resident_bytes
        self._settled_bytes: int | None = None

    async def look(self) -> None:
        """To be called every second or so. The old objects are looked at only if the young ones were not enough."""
        for generation in (_YOUNGER, _ALL):
            size = await asyncio.to_thread(self._resident_bytes)
            is_small = self._settled_bytes is None or size < _SMALL_BYTES
            if is_small or size - (self._settled_bytes or 0) < _GROWTH_BYTES:
                self._settled_bytes = min(self._settled_bytes or size, size)
                return
            gc.collect(generation)  # in this thread: it runs finalizers of things that belong to the event loop
            await asyncio.to_thread(_trim)
        self._settled_bytes = await asyncio.to_thread(self._resident_bytes)


def own_resident_bytes() -> int:
    """Of this process; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def _trim() -> None:
    """Give free memory back to the system, also from between blocks that are in use."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
