"""What waits, by tenant, as the store had it a moment ago: one look for all tenants whose figures are asked for.

Ensures: however many ask, the store is looked at once in LIFE_MS. A look costs by the number of types with jobs, and
not by the number of jobs.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from functory.loops.one_look import OneLook
from functory.loops.slices import Slices
from store.base import Store, WaitingType
from vocabulary.names import tenant_of

LIFE_MS: Final = 5000
_ROW: Final = 10
"""What a type costs, as slices count it."""

ByTenant = Mapping[str, Sequence[WaitingType]]


class RecentWaiting:
    def __init__(self) -> None:
        self._found: ByTenant = {}
        self._looked_ms: int | None = None
        self._looks: OneLook[str, ByTenant] = OneLook()

    async def of(self, tenant: str, store: Store, now_ms: Callable[[], int]) -> Sequence[WaitingType]:
        """Types of the tenant with jobs that could run, with or without a handler, but for paused ones, as they were at
        most LIFE_MS ago. Raises StoreUnavailable."""
        found = self._found
        if self._looked_ms is None or not 0 <= now_ms() - self._looked_ms < LIFE_MS:
            found = await self._looks.ask("all", lambda: self._look(store, now_ms()))
        return found.get(tenant, ())

    async def _look(self, store: Store, now_ms: int) -> ByTenant:
        found: dict[str, list[WaitingType]] = {}
        slices = Slices()
        for each in await store.get_waiting_jobtypes(now_ms=now_ms):
            found.setdefault(tenant_of(each.jobtype), []).append(each)
            await slices.spend(_ROW)
        self._found, self._looked_ms = found, now_ms
        return found
