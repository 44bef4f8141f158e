"""The scoreboard of a tenant: counts of now, totals since the type exists, and the figures of a time window."""

from typing import Final, NamedTuple

from functory.loops.slices import Slices
from functory.operations.figures import counters_of, no_counters
from functory.operations.service import Service
from functory.operations.type_patterns import jobtypes_named
from functory.operations.unasked import unasked_of
from store.base import Bucket, FailureGroup, Histogram, TypeCounters, Usage
from store.values.scoreboard import DAY_MS, HOUR_MS, MINUTE_MS, Span

WIDTHS: Final = {"minute": MINUTE_MS, "hour": HOUR_MS, "day": DAY_MS}


class Window(NamedTuple):
    """What ended within the window. A job that is cancelled has rarely run, and does not count."""

    ended: int
    failed: int
    runner_us: int
    duration: Histogram
    wait: Histogram


_NOTHING: Final = Window(0, 0, 0, Histogram(), Histogram())
"""Of all types of which nothing ended."""
_ROW: Final = 10
_BUCKET: Final = 200
"""What a row and a bucket cost, as slices count it."""


class Row(NamedTuple):
    counters: TypeCounters
    window: Window
    has_handler: bool
    unasked_s: float | None
    """For how long no worker has asked for its jobs; None if they do not wait for one."""
    unreadable: str
    """Why its jobs wait if this daemon cannot read its handler."""


class Board(NamedTuple):
    now_ms: int
    window_s: float
    """How long the window is: what was asked for, from the start of the minute in which that begins."""
    usage: Usage
    rows: list[Row]


async def scoreboard(service: Service, tenant: str, window_s: int) -> Board:
    """A row for every type that has or had jobs, or has a handler, in order of type."""
    store, now_ms = service.store, service.now_ms()
    counters = {row.jobtype: row for row in await counters_of(service, tenant)}
    handlers = set(await store.list_handled_types(tenant))
    for jobtype in handlers - counters.keys():
        counters[jobtype] = no_counters(jobtype)
    since_ms = max((now_ms - window_s * 1000) // MINUTE_MS * MINUTE_MS, 0)
    buckets = [
        bucket
        for span in _spans(since_ms, now_ms + 1)
        for bucket in await store.get_buckets(
            tenant, width_ms=span.width_ms, since_ms=span.since_ms, until_ms=span.until_ms
        )
    ]
    windows = await _windows(buckets)
    unasked_s = await unasked_of(service, tenant)
    slices = Slices()
    rows = []
    for jobtype in sorted(counters):
        window = windows.get(jobtype, _NOTHING)
        unreadable = service.control.unreadable(jobtype)
        rows.append(Row(counters[jobtype], window, jobtype in handlers, unasked_s.get(jobtype), unreadable))
        await slices.spend(_ROW)
    return Board(now_ms, (now_ms - since_ms) / 1000, await store.get_usage(tenant), rows)


async def time_line(service: Service, tenant: str, *, width: str, count: int, jobtype: str | None) -> list[Bucket]:
    """The last `count` buckets up to now, without those in which nothing ended."""
    width_ms, now_ms = WIDTHS[width], service.now_ms()
    since_ms = max((now_ms // width_ms - count + 1) * width_ms, 0)
    return await service.store.get_buckets(
        tenant, width_ms=width_ms, since_ms=since_ms, until_ms=now_ms + 1, jobtype=jobtype
    )


async def failures(
    service: Service, tenant: str, *, named: str | None, since_ms: int, limit: int
) -> list[FailureGroup]:
    """named: a type, or a pattern of types. Raises InvalidInput."""
    jobtypes = await jobtypes_named(service, tenant, named)
    return await service.store.list_failure_groups(tenant, jobtypes=jobtypes, since_ms=since_ms, limit=limit)


def _spans(since_ms: int, until_ms: int) -> list[Span]:
    """From the start of a minute in few buckets: minutes up to the next hour, then hours."""
    hour_ms = -(-since_ms // HOUR_MS) * HOUR_MS
    if hour_ms >= until_ms:
        return [Span(1, MINUTE_MS, since_ms, until_ms)]
    hours = Span(1, HOUR_MS, hour_ms, until_ms)
    return [hours] if since_ms == hour_ms else [Span(1, MINUTE_MS, since_ms, hour_ms), hours]


async def _windows(buckets: list[Bucket]) -> dict[str, Window]:
    slices = Slices()
    windows: dict[str, Window] = {}
    for bucket in buckets:
        await slices.spend(_BUCKET)
        before = windows.get(bucket.jobtype) or Window(0, 0, 0, Histogram(), Histogram())
        before.duration.merge(bucket.duration)
        before.wait.merge(bucket.wait)
        bad = bucket.failed + bucket.abandoned
        windows[bucket.jobtype] = Window(
            before.ended + bucket.ok + bad,
            before.failed + bad,
            before.runner_us + bucket.runner_us,
            before.duration,
            before.wait,
        )
    return windows
