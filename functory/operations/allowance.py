"""What a tenant has of what it may have."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from functory.intake.admission import MAX_TYPES, is_live
from functory.operations.figures import counters_of, usage_of
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.tenant_limits import TenantLimits
from store.base import TypeCounters


class Allowance(NamedTuple):
    jobs: int
    size_bytes: int
    handlers: int
    types: int
    """Those that the limit of types counts."""
    limits: TenantLimits
    """With the limit of types that all have who have none of their own."""


async def allowance(service: Service, who: Principal) -> Allowance:
    return await allowance_beside(service, who, await counters_of(service, who.tenant))


async def allowance_beside(service: Service, who: Principal, counters: Iterable[TypeCounters]) -> Allowance:
    """For who has read the counters of the tenant's types anyway."""
    limits = who.limits
    if limits.max_types is None:
        limits = msgspec.structs.replace(limits, max_types=MAX_TYPES)
    return Allowance(*await usage_of(service, who.tenant), sum(map(is_live, counters)), limits)
