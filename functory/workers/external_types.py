"""Which types of a tenant are served by workers, and by which version of their registration.

What this daemon changes is known at once; what another daemon changes, after `life_s` at the latest.
"""

from collections.abc import Mapping
from typing import Final

from store.base import Store
from vocabulary.clock import Clock
from vocabulary.names import WORKER

_MOST_TENANTS: Final = 1000


class ExternalTypes:
    def __init__(self, store: Store, clock: Clock, life_s: float) -> None:
        self._store = store
        self._clock = clock
        self._life_s = life_s
        self._known: dict[str, tuple[float, dict[str, int]]] = {}

    async def of(self, tenant: str) -> Mapping[str, int]:
        """Jobtypes with the version in force."""
        now_s = self._clock.monotonic_s()
        known = self._known.get(tenant)
        if known is not None and now_s - known[0] < self._life_s:
            return known[1]
        handlers = await self._store.list_handlers(tenant)
        found = {row.jobtype: row.version for row in handlers if row.lang == WORKER}
        self._known.pop(tenant, None)
        self._known[tenant] = (now_s, found)
        if len(self._known) > _MOST_TENANTS:
            del self._known[next(iter(self._known))]
        return found

    def forget(self, tenant: str = "") -> None:
        """Handlers of the tenant, or of any, were changed."""
        if tenant:
            self._known.pop(tenant, None)
        else:
            self._known.clear()
