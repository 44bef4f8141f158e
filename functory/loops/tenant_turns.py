"""Turns at something of which there is little, fair by tenant.

Ensures: a tenant has at most `of_one` in the line for a seat or on one. What more it asks for waits apart, and stands
before nobody else.
"""

from asyncio import Semaphore
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class _Own:
    """The turns of one tenant."""

    def __init__(self, of_one: int) -> None:
        self.free = Semaphore(of_one)
        self.users = 0


class TenantTurns:
    def __init__(self, seats: Semaphore, of_one: int) -> None:
        self._seats = seats
        self._of_one = of_one
        self._tenants: dict[str, _Own] = {}

    @asynccontextmanager
    async def of(self, tenant: str) -> AsyncIterator[None]:
        """Wait for the tenant's others, and then for a seat. It is kept for as long as the block lasts."""
        own = self._tenants.setdefault(tenant, _Own(self._of_one))
        own.users += 1
        try:
            async with own.free, self._seats:
                yield
        finally:
            own.users -= 1
            if not own.users:
                del self._tenants[tenant]
