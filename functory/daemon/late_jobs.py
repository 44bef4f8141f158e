"""Ends jobs that have waited for longer than their type allows, the `max_wait_s` of its handler: whether the type is
busy, its jobs wait for tokens, or no worker asks for them. Those of a type that is paused, or whose tenant is
suspended, are ended when they would start (execution/late.py).

What waits is known from the executor's last look: this asks the store only about types of which a job is late. Where
the executor does not look, because all its slots are busy, it is paused or this daemon runs nothing, this looks itself.

Ensures: a type ends as the handler in force says, not as one before it said; the late jobs of one type, however many
come, keep those of the others waiting for no more than a step; and types whose oldest job waits on, as a round of a
schedule does, cost little.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from typing import Final

from functory.execution.handler_cache import HandlerCache
from functory.execution.tenant_book import TenantBook
from functory.loops.shared import Shared
from handlers.errors import HandlerError
from store.base import WaitingType

log = logging.getLogger("functory.upkeep")

_STEP: Final = 1000
_MOST_STEPS: Final = 50
"""Of a type, before the next look at what waits."""
_MOST_KNOWN: Final = 20_000
"""Types that are remembered, beyond those that wait."""
_AT_ONCE: Final = 500
"""Types that are looked at in one turn of the loop."""
_SHORTEST_MS: Final = 1000
"""No type allows less."""
_VAIN_S: Final = 30.0
"""After so long a type is looked at again whose oldest job is the same, and was none to be ended."""
_LOOK_PART: Final = 10
"""The pause after a look of its own is this many times as long as the look."""


class LateJobs:
    def __init__(
        self,
        shared: Shared,
        handlers: HandlerCache,
        tenants: TenantBook,
        seen: Callable[[], Sequence[WaitingType] | None],
    ) -> None:
        """seen: the types with a handler of which jobs waited a moment ago; None if nobody has looked for a while."""
        self._store = shared.store
        self._clock = shared.clock
        self._progress = shared.progress
        self._handlers = handlers
        self._tenants = tenants
        self._seen = seen
        self._next_look_s = -math.inf
        self._known: dict[str, tuple[tuple[int, int], int | None]] = {}
        """By type: of which tenant and version, and what that allows."""
        self._in_vain: dict[str, tuple[int, float]] = {}
        """Types of which nothing could be ended: since when their oldest job waits, and until when they rest."""

    async def look(self) -> int:
        """Returns how many jobs were ended. Raises StoreUnavailable."""
        seen = self._seen()
        waiting = await self._look() if seen is None else seen
        late: dict[str, tuple[WaitingType, int]] = {}
        for number, each in enumerate(waiting):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            now_ms = self._clock.now_ms()
            if each.oldest_due_ms >= now_ms - _SHORTEST_MS or self._rests(each):
                continue
            wait_s = await self._max_wait_s(each)
            if wait_s is not None and each.oldest_due_ms < now_ms - wait_s * 1000 and await self._is_in_force(each):
                late[each.jobtype] = each, wait_s
        self._forget(waiting)
        return await self._end(late)

    def _rests(self, each: WaitingType) -> bool:
        oldest_ms, until_s = self._in_vain.get(each.jobtype, (-1, 0.0))
        return oldest_ms == each.oldest_due_ms and self._clock.monotonic_s() < until_s

    async def _look(self) -> Sequence[WaitingType]:
        began_s = self._clock.monotonic_s()
        if began_s < self._next_look_s:
            return ()
        try:
            return await self._store.get_waiting_jobtypes(now_ms=self._clock.now_ms(), runnable=True)
        finally:
            ended_s = self._clock.monotonic_s()
            self._next_look_s = ended_s + _LOOK_PART * (ended_s - began_s)

    async def _end(self, late: dict[str, tuple[WaitingType, int]]) -> int:
        """A step of each type after the other, until there are no more."""
        ended = dict.fromkeys(late, 0)
        left = list(late)
        for _ in range(_MOST_STEPS):
            left = [jobtype for jobtype in left if await self._step(jobtype, late[jobtype][1], ended)]
        for jobtype, (each, wait_s) in late.items():
            if ended[jobtype]:
                log.info("upkeep.late", extra={"jobtype": jobtype, "jobs": ended[jobtype], "max_wait_s": wait_s})
            else:
                self._in_vain[jobtype] = each.oldest_due_ms, self._clock.monotonic_s() + _VAIN_S
        return sum(ended.values())

    async def _step(self, jobtype: str, wait_s: int, ended: dict[str, int]) -> bool:
        """Returns whether there may be more."""
        now_ms = self._clock.now_ms()
        report = await self._store.expire_jobs(
            now_ms=now_ms,
            done_before_ms=0,
            waiting_before_ms=now_ms - wait_s * 1000,
            jobtype=jobtype,
            limit=_STEP,
        )
        self._progress.beat("end_late")
        ended[jobtype] += report.abandoned
        return report.more and report.abandoned > 0

    async def _max_wait_s(self, each: WaitingType) -> int | None:
        which = each.tenant_created_ms, each.handler_version
        known = self._known.get(each.jobtype)
        if known is None or known[0] != which:
            try:
                handler = await self._handlers.get(each.jobtype, each.handler_version)
            except HandlerError:  # of a newer version of this program: another daemon can read it
                handler = None
            known = which, None if handler is None else handler.max_wait_s
            self._known[each.jobtype] = known
        return known[1]

    def _forget(self, waiting: Sequence[WaitingType]) -> None:
        now_s = self._clock.monotonic_s()
        self._in_vain = {jobtype: rest for jobtype, rest in self._in_vain.items() if rest[1] > now_s}
        if len(self._known) > _MOST_KNOWN + len(waiting):
            now = {each.jobtype for each in waiting}
            self._known = {jobtype: known for jobtype, known in self._known.items() if jobtype in now}

    async def _is_in_force(self, each: WaitingType) -> bool:
        """Whether the handler is still that of the look, and the tenant: another may have got its name since."""
        (gate,) = await self._store.get_type_gates([each.jobtype])
        is_same_tenant = self._tenants.of(each.jobtype).incarnation == each.tenant_created_ms
        return is_same_tenant and gate.handler_version == each.handler_version
