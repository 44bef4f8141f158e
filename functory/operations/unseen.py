"""Jobs that only this daemon knows of, brought into the store for who lists or changes jobs there."""

import asyncio
from contextlib import suppress
from typing import Final

from functory.operations.service import Service

_FOR_A_LIST_S: Final = 0.25
"""In this time thousands are brought, and a list begins with some."""


async def bring(service: Service, tenant: str, within_s: float | None = None) -> bool:
    """All that was posted before, unless a long backlog of the tenant stands before it. Returns whether the time was
    long enough. Raises StoreUnavailable."""
    with suppress(TimeoutError):
        async with asyncio.timeout(service.settings.flush_timeout_s if within_s is None else within_s):
            await service.intake.flush(tenant)
            return True
    return False


async def bring_some(service: Service, tenant: str) -> bool:
    """Those of a flood that runs from the journal, for a list of what waits. Returns whether the store has all that
    waits. Raises StoreUnavailable."""
    if any(waiting for waiting, _ in service.straight.unseen(tenant).values()):
        return await bring(service, tenant, _FOR_A_LIST_S)
    return True
