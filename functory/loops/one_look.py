"""A question that many ask at the same time is asked once, and all of them get the answer."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class OneLook(Generic[K, T]):
    def __init__(self) -> None:
        self._under_way: dict[K, asyncio.Task[T]] = {}

    async def ask(self, about: K, look: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer of the look that is under way, or of a new one. It goes on if some who wait for it leave."""
        task = self._under_way.get(about)
        if task is None:
            task = self._under_way[about] = asyncio.create_task(look())
            task.add_done_callback(lambda over: self._heard(about, over))
        return await asyncio.shield(task)

    @property
    def under_way(self) -> Collection[K]:
        """What is being asked now."""
        return self._under_way.keys()

    def _heard(self, about: K, task: "asyncio.Task[T]") -> None:
        del self._under_way[about]
        if not task.cancelled():
            task.exception()  # those who wait for it have it, and nobody need be left
