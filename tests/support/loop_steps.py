"""How long the event loop was in one step, in processor time: what everybody else waits for.

Not by the clock: a machine that is busy with something else makes every clock late, and would make these tests lie.
The time that the loop's own thread spent on processors is the same however busy the machine is.
"""

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


class LoopSteps:
    """The longest step so far and what it was, how many there were, and the time of all together."""

    def __init__(self) -> None:
        self.count = 0
        self.longest_s = 0.0
        self.longest = ""
        self.total_s = 0.0

    def note(self, took_s: float, what: object) -> None:
        self.count += 1
        self.total_s += took_s
        if took_s > self.longest_s:
            self.longest_s, self.longest = took_s, repr(what)[:500]


def pace() -> float:
    """How much slower this machine is now than the one that the limits are meant for: 1 or more.

    That one counts to a million in 25 ms. Neighbours on the same core make processor time longer, too.
    """
    began_s = time.thread_time()
    for _ in range(1_000_000):
        pass
    return max(1.0, (time.thread_time() - began_s) / 0.025)


@contextmanager
def watched_steps() -> Iterator[LoopSteps]:
    """Every step of every event loop of this process, until the end of the block.

    What all tests before have left in memory is kept from the collector meanwhile: a daemon has none of it.
    """
    steps = LoopSteps()
    gc.collect()
    gc.freeze()
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began_s = time.thread_time()
        try:
            run(handle)
        finally:
            steps.note(time.thread_time() - began_s, handle)

    asyncio.Handle._run = timed  # type: ignore[method-assign, assignment]  # for as long as this watches
    try:
        yield steps
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]
        gc.unfreeze()
