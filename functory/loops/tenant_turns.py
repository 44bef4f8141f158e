"""Turns at something of which there is little, fair by tenant.

Ensures: a tenant has at most `of_one` in the line for a seat or on one. What more it asks for waits apart, and stands
before nobody else. If a turn ends with an error that is `shared`, the tenant's others that wait by then end with it,
too: they would find the same, one after the other.
"""

from asyncio import Semaphore
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy


class _Own:
    """The turns of one tenant."""

    def __init__(self, of_one: int) -> None:
        self.free = Semaphore(of_one)
        self.users = 0
        self.failure: Exception | None = None
        """How the last turn ended that found what all would find."""


class TenantTurns:
    def __init__(self, seats: Semaphore, of_one: int, shared: tuple[type[Exception], ...] = ()) -> None:
        self._seats = seats
        self._of_one = of_one
        self._shared = shared
        self._tenants: dict[str, _Own] = {}

    @asynccontextmanager
    async def of(self, tenant: str) -> AsyncIterator[None]:
        """Wait for the tenant's others, and then for a seat. It is kept for as long as the block lasts. Raises a shared
        error of another turn."""
        own = self._tenants.setdefault(tenant, _Own(self._of_one))
        own.users += 1
        known = own.failure
        try:
            async with own.free:
                if own.failure is not None and own.failure is not known:
                    raise copy(own.failure)
                try:
                    async with self._seats:
                        yield
                except self._shared as error:
                    own.failure = copy(error)
                    raise
        finally:
            own.users -= 1
            if not own.users:
                del self._tenants[tenant]
