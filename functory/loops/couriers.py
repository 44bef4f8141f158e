"""Tasks that each do one thing after the other: whatever they are given, as many at once as there is something to do.

A new task for each would cost more than most of what is done. A few of those that have nothing to do are kept.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

_MOST_IDLE: Final = 32


class Couriers:
    """Ensures: each name is delivered at once, whatever others take, while this runs. What `deliver` raises ends it."""

    def __init__(self, deliver: Callable[[str], Awaitable[None]]) -> None:
        self._deliver = deliver
        self._tasks: asyncio.TaskGroup | None = None
        """While this runs."""
        self._idle: list[asyncio.Future[str]] = []
        """Of each task that has nothing to do: what it is given."""

    def send(self, name: str) -> None:
        """Have it delivered; nothing happens if this does not run."""
        if self._idle:
            self._idle.pop().set_result(name)
        elif self._tasks is not None:
            self._tasks.create_task(self._go(name), name="courier")

    async def run(self, names: Iterable[str]) -> None:
        """Begin with these. Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for name in names:
                self.send(name)
            try:
                await asyncio.Event().wait()
            finally:
                self._end()

    def _end(self) -> None:
        self._tasks = None
        self._idle.clear()

    async def _go(self, name: str) -> None:
        try:
            await self._deliver(name)
            while self._tasks is not None and len(self._idle) < _MOST_IDLE:
                given: asyncio.Future[str] = asyncio.get_running_loop().create_future()
                self._idle.append(given)
                await self._deliver(await given)
        except BaseException:
            self._end()  # at once: those that are idle are cancelled before `run` goes on, and take nothing any more
            raise
