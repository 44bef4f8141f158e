"""What became elsewhere of deliveries that this daemon counts as held.

Any daemon of the store takes renewals and reports. So a job that was handed out here may have ended there, and its
lease may have been renewed there. The other daemon tells of ends (`peers/`), and this one looks at the store. Where the
word is lost, it asks the store before a cap keeps workers waiting; and always before a lease counts as over.

Ensures: what is dropped is over in the store. A look at all that a tenant holds comes twice in a poll at most, and
takes a small part of the time.
"""

from collections.abc import Sequence
from typing import Final

from functory.loops.shared import Shared
from functory.workers.held_jobs import Held, HeldJobs
from functory.workers.values import OWNER
from store.base import Lease

_STEP: Final = 1000
_POLL_PART: Final = 0.5
"""Of a poll between two looks for one tenant: who waits is served at each poll, and then the look is due."""
_LOOK_PART: Final = 20
"""The pause after a look is at least so many times as long as the look."""


class Elsewhere:
    def __init__(self, shared: Shared, held: HeldJobs, poll_s: float) -> None:
        self._store = shared.store
        self._clock = shared.clock
        self._held = held
        self._pause_s = poll_s * _POLL_PART
        self._due_s: dict[str, float] = {}
        """When the next look at all that a tenant holds may come."""

    async def drop_lapsed(self) -> None:
        """Forget what was renewed nowhere in time: the worker is gone. Raises StoreUnavailable."""
        if lapsed := self._held.lapsed(self._clock.now_ms()):
            await self.check(lapsed)

    async def look(self, tenant: str) -> bool:
        """Whether places of the tenant have become free, as the store knows. Raises StoreUnavailable."""
        began_s = self._clock.monotonic_s()
        held = self._held.of_tenant(tenant)
        if not held or began_s < self._due_s.get(tenant, began_s):
            return False
        self._due_s = {name: due_s for name, due_s in self._due_s.items() if due_s > began_s}
        self._due_s[tenant] = began_s + self._pause_s
        has_freed = bool(await self.check(held))
        now_s = self._clock.monotonic_s()
        self._due_s[tenant] = max(began_s + self._pause_s, now_s + _LOOK_PART * (now_s - began_s))
        return has_freed

    async def check(self, some: Sequence[Held]) -> set[str]:
        """Forget those of these deliveries that are over, and learn until when the others hold. Returns the tenants
        that hold fewer. Raises StoreUnavailable."""
        tenants: set[str] = set()
        for start in range(0, len(some), _STEP):
            known = [(each, each.until_ms) for each in some[start : start + _STEP] if each.ending is None]
            leases = await self._store.get_leases(OWNER, [Lease(each.job.id, each.job.token) for each, _ in known])
            now_ms = self._clock.now_ms()
            over: list[Lease] = []
            for each, before_ms in known:
                lease = Lease(each.job.id, each.job.token)
                if each.until_ms == before_ms:  # otherwise it was renewed here meanwhile
                    each.until_ms = leases.get(lease, before_ms)
                is_over = lease not in leases or each.until_ms <= now_ms
                if is_over and each.ending is None and self._held.find(each.tenant, lease.id) is each:
                    over.append(lease)
                    tenants.add(each.tenant)
            self._held.drop(over)
        return tenants
