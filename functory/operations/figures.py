"""Figures of queues and tenants for pages and metrics: now, by minute and by hour. Nothing here reads a job."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from functory.operations.service import Service
from functory.operations.unasked import unasked_among
from functory.workers.unasked import Unasked
from journal import JournalStats
from store.base import Bucket, Code, EndedSum, TypeCounters, Usage, WaitingType
from store.errors import StoreUnavailable
from store.values.scoreboard import HOUR_MS, MINUTE_MS, Span

_QUEUE_TIMEOUT_S: Final = 5.0
"""Scrapers give up after ten seconds, and then miss everything."""


class Metrics(NamedTuple):
    """What `/metrics` shows besides requests. counters, waiting and unasked are empty when the store cannot be
    asked."""

    now_ms: int
    gauges: dict[str, float]
    journal_stats: JournalStats
    counters: Sequence[TypeCounters]
    waiting: Sequence[WaitingType]
    egress: dict[str, dict[str, float]]
    unasked: Sequence[Unasked]


async def read_metrics(service: Service) -> Metrics:
    """Everything for `/metrics`. When the store cannot be asked, the queue's numbers are left out: that is when the
    others are needed most."""
    now_ms = service.now_ms()
    counters: Sequence[TypeCounters] = ()
    waiting: Sequence[WaitingType] = ()
    try:
        async with asyncio.timeout(_QUEUE_TIMEOUT_S):
            found = await counters_of(service, None)
            waiting = await service.store.get_waiting_jobtypes(now_ms=now_ms)
            counters = found
    except (StoreUnavailable, TimeoutError):
        pass
    unasked = await unasked_among(service, waiting, counters)
    control = service.control
    egress = control.egress_by_tenant()
    return Metrics(now_ms, control.gauges(), service.journal.stats(), counters, waiting, egress, unasked)


def journal_backlog_bytes(service: Service) -> int:
    """Bytes in this daemon's journal that are not in the store yet."""
    return service.journal.stats().backlog_bytes


def no_counters(jobtype: str) -> TypeCounters:
    """The counters of a type that has had no job yet."""
    return TypeCounters(jobtype)


async def counters_of(service: Service, tenant: str | None) -> list[TypeCounters]:
    """A row for each type of the tenant, or of all tenants, that has or had jobs, in order. With the jobs that only
    this daemon knows of."""
    stored = await service.store.get_counters(tenant, now_ms=service.now_ms())
    unseen = service.straight.unseen(tenant)
    if not unseen:
        return stored
    rows = {row.jobtype: row for row in stored}
    for jobtype, (waiting, running) in unseen.items():
        row = rows.get(jobtype) or no_counters(jobtype)
        rows[jobtype] = row._replace(waiting=row.waiting + waiting, running=row.running + running)
    return [rows[jobtype] for jobtype in sorted(rows)]


async def usage_of(service: Service, tenant: str) -> Usage:
    return await service.store.get_usage(tenant)


async def handled_types(service: Service, tenant: str) -> frozenset[str]:
    """Jobtypes that have a handler."""
    return frozenset(await service.store.list_handled_types(tenant))


async def ended_by_minute(service: Service, tenant: str, since_ms: int, until_ms: int) -> dict[int, EndedSum]:
    """What ended in each minute, over all types; minutes without an end are left out."""
    return await service.store.sum_by_start(tenant, width_ms=MINUTE_MS, since_ms=since_ms, until_ms=until_ms)


async def ended_by_minute_and_type(
    service: Service, tenant: str, jobtypes: Sequence[str], since_ms: int, until_ms: int
) -> dict[str, dict[int, EndedSum]]:
    return await service.store.get_type_counts(
        tenant, jobtypes, width_ms=MINUTE_MS, since_ms=since_ms, until_ms=until_ms
    )


async def count_ended(service: Service, tenant: str, codes: frozenset[Code], spans: Sequence[Span]) -> dict[str, int]:
    """How many ended with these codes within the spans, by jobtype."""
    return await service.store.count_by_type(tenant, codes, spans)


async def last_two_hours(service: Service, tenant: str, jobtypes: Sequence[str], now_ms: int) -> list[Bucket]:
    """Buckets of this hour and the one before, with durations and waits."""
    return await service.store.get_type_buckets(
        tenant, jobtypes, width_ms=HOUR_MS, since_ms=_hour_before_ms(now_ms), until_ms=now_ms + 1
    )


async def last_two_hours_of_all(service: Service) -> dict[str, EndedSum]:
    """What ended in this hour and the one before, by jobtype, of all tenants."""
    now_ms = service.now_ms()
    return await service.store.sum_by_type(
        None, width_ms=HOUR_MS, since_ms=_hour_before_ms(now_ms), until_ms=now_ms + 1
    )


def _hour_before_ms(now_ms: int) -> int:
    return (now_ms // HOUR_MS - 1) * HOUR_MS
