"""The batches that run, each on a slot: their type, for which tenant of that name, and since when.

Ensures: every batch that was started is known until it is over, so that none is left behind when the daemon stops. What
is cancelled then ends, also if the store is away.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import NamedTuple

from vocabulary.clock import Clock
from vocabulary.names import tenant_of

log = logging.getLogger("functory.execute")


class _Batch(NamedTuple):
    jobtype: str
    incarnation: int
    """Of its tenant."""
    began_s: float


class Slots:
    def __init__(self, clock: Clock, on_free: Callable[[], None]) -> None:
        """on_free: told when a batch is over."""
        self._clock = clock
        self._on_free = on_free
        self._batches: dict[asyncio.Task[None], _Batch] = {}

    def __len__(self) -> int:
        return len(self._batches)

    def start(self, jobtype: str, incarnation: int, batch: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(batch)
        self._batches[task] = _Batch(jobtype, incarnation, self._clock.monotonic_s())
        task.add_done_callback(self._over)

    def count(self, jobtype: str) -> int:
        """Those that hold a batch of the type."""
        return sum(batch.jobtype == jobtype for batch in self._batches.values())

    def running(self) -> Iterator[tuple[str, float, int]]:
        """In the order of their start: the type, for how many seconds, and how many of the type are older."""
        now_s = self._clock.monotonic_s()
        older: Counter[str] = Counter()
        for jobtype, _, began_s in self._batches.values():
            yield jobtype, now_s - began_s, older[jobtype]
            older[jobtype] += 1

    async def end_tenant(self, tenant: str, spared: int | None) -> None:
        """Cancel the batches of a tenant that run now. spared: not those of this incarnation."""
        tasks = [
            task
            for task, batch in self._batches.items()
            if tenant_of(batch.jobtype) == tenant and batch.incarnation != spared
        ]
        await asyncio.sleep(0)  # one that is cancelled before its first step would not come to its end either
        for task in tasks:
            task.cancel()

    async def stop(self, grace_s: float) -> None:
        """Let the batches finish for a while, then cancel what is left."""
        if self._batches:
            await asyncio.wait(list(self._batches), timeout=grace_s)
        for task in list(self._batches):
            task.cancel()
        if self._batches:
            await asyncio.wait(list(self._batches))

    def _over(self, task: asyncio.Task[None]) -> None:
        batch = self._batches.pop(task)
        self._on_free()
        if not task.cancelled() and task.exception() is not None:
            log.error("execute.batch_failed", exc_info=task.exception(), extra={"task": f"batch {batch.jobtype}"})
