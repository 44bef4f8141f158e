"""A question that many ask at the same time is asked once, and all of them get the answer.

Who knows an older answer need not wait long for a new one: the look goes on, and is for those who ask after it.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Hashable
from typing import Any, Final, Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

PATIENCE_S: Final = 2.0
"""Whoever is asked may be gone without a word."""


class _Look(NamedTuple, Generic[T]):
    task: "asyncio.Task[T]"
    begun_s: float


class OneLook(Generic[K, T]):
    def __init__(self) -> None:
        self._under_way: dict[K, _Look[T]] = {}

    async def ask(self, about: K, look: Callable[[], Coroutine[Any, Any, T]], *, known: T | None = None) -> T:
        """The answer of the look that is under way, or of a new one. It goes on if some who wait for it leave.

        known: an older answer, for who does not wait for a look that lasts longer than PATIENCE_S, whoever began it.
        """
        loop = asyncio.get_running_loop()
        now = self._under_way.get(about)
        if now is None:
            now = self._under_way[about] = _Look(asyncio.create_task(look()), loop.time())
            now.task.add_done_callback(lambda over: self._heard(about, over))
        if known is None:
            return await asyncio.shield(now.task)
        await asyncio.wait([now.task], timeout=max(0, now.begun_s + PATIENCE_S - loop.time()))
        return now.task.result() if now.task.done() else known

    @property
    def under_way(self) -> Collection[K]:
        """What is being asked now."""
        return self._under_way.keys()

    def _heard(self, about: K, task: "asyncio.Task[T]") -> None:
        del self._under_way[about]
        if not task.cancelled():
            task.exception()  # those who wait for it have it, and nobody need be left
