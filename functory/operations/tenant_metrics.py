"""The figures of a tenant for its own Prometheus: counters since each type exists, what there is now, how long the
runs of the last minutes took and waited, and how much it has of what it may have. Nothing here reads a job."""

from typing import Final, NamedTuple

from functory.loops.slices import Slices
from functory.operations.allowance import Allowance, allowance_beside
from functory.operations.figures import counters_of
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.type_patterns import check_named
from store.base import Histogram, TypeCounters
from store.values.scoreboard import MINUTE_MS
from vocabulary.glob import glob_cost, glob_matcher
from vocabulary.names import type_of

WINDOW_MS: Final = 5 * MINUTE_MS
"""Quantiles are over this time, from the start of the minute in which it begins. Scrapers come more often."""
_ROW: Final = 10
_BUCKET: Final = 200
"""What a row and a bucket cost, as slices count it."""


class RecentRuns:
    """The runs of a type that ended in the window."""

    __slots__ = ("duration", "runner_us", "wait")

    def __init__(self) -> None:
        self.duration = Histogram()
        self.wait = Histogram()
        self.runner_us = 0


class TypeFigures(NamedTuple):
    counters: TypeCounters
    oldest_s: float
    """For how long its oldest job that could run has waited; 0 if none waits, and of a paused type."""
    recent: RecentRuns


class TenantMetrics(NamedTuple):
    tenant: str
    window_s: float
    types: list[TypeFigures]
    allowance: Allowance


async def tenant_metrics(service: Service, who: Principal, named: str | None) -> TenantMetrics:
    """The types that have or had a job, in order; only those that `named`, a type or a pattern, matches. Raises
    InvalidInput."""
    matches = glob_matcher("*" if named is None else check_named(named))
    cost = _ROW if named is None else glob_cost(named)
    tenant = who.tenant
    store, now_ms, slices = service.store, service.now_ms(), Slices()
    oldest_ms = {
        each.jobtype: each.oldest_due_ms for each in await service.recent_waiting.of(tenant, store, service.now_ms)
    }
    since_ms = max((now_ms - WINDOW_MS) // MINUTE_MS * MINUTE_MS, 0)
    counters = await counters_of(service, tenant)
    recent: dict[str, RecentRuns] = {}
    for bucket in await store.get_buckets(tenant, width_ms=MINUTE_MS, since_ms=since_ms, until_ms=now_ms + 1):
        runs = recent.setdefault(bucket.jobtype, RecentRuns())
        runs.duration.merge(bucket.duration)
        runs.wait.merge(bucket.wait)
        runs.runner_us += bucket.runner_us
        await slices.spend(_BUCKET)
    types: list[TypeFigures] = []
    for row in counters:
        await slices.spend(cost)
        if matches(type_of(row.jobtype)):
            age_s = max(now_ms - oldest_ms.get(row.jobtype, now_ms), 0) / 1000
            types.append(TypeFigures(row, age_s, recent.get(row.jobtype) or RecentRuns()))
    return TenantMetrics(tenant, (now_ms - since_ms) / 1000, types, await allowance_beside(service, who, counters))
