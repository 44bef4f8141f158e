"""Large bodies take turns: one in each round of the event loop, so that small requests are served in between.

A body with many jobs is worked on in slices, each with a turn of its own: however many such requests there are, one
round of the event loop does one slice.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sized
from typing import Final, TypeVar

LARGE_BYTES: Final = 16 * 1024
_T = TypeVar("_T", bound=Sized)


SLICE_ITEMS: Final = 500
SLICE_BYTES: Final = 256 * 1024
SLICE_S: Final = 0.01
"""Of a body that is worked on item by item, what is done in one turn: mostly a few milliseconds. The time is for items
that were made to be dear."""


class Turns:
    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()

    async def slices(self, items: Iterable[_T]) -> AsyncIterator[tuple[int, _T]]:
        """The items with their numbers from 1, and a turn taken whenever a slice of them is done."""
        done, done_bytes, until = 0, 0, self._clock() + SLICE_S
        for number, item in enumerate(items, start=1):
            yield number, item
            done += 1
            done_bytes += len(item)
            if done >= SLICE_ITEMS or done_bytes >= SLICE_BYTES or self._clock() >= until:
                await self.take(LARGE_BYTES + 1)
                done, done_bytes, until = 0, 0, self._clock() + SLICE_S

    async def take(self, size_bytes: int) -> None:
        """Wait for a round of the event loop of one's own, if the body is large. It lasts until the next await."""
        if size_bytes > LARGE_BYTES:
            async with self._turn:  # the lock passes on in the next round
                await asyncio.sleep(0)
