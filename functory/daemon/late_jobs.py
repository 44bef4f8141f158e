"""Ends jobs that have waited for longer than their type allows, the `max_wait_s` of its handler: whether the type is
busy, its jobs wait for tokens, or no worker asks for them. Those of a type that is paused, or whose tenant is
suspended, are ended when they would start (execution/late.py).

What waits is known from the executor's last look: this asks the store only about types of which a job is late.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from functory.execution.handler_cache import HandlerCache
from functory.execution.tenant_book import TenantBook
from functory.loops.shared import Shared
from handlers.errors import HandlerError
from store.base import WaitingType

log = logging.getLogger("functory.upkeep")

_STEP: Final = 1000
_MOST_KNOWN: Final = 20_000
_AT_ONCE: Final = 500
"""Types that are looked at in one turn of the loop."""
_SHORTEST_MS: Final = 1000
"""No type allows less."""


class LateJobs:
    def __init__(
        self, shared: Shared, handlers: HandlerCache, tenants: TenantBook, seen: Callable[[], Sequence[WaitingType]]
    ) -> None:
        """seen: the types with a handler of which jobs waited a moment ago."""
        self._store = shared.store
        self._clock = shared.clock
        self._progress = shared.progress
        self._handlers = handlers
        self._tenants = tenants
        self._seen = seen
        self._known: dict[str, tuple[tuple[int, int], int | None]] = {}
        """By type: of which tenant and version, and what that allows."""

    async def look(self) -> int:
        """Returns how many jobs were ended. Raises StoreUnavailable."""
        ended = 0
        for number, each in enumerate(self._seen()):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            now_ms = self._clock.now_ms()
            if each.oldest_due_ms >= now_ms - _SHORTEST_MS:
                continue
            wait_s = await self._max_wait_s(each)
            if wait_s is not None and each.oldest_due_ms < now_ms - wait_s * 1000 and self._is_same_tenant(each):
                ended += await self._end(each.jobtype, wait_s)
        return ended

    async def _end(self, jobtype: str, wait_s: int) -> int:
        ended, more = 0, True
        while more:
            now_ms = self._clock.now_ms()
            report = await self._store.expire_jobs(
                now_ms=now_ms,
                done_before_ms=0,
                waiting_before_ms=now_ms - wait_s * 1000,
                jobtype=jobtype,
                limit=_STEP,
            )
            ended, more = ended + report.abandoned, report.more and report.abandoned > 0
            self._progress.beat("end_late")
        if ended:
            log.info("upkeep.late", extra={"jobtype": jobtype, "jobs": ended, "max_wait_s": wait_s})
        return ended

    async def _max_wait_s(self, each: WaitingType) -> int | None:
        which = each.tenant_created_ms, each.handler_version
        known = self._known.get(each.jobtype)
        if known is None or known[0] != which:
            try:
                handler = await self._handlers.get(each.jobtype, each.handler_version)
            except HandlerError:  # of a newer version of this program: another daemon can read it
                handler = None
            known = which, None if handler is None else handler.max_wait_s
            self._known.pop(each.jobtype, None)
            self._known[each.jobtype] = known
            if len(self._known) > _MOST_KNOWN:
                del self._known[next(iter(self._known))]
        return known[1]

    def _is_same_tenant(self, each: WaitingType) -> bool:
        """Another may have got its name since the look."""
        return self._tenants.of(each.jobtype).incarnation == each.tenant_created_ms
