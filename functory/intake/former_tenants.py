"""Lines that wait in a journal longer than their tenant exists are not for the tenant of that name that there is now,
nor are their jobs if those ran meanwhile.

A daemon that was stopped, or whose store was away, may have accepted them before the one was deleted and the other
created. Clocks of daemons differ, so a line must be a good deal older: no line of the new tenant is ever taken for one
of the old.
"""

from collections.abc import Sequence
from typing import Final

from journal import Record, parse_id
from store.base import Job, NewJob, Store
from vocabulary.names import tenant_of

APART_MS: Final = 60_000
"""More than clocks of daemons that share a store may differ."""


async def lines_of_former_tenants(store: Store, lines: Sequence[Record] | Sequence[NewJob]) -> set[str]:
    """The ids of those. Raises StoreUnavailable."""
    created_ms = {tenant.name: tenant.created_ms for tenant in await store.list_tenants()}
    return {
        line.id for line in lines if parse_id(line.id).time_ms < created_ms.get(tenant_of(line.jobtype), 0) - APART_MS
    }


async def jobs_of_former_tenants(store: Store, jobs: Sequence[NewJob], now_ms: int) -> set[str]:
    """The same. The store is asked only if one of them is old enough for it."""
    is_old = min(job.create_ms for job in jobs) < now_ms - APART_MS
    return await lines_of_former_tenants(store, jobs) if is_old else set()


async def deliveries_of_former_tenants(store: Store, jobs: Sequence[Job], now_ms: int) -> set[str]:
    """The same, of jobs of one tenant that were delivered here, whichever way they came. Raises StoreUnavailable."""
    old = [job for job in jobs if job.create_ms < now_ms - APART_MS]
    tenant = await store.get_tenant(tenant_of(old[0].jobtype)) if old else None
    return set() if tenant is None else {job.id for job in old if job.create_ms < tenant.created_ms - APART_MS}
