"""All consumers, as the store had them a moment ago: who looks after a daemon asks often, and most of all while the
store is away."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from store.base import ConsumerRecord, Store
from store.errors import StoreUnavailable

LIFE_MS: Final = 1000
_TIMEOUT_S: Final = 2.0


class RecentConsumers:
    def __init__(self) -> None:
        self._records: Sequence[ConsumerRecord] = ()
        self._looked_ms: int | None = None
        self._turn = asyncio.Lock()

    async def get(self, store: Store, now_ms: Callable[[], int]) -> Sequence[ConsumerRecord]:
        """What the store said at most LIFE_MS ago. While it cannot be asked: what it said last."""
        async with self._turn:
            if self._looked_ms is None or not 0 <= now_ms() - self._looked_ms < LIFE_MS:
                try:
                    async with asyncio.timeout(_TIMEOUT_S):
                        self._records = await store.list_consumers()
                except (StoreUnavailable, TimeoutError):
                    pass
                self._looked_ms = now_ms()
        return self._records
