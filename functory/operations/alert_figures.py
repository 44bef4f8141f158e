"""The figures that the rules of a tenant are held against: from counters and buckets, never from jobs.

However many rules there are, each question is asked once if those about the same window come one after the other: what
counts is how many windows of time they have. The answers about one window are kept at a time: a tenant has thousands of
types, and they would be some hundred megabytes. Between two questions, and in slices, others have their turn.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from functory.alerts.judgement import Figures
from functory.alerts.terms import Terms
from functory.loops.slices import Slices
from functory.operations.allowance import allowance_beside, most_used
from functory.operations.figures import counters_of
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.type_patterns import is_pattern
from functory.workers.unasked import JUST_NOW_MS
from store.base import Code, TypeCounters
from store.values.scoreboard import HOUR_MS, MINUTE_MS, RESOLUTIONS, Span
from vocabulary.glob import glob_cost, glob_matcher
from vocabulary.names import jobtype_of, type_of

FAILED: Final = frozenset({Code.FAILED, Code.ERROR, Code.ABANDONED})
"""What counts as a failure: also each run that ended in error and is tried again, or a handler that always breaks would
be noticed when its jobs are given up."""
ENDED: Final = FAILED | {Code.OK}
_OK: Final = frozenset({Code.OK})
_FAST_CLOCK_MS: Final = HOUR_MS
"""What a daemon counts whose clock is ahead by up to this is a sign of life: it makes an alert of silence late, and
without it there would be one although jobs end."""

Counts = Mapping[str, int]


class TenantFigures:
    """Of one look: what was asked is kept until it is over, and of windows the last."""

    def __init__(self, service: Service, who: Principal, now_ms: int) -> None:
        self._service = service
        self._who = who
        self._tenant = who.tenant
        self._now_ms = now_ms
        self._counters: Sequence[TypeCounters] | None = None
        self._counts: dict[frozenset[Code], Counts] = {}
        """What ended in the last window that was asked about."""
        self._window_s = 0
        self._waiting: Counts | None = None
        self._unserved: Counts | None = None

    async def of(self, terms: Terms, notifying: Collection[str]) -> Figures:
        """Of the types that a rule means. A pattern never means types that notify: the failure of one would be told by
        the next, for ever. Raises StoreUnavailable."""
        if terms.when == "quota":
            return Figures(used=most_used(await allowance_beside(self._service, self._who, await self._all_counters())))
        jobtypes = await self._jobtypes(terms.type, notifying)
        if terms.when == "failures":
            failed = _sum(await self._ended(FAILED, terms.window_s), jobtypes)
            is_share = terms.share_above is not None
            return Figures(failed, _sum(await self._ended(ENDED, terms.window_s), jobtypes) if is_share else 0)
        if terms.when == "silent":
            return Figures(_sum(await self._ended(_OK, terms.window_s, _FAST_CLOCK_MS), jobtypes))
        if terms.when == "backlog":
            waiting = {row.jobtype: row.waiting for row in await self._all_counters()}
            return Figures(_sum(waiting, jobtypes))
        since = await (self._oldest() if terms.when == "waiting" else self._longest_unserved())
        return Figures(since_ms=min((since[each] for each in jobtypes if each in since), default=None))

    async def _jobtypes(self, named: str, notifying: Collection[str]) -> Sequence[str]:
        if not is_pattern(named):
            return (jobtype_of(self._tenant, named),)
        matches, cost, slices = glob_matcher(named), glob_cost(named), Slices()
        found: list[str] = []
        for row in await self._all_counters():
            name = type_of(row.jobtype)
            if name not in notifying and matches(name):
                found.append(row.jobtype)
            await slices.spend(cost)
        return found

    async def _all_counters(self) -> Sequence[TypeCounters]:
        if self._counters is None:
            self._counters = await counters_of(self._service, self._tenant)
        return self._counters

    async def _ended(self, codes: frozenset[Code], window_s: int, ahead_ms: int = 0) -> Counts:
        if window_s != self._window_s:
            self._counts, self._window_s = {}, window_s
        if codes not in self._counts:
            spans = spans_of(window_s, self._now_ms, ahead_ms)
            self._counts[codes] = await self._service.store.count_by_type(self._tenant, codes, spans)
        return self._counts[codes]

    async def _oldest(self) -> Counts:
        """Since when the oldest job of each type could run, but for paused types."""
        if self._waiting is None:
            service = self._service
            rows = await service.recent_waiting.of(self._tenant, service.store, service.now_ms)
            self._waiting = {row.jobtype: row.oldest_due_ms for row in rows}
        return self._waiting

    async def _longest_unserved(self) -> Counts:
        """Since when nobody has served each type: no worker has asked for its jobs, or there is no handler."""
        if self._unserved is None:
            service = self._service
            rows = await service.recent_waiting.of(self._tenant, service.store, service.now_ms)
            found = {row.jobtype: row.oldest_due_ms for row in rows if not row.handler_version}
            for each in await service.workers.unasked_of(self._tenant):
                if each.seconds * 1000 > JUST_NOW_MS:
                    found[each.jobtype] = self._now_ms - round(each.seconds * 1000)
            self._unserved = found
        return self._unserved


def spans_of(window_s: int, now_ms: int, ahead_ms: int = 0) -> list[Span]:
    """From the start of the minute in which the window begins, in few buckets: minutes up to the next hour, then hours.
    A window that began when no minutes are kept any more, from the start of the hour. ahead_ms: for so long after now,
    too."""
    until_ms = now_ms + ahead_ms + 1
    since_ms = max((now_ms - window_s * 1000) // MINUTE_MS * MINUTE_MS, 0)
    hour_ms = -(-since_ms // HOUR_MS) * HOUR_MS
    if hour_ms > now_ms:
        return [Span(1, MINUTE_MS, since_ms, until_ms)]
    if since_ms < now_ms - RESOLUTIONS[MINUTE_MS] + HOUR_MS:
        return [Span(1, HOUR_MS, since_ms // HOUR_MS * HOUR_MS, until_ms)]
    hours = Span(1, HOUR_MS, hour_ms, until_ms)
    return [hours] if since_ms == hour_ms else [Span(1, MINUTE_MS, since_ms, hour_ms), hours]


def _sum(counts: Counts, jobtypes: Sequence[str]) -> int:
    return sum(counts.get(jobtype, 0) for jobtype in jobtypes)
