"""Lines that wait in a journal longer than their tenant exists are not for the tenant of that name that there is now,
nor are their jobs if those ran meanwhile.

A daemon that was stopped, or whose store was away, may have accepted them before the one was deleted and the other
created. Clocks of daemons differ, so a line must be a good deal older: no line of the new tenant is ever taken for one
of the old. A tenant that was created while the clock was ahead, and has been set back since, is younger than its lines
by that clock: nothing is taken for another's until the clock has come there again.
"""

from collections.abc import Sequence
from typing import Final

from journal import Record, parse_id
from store.base import Job, NewJob, Store
from vocabulary.columns import fields
from vocabulary.names import tenant_of

APART_MS: Final = 60_000
"""More than clocks of daemons that share a store may differ."""
_CREATED: Final = fields(NewJob, "create_ms")


def since_ms(created_ms: int, now_ms: int, *, apart_ms: int = APART_MS) -> int:
    """From when on things of a name are those of the tenant that has it now; 0 if that cannot be told."""
    return created_ms if created_ms <= now_ms + apart_ms else 0


async def lines_of_former_tenants(store: Store, lines: Sequence[Record] | Sequence[NewJob], now_ms: int) -> set[str]:
    """The ids of those. Raises StoreUnavailable."""
    since = {tenant.name: since_ms(tenant.created_ms, now_ms) for tenant in await store.list_tenants()}
    return {line.id for line in lines if parse_id(line.id).time_ms < since.get(tenant_of(line.jobtype), 0) - APART_MS}


async def jobs_of_former_tenants(store: Store, jobs: Sequence[NewJob], now_ms: int) -> set[str]:
    """The same. The store is asked only if one of them is old enough for it."""
    is_old = min(map(_CREATED, jobs)) < now_ms - APART_MS
    return await lines_of_former_tenants(store, jobs, now_ms) if is_old else set()


async def deliveries_of_former_tenants(store: Store, jobs: Sequence[Job], now_ms: int) -> set[str]:
    """The same, of jobs of one tenant that were delivered here, whichever way they came. Raises StoreUnavailable."""
    old = [job for job in jobs if job.create_ms < now_ms - APART_MS]
    tenant = await store.get_tenant(tenant_of(old[0].jobtype)) if old else None
    since = 0 if tenant is None else since_ms(tenant.created_ms, now_ms)
    return {job.id for job in old if job.create_ms < since - APART_MS}
