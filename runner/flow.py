"""How much of tenants' output the daemon holds: replies that are not whole yet, and outcomes that are not recorded yet.

Whoever has too much on its way is not read from until some of it is gone; a context then waits in its own write, and
the memory stays in the tenant's account instead of the daemon's. Bounded for each tenant and for all together. Small
things always pass: a tenant that holds next to nothing is never made to wait for the others.

Ensures: somebody can always go on. Unfinished replies could keep each other waiting for ever; so the oldest of a tenant
is read to its end beyond the tenant's bound, and the oldest of all beyond the bound of all.
"""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from runner.search_accounts import SearchAccounts
from vocabulary.sizes import MIB


@dataclass(frozen=True, slots=True)
class FlowLimits:
    tenant_bytes: int = 24 * MIB
    total_bytes: int = 64 * MIB
    small_bytes: int = 1 * MIB
    """What a tenant may hold however much the others do."""


class Flow:
    def __init__(self, limits: FlowLimits | None = None, searches: SearchAccounts | None = None) -> None:
        """searches: of the loop's time, what looking for secrets in that output takes."""
        self.searches = searches or SearchAccounts()
        self._limits = limits or FlowLimits()
        self._held: dict[str, int] = {}
        self._unfinished: dict[Hashable, tuple[str, int]] = {}
        """Readers in the midst of a reply, oldest first, with their tenant and what they hold of it."""
        self._waiting: dict[Hashable, tuple[str, Callable[[], None]]] = {}
        self.total_bytes = 0

    def hold(self, tenant: str, size_bytes: int) -> None:
        self._held[tenant] = self._held.get(tenant, 0) + size_bytes
        self.total_bytes += size_bytes

    def release(self, tenant: str, size_bytes: int) -> None:
        self.hold(tenant, -size_bytes)
        if not self._held[tenant]:
            del self._held[tenant]
        self._wake()

    def hold_unfinished(self, reader: Hashable, tenant: str, size_bytes: int) -> None:
        """So much of a reply has been read; 0: it is whole, or given up."""
        before = self._unfinished.pop(reader, (tenant, 0)) if not size_bytes else self._unfinished.get(reader)
        if size_bytes:
            self._unfinished[reader] = (tenant, size_bytes)
        change = size_bytes - (before[1] if before else 0)
        if change > 0:
            self.hold(tenant, change)
        elif change:
            self.release(tenant, -change)

    def is_reading(self, reader: Hashable) -> bool:
        """Whether the reader is counted as being in the midst of a reply."""
        return reader in self._unfinished

    def has_room(self, tenant: str, reader: Hashable = None) -> bool:
        """Whether more of this tenant may be taken in, by this reader."""
        limits, held = self._limits, self._held.get(tenant, 0)
        own = held < limits.tenant_bytes or reader == self._oldest(tenant)
        others = self.total_bytes < limits.total_bytes or held < limits.small_bytes or reader == self._oldest()
        return own and others

    def when_room(self, tenant: str, reader: Hashable, call: Callable[[], None]) -> None:
        """Call once, as soon as there is room for this reader."""
        self._waiting[reader] = (tenant, call)

    def forget(self, reader: Hashable) -> None:
        """The reader is gone: it holds nothing and waits for nothing."""
        self._waiting.pop(reader, None)
        if reader in self._unfinished:
            self.hold_unfinished(reader, self._unfinished[reader][0], 0)

    async def room(self, tenant: str, reader: Hashable = None) -> None:
        """Wait until there is room for more of this tenant."""
        while not self.has_room(tenant, reader):
            free = asyncio.Event()
            who = free if reader is None else reader
            self.when_room(tenant, who, free.set)
            try:
                await free.wait()
            finally:
                self._waiting.pop(who, None)

    def _oldest(self, tenant: str = "") -> Hashable:
        return next((reader for reader, (whose, _) in self._unfinished.items() if not tenant or whose == tenant), self)

    def _wake(self) -> None:
        for reader, (tenant, call) in list(self._waiting.items()):
            if self.has_room(tenant, reader):
                del self._waiting[reader]
                call()
