"""What the pages of a tenant show about now and the last hour, read once for all readers.

A minute that is over, and that every daemon has had time to write, does not change: it is read once and kept. So
looking again reads only the newest minutes. Nothing here reads a job. What is kept belongs to one life of a tenant: a
later tenant of its name sees none of it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from functory.operations import figures, scoreboard
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.unasked import unasked_of
from functory.web.pages import charts
from functory.web.pages.charts import first_minute_ms
from functory.web.pages.spans import last_minutes
from store.base import Code, EndedSum, FailureGroup, Histogram, TypeCounters, Usage
from store.values.scoreboard import DAY_MS, MINUTE_MS

_SETTLE_MS: Final = 2 * MINUTE_MS
"""Daemons write outcomes within moments, but clocks of machines may differ a little."""
_LIFE_MS: Final = 1000
_HANDLERS_LIFE_MS: Final = 5000
_LATENCY_LIFE_MS: Final = 10_000
_COUNTS_LIFE_MS: Final = 5000
_RENEWALS_PER_S: Final = 5
_MAX_TENANTS: Final = 64
_MAX_TYPES: Final = 5000
RATE_MINUTES: Final = 5


class Snapshot(NamedTuple):
    """A tenant at a moment. minutes: what ended in each minute of the last hour, over all types."""

    at_ms: int
    counters: Mapping[str, TypeCounters]
    """In order of jobtype."""
    handled: frozenset[str]
    """Jobtypes that have a handler."""
    usage: Usage
    minutes: Mapping[int, EndedSum]
    failures: Sequence[FailureGroup]
    """Groups of the last day, newest first."""
    unasked_s: Mapping[str, float]
    """Jobtypes whose jobs wait for workers, and for how long none has asked."""


class Latency(NamedTuple):
    """Quantiles in microseconds of this hour and the previous one; None when nothing ran."""

    run: Histogram
    wait: Histogram


_NEVER: Final = (0, Latency(Histogram(), Histogram()))


class Hour:
    """The last hour of one thing: what ended in each minute, the sum, and its chart, drawn when first asked for.

    Minutes before `closed_ms` are final.
    """

    __slots__ = ("_at_ms", "_spark", "_total", "closed_ms", "ended")

    def __init__(self) -> None:
        self.closed_ms = 0
        self.ended: dict[int, EndedSum] = {}
        self._at_ms = 0
        self._total: EndedSum | None = None
        self._spark: Markup | None = None

    @property
    def total(self) -> EndedSum:
        if self._total is None:
            self._total = charts.total(self.ended, self._at_ms)
        return self._total

    @property
    def spark(self) -> Markup:
        if self._spark is None:
            self._spark = charts.spark(self.ended, self._at_ms)
        return self._spark

    def since_ms(self, now_ms: int) -> int:
        """From when on it must be read. A clock that was set back makes it forget: minutes that were final are not."""
        if self.closed_ms > now_ms:
            self.closed_ms = 0
        return max(self.closed_ms, first_minute_ms(now_ms))

    def take(self, found: Mapping[int, EndedSum], now_ms: int) -> None:
        first_ms = first_minute_ms(now_ms)
        kept = {start: it for start, it in self.ended.items() if first_ms <= start < self.closed_ms}
        ended = {**kept, **found}
        if ended != self.ended or first_minute_ms(self._at_ms) != first_ms:
            self._total = self._spark = None
        self.ended, self._at_ms = ended, now_ms
        self.closed_ms = (now_ms - _SETTLE_MS) // MINUTE_MS * MINUTE_MS


class _Known:
    """What is kept for one tenant."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.snapshot: Snapshot | None = None
        self.all_types = Hour()
        self.by_type: OrderedDict[str, Hour] = OrderedDict()
        self.counts: dict[tuple[int, frozenset[Code]], tuple[int, dict[str, int]]] = {}
        self.latencies: dict[str, tuple[int, Latency]] = {}
        self.handled: tuple[int, frozenset[str]] = (0, frozenset())
        self.renewals = (0, 0)
        """In which second, and how many."""


