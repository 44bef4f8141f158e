"""How long failed jobs are kept: for `keep_failed`, or for ever, up to the quota of their tenant.

From nine tenths of a quota on they are kept no longer than other jobs, so that failures of long ago never keep new jobs
out. A tenant without a quota keeps all of them.
"""

import math
from typing import Final

from functory.config import Settings
from functory.tenant_limits import TenantLimits, limits_from
from store.base import Store, Usage

NEARLY_FULL: Final = 0.9


def failed_before_ms(settings: Settings, now_ms: int) -> int:
    """What failed before this is old, whoever's it is."""
    return 0 if keeps_for_ever(settings) else now_ms - round(settings.keep_failed_s * 1000)


def keeps_for_ever(settings: Settings) -> bool:
    return math.isinf(settings.keep_failed_s)


async def nearly_full(store: Store) -> list[str]:
    """The tenants that have used most of a quota. Costs a look at the usage of each that has one."""
    found: list[str] = []
    for tenant in await store.list_tenants():
        limits = limits_from(tenant.limits)
        has_quota = limits.max_jobs is not None or limits.max_bytes is not None
        if has_quota and is_nearly_full(await store.get_usage(tenant.name), limits):
            found.append(tenant.name)
    return found


def is_nearly_full(usage: Usage, limits: TenantLimits) -> bool:
    pairs = ((usage.jobs, limits.max_jobs), (usage.size_bytes, limits.max_bytes))
    return any(limit is not None and used >= NEARLY_FULL * limit for used, limit in pairs)
