"""Types that wait for workers of which none asks: for metrics, scoreboard and pages, and in words for the operator."""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Final

from functory.operations.service import Service
from functory.workers.unasked import JUST_NOW_MS, Unasked
from store.base import TypeCounters, WaitingType
from store.errors import StoreUnavailable

ALERT_S: Final = 600.0
"""As in the rule FunctoryNoWorker (deploy/observability/alerts.yaml)."""
MOST_TOLD: Final = 100
_TIMEOUT_S: Final = 2.0
_MOMENT_S: Final = JUST_NOW_MS / 1000


async def unasked_among(
    service: Service, waiting: Sequence[WaitingType], counters: Iterable[TypeCounters]
) -> list[Unasked]:
    """How long no worker has asked, for each type that workers serve. Nothing when the store cannot tell in time."""
    running = {row.jobtype: row.running for row in counters if row.running}
    return await _in_time(service.workers.unasked(waiting, running))


async def long_unasked(service: Service) -> list[Unasked]:
    """Those that are worth an alert, longest first, as it was a moment ago. Nothing when the store cannot tell in
    time."""
    found = [each for each in await _in_time(service.workers.unasked_now()) if each.seconds > ALERT_S]
    return sorted(found, key=lambda each: -each.seconds)[:MOST_TOLD]


async def unasked_of(service: Service, tenant: str) -> dict[str, float]:
    """Types of the tenant with jobs that wait for workers, and for how many seconds none has asked for them; as it was
    a moment ago. Leaves out those for which one may be waiting now."""
    found = await _in_time(service.workers.unasked_of(tenant))
    return {it.jobtype: it.seconds for it in found if it.seconds > _MOMENT_S}


async def _in_time(question: Awaitable[list[Unasked]]) -> list[Unasked]:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await question
    except (StoreUnavailable, TimeoutError):
        return []


def in_words(each: Unasked) -> str:
    return f"no worker has asked for {each.jobtype} for {each.seconds:.0f} s, and {each.waiting} of its jobs wait"