class Recent:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._tenants: OrderedDict[tuple[str, int], _Known] = OrderedDict()

    async def snapshot(self, who: Principal) -> Snapshot:
        """The tenant of `who` now; at most a second old."""
        known = self._known(who)
        async with known.lock:
            now_ms = self._service.now_ms()
            if known.snapshot is None or abs(now_ms - known.snapshot.at_ms) >= _LIFE_MS:
                known.snapshot = await self._look(who.tenant, known, now_ms)
            return known.snapshot

    def forget(self, who: Principal) -> None:
        """Something about the tenant was changed here: whoever did it sees it at once."""
        known = self._tenants.get(_life(who))
        if known is not None:
            known.snapshot, known.handled = None, (0, frozenset())

    def renew(self, who: Principal) -> None:
        """Something was changed, perhaps on another daemon, and whoever did it comes back: as `forget`, but only a few
        times a second. Anybody can send the address that says so."""
        known = self._tenants.get(_life(who))
        if known is None:
            return
        second, times = known.renewals
        now_s = self._service.now_ms() // 1000
        times = times + 1 if second == now_s else 1
        known.renewals = (now_s, times)
        if times <= _RENEWALS_PER_S:
            self.forget(who)

    async def hours(self, who: Principal, jobtypes: Sequence[str]) -> dict[str, Hour]:
        """The last hour of these types."""
        known = self._known(who)
        async with known.lock:
            now_ms = self._service.now_ms()
            hours = {jobtype: known.by_type.get(jobtype) or Hour() for jobtype in jobtypes}
            for since_ms, group in _by_age(hours, now_ms).items():
                found = await figures.ended_by_minute_and_type(self._service, who.tenant, group, since_ms, now_ms + 1)
                for jobtype in group:
                    hours[jobtype].take(found.get(jobtype, {}), now_ms)
            self._remember(known, hours)
            return hours

    async def counts(self, who: Principal, minutes: int, codes: frozenset[Code]) -> Mapping[str, int]:
        """How many jobs ended with these codes, by type, in the last `minutes` minutes; at most five seconds old."""
        known = self._known(who)
        async with known.lock:
            now_ms = self._service.now_ms()
            at_ms, counts = known.counts.get((minutes, codes), (0, {}))
            if abs(now_ms - at_ms) >= _COUNTS_LIFE_MS:
                counts = await figures.count_ended(self._service, who.tenant, codes, last_minutes(now_ms, minutes))
                known.counts[minutes, codes] = (now_ms, counts)
            return counts

    async def latencies(self, who: Principal, jobtypes: Sequence[str]) -> dict[str, Latency]:
        """Latencies of this hour and the previous one; at most ten seconds old, because two hours hardly
        change in that time."""
        known = self._known(who)
        async with known.lock:
            now_ms = self._service.now_ms()
            fresh = {
                jobtype: (now_ms, Latency(Histogram(), Histogram()))
                for jobtype in jobtypes
                if abs(now_ms - known.latencies.get(jobtype, _NEVER)[0]) >= _LATENCY_LIFE_MS
            }
            buckets = await figures.last_two_hours(self._service, who.tenant, list(fresh), now_ms)
            for bucket in buckets:
                fresh[bucket.jobtype][1].run.merge(bucket.duration)
                fresh[bucket.jobtype][1].wait.merge(bucket.wait)
            if len(known.latencies) > _MAX_TYPES:
                known.latencies.clear()
            known.latencies |= fresh
            return {jobtype: known.latencies[jobtype][1] for jobtype in jobtypes}

    async def _look(self, tenant: str, known: _Known, now_ms: int) -> Snapshot:
        service = self._service
        counters = {row.jobtype: row for row in await figures.counters_of(service, tenant)}
        read_ms, handled = known.handled
        if abs(now_ms - read_ms) >= _HANDLERS_LIFE_MS:
            handled = await figures.handled_types(service, tenant)
            known.handled = (now_ms, handled)
        since_ms = known.all_types.since_ms(now_ms)
        ended = await figures.ended_by_minute(service, tenant, since_ms, now_ms + 1)
        known.all_types.take(ended, now_ms)
        failures = await scoreboard.failures(service, tenant, named=None, since_ms=max(now_ms - DAY_MS, 0), limit=100)
        usage = await figures.usage_of(service, tenant)
        idle = handled - counters.keys()
        if idle:
            nothing = map(figures.no_counters, idle)
            counters = {row.jobtype: row for row in sorted([*counters.values(), *nothing])}
        unasked_s = await unasked_of(service, tenant)
        return Snapshot(now_ms, counters, handled, usage, known.all_types.ended, failures, unasked_s)

    def _known(self, who: Principal) -> _Known:
        life = _life(who)
        known = self._tenants.setdefault(life, _Known())
        self._tenants.move_to_end(life)
        if len(self._tenants) > _MAX_TENANTS:
            self._tenants.popitem(last=False)
        return known

    def _remember(self, known: _Known, hours: Mapping[str, Hour]) -> None:
        for jobtype, hour in hours.items():
            known.by_type[jobtype] = hour
            known.by_type.move_to_end(jobtype)
        while len(known.by_type) > _MAX_TYPES:
            known.by_type.popitem(last=False)


def _life(who: Principal) -> tuple[str, int]:
    """Names are used again: a tenant's name alone would show it what an earlier one did."""
    return who.tenant, who.tenant_since_ms


def _by_age(hours: Mapping[str, Hour], now_ms: int) -> dict[int, list[str]]:
    """Types by the minute from which they must be read. Those of one page usually share one."""
    groups: dict[int, list[str]] = {}
    for jobtype, hour in hours.items():
        groups.setdefault(hour.since_ms(now_ms), []).append(jobtype)
    return groups


def ended_of(sums: Iterable[EndedSum]) -> int:
    """Runs that ended, one way or another. A job that is cancelled has rarely run, and does not count."""
    return sum(sum(it[:6]) - it.cancelled for it in sums)
