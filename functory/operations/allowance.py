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


class Quota(NamedTuple):
    what: str
    used: int
    limit: int | None

    @property
    def share(self) -> float:
        if self.limit is None:
            return 0.0
        return self.used / self.limit if self.limit else float(self.used > 0)


def quotas(it: Allowance) -> list[Quota]:
    return [
        Quota("jobs", it.jobs, it.limits.max_jobs),
        Quota("bytes", it.size_bytes, it.limits.max_bytes),
        Quota("handlers", it.handlers, it.limits.max_handlers),
        Quota("types", it.types, it.limits.max_types),
    ]


def most_used(it: Allowance) -> float:
    """The share of the quota of which most is used."""
    return max(quota.share for quota in quotas(it))


async def allowance(service: Service, who: Principal) -> Allowance:
    return await allowance_beside(service, who, await counters_of(service, who.tenant))


async def allowance_beside(service: Service, who: Principal, counters: Iterable[TypeCounters]) -> Allowance:
    """For who has read the counters of the tenant's types anyway."""
    limits = who.limits
    if limits.max_types is None:
        limits = msgspec.structs.replace(limits, max_types=MAX_TYPES)
    return Allowance(*await usage_of(service, who.tenant), sum(map(is_live, counters)), limits)
