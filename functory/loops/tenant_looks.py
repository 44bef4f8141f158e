"""Looks of tenants at much: of each tenant one at a time, and one for all who ask for the same before it begins.

Ensures: a look begins after it was asked for, so whoever asks sees what it did before.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from functory.loops.tenant_turns import TenantTurns

T = TypeVar("T")


class TenantLooks(Generic[T]):
    def __init__(self, turns: TenantTurns) -> None:
        self._turns = turns
        self._waiting: dict[tuple[str, Hashable], asyncio.Task[T]] = {}
        """Those that have not begun."""

    async def ask(self, tenant: str, about: Hashable, look: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer of a look that begins from now on. It goes on if some who wait for it leave."""
        asked = (tenant, about)
        task = self._waiting.get(asked)
        if task is None:
            task = self._waiting[asked] = asyncio.create_task(self._look(asked, look))
            task.add_done_callback(_heard)
        return await asyncio.shield(task)

    async def _look(self, asked: tuple[str, Hashable], look: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            async with self._turns.of(asked[0]):
                del self._waiting[asked]
                return await look()
        finally:
            if self._waiting.get(asked) is asyncio.current_task():  # no turn came
                del self._waiting[asked]


def _heard(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()  # those who wait for it have it, and nobody need be left
