"""The lines of all tenants, and what tells them that jobs wait.

Jobs that arrive through this daemon are told to the line of their tenant at once. What other daemons add, and what
comes due, is found by one look at the store for all lines together, every `poll_s` and only while somebody waits.
"""

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from functory.execution.endings import Ending
from functory.loops.shared import Shared
from functory.workers.claims import Claims
from functory.workers.external_types import ExternalTypes
from functory.workers.taker_line import TakerLine
from functory.workers.values import Order, Taken
from store.base import Archive, Discard, Finish
from store.errors import StoreUnavailable
from vocabulary.names import tenant_of

log = logging.getLogger("functory.workers")

_KEPT_S: Final = 60.0
"""How long the line of a tenant is kept when nobody stands in it."""
_LOOK_PART: Final = 3
"""The pause after a look is at least so many times as long as the look."""
_PAUSE_S: Final = 0.02
_RANK_S: Final = 0.05
"""A look that only tells which of several types goes first comes no sooner than this after the last one."""


class Handout:
    def __init__(self, shared: Shared, claims: Claims, poll_s: float) -> None:
        self._store = shared.store
        self._clock = shared.clock
        self._progress = shared.progress
        self._claims = claims
        self._types = ExternalTypes(shared.store, shared.clock, poll_s)
        self._poll_s = poll_s
        self._lines: dict[str, TakerLine] = {}
        self._looked_s = self._rank_s = -math.inf
        self._is_stale = True
        """Something may wait that the last look did not see."""
        self._looking = asyncio.Lock()
        self._woken = asyncio.Event()
        self._is_stopping = False
        self._is_paused = False

    @property
    def waiting(self) -> int:
        """Workers that wait now."""
        return sum(line.waiting for line in self._lines.values())

    async def take(self, order: Order) -> list[Taken]:
        """Raises QuotaExceeded, StoreUnavailable."""
        if self._is_stopping:
            return []
        line = self._lines.get(order.tenant)
        if line is None:
            line = self._lines[order.tenant] = TakerLine(order.tenant, self._claims, self._types)
            line.is_open = not self._is_paused
            self._is_stale = True
        if self._is_old or (line.is_unsure and self._clock.monotonic_s() >= self._rank_s):
            self._is_stale = True
            line.coming += 1
            try:
                await self._look_once()
            finally:
                line.coming -= 1
        if self._lines.get(order.tenant) is not line:  # its tenant was deleted meanwhile
            return []
        if not self._has_takers:
            self._woken.set()
        return await line.take(order)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._woken.clear()
            pause_s = 0.0
            if self._has_takers:
                began_s = self._clock.monotonic_s()
                try:
                    await self._look_once()
                except StoreUnavailable as error:
                    log.warning("workers.store_unavailable", extra={"reason": str(error)})
                pause_s = max(_PAUSE_S, _LOOK_PART * (self._clock.monotonic_s() - began_s))
            await asyncio.sleep(pause_s)
            try:
                async with asyncio.timeout(self._poll_s if self._has_takers else None):
                    await self._woken.wait()
            except TimeoutError:
                self._is_stale = True

    # What other parts tell

    def added(self, jobtypes: Iterable[str]) -> None:
        """Jobs of these types were added to the store."""
        for jobtype in jobtypes if self._lines else ():
            line = self._lines.get(tenant_of(jobtype))
            if line is not None:
                line.mark([jobtype])

    def released(self, endings: Sequence[Ending]) -> None:
        """These were recorded. A cap may have room now, a job may be due again, a parent may go on."""
        if not self._lines:
            return
        line = self._lines.get(tenant_of(endings[0][0].jobtype))
        if line is None:
            return
        over = Archive | Discard | Finish
        line.mark({job.jobtype for job, release, _ in endings if job.key or not isinstance(release, over)})
        if any(job.parent for job, _, _ in endings):
            self.wake()

    def has_room(self, tenant: str) -> None:
        """Fewer jobs of the tenant are held: a cap may have kept others back."""
        if line := self._lines.get(tenant):
            line.serve_again()

    def wake(self) -> None:
        """Jobs may have become ready in a way that nobody else tells."""
        self._is_stale = True
        self._woken.set()

    def changed(self, tenant: str = "") -> None:
        """Handlers or pauses of the tenant, or of any, were changed."""
        self._types.forget(tenant)
        self.wake()

    def set_paused(self, *, paused: bool) -> None:
        self._is_paused = paused
        for line in self._lines.values():
            line.is_open = not paused and not self._is_stopping
            line.serve_again()

    def learn(self, jobtype: str, count: int, runner_s: float) -> None:
        line = self._lines.get(tenant_of(jobtype))
        if line is not None:
            line.learn(jobtype, count, runner_s)

    def dismiss(self, tenant: str, name: str) -> None:
        """A worker gets nothing any more: its requests that wait are answered."""
        line = self._lines.get(tenant)
        if line is not None:
            line.dismiss(name)

    def end_tenant(self, tenant: str) -> None:
        """Its workers wait no longer, and its types are not those of another of its name."""
        self._types.forget(tenant)
        if line := self._lines.pop(tenant, None):
            line.close()

    def stop(self) -> None:
        """Everybody who waits is answered, with nothing. Who comes later, too."""
        self._is_stopping = True
        for line in self._lines.values():
            line.close()

    async def settle(self) -> None:
        """Wait until nobody is served any more. For after `stop`."""
        for line in list(self._lines.values()):
            await line.settle()

    # The look

    @property
    def _has_takers(self) -> bool:
        return any(line.has_takers for line in self._lines.values())

    @property
    def _is_old(self) -> bool:
        return self._is_stale or self._clock.monotonic_s() - self._looked_s > self._poll_s

    async def _look_once(self) -> None:
        """Look, unless somebody else has just done so."""
        async with self._looking:
            if self._is_old:
                await self._look()

    async def _look(self) -> None:
        began_s = self._clock.monotonic_s()
        self._is_stale = False
        try:
            with self._progress.step("workers"):
                waiting = await self._store.get_waiting_jobtypes(now_ms=self._clock.now_ms(), runnable=True)
        except BaseException:
            self._is_stale = True
            raise
        self._looked_s = began_s
        now_s = self._clock.monotonic_s()
        self._rank_s = now_s + max(_RANK_S, _LOOK_PART * (now_s - began_s))
        by_tenant: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for each in waiting:
            tenant = tenant_of(each.jobtype)
            if tenant in self._lines:
                by_tenant[tenant][each.jobtype] = each.priority
        self._drop_unused()
        for tenant, line in self._lines.items():
            line.set_listed(by_tenant.get(tenant, {}))

    def _drop_unused(self) -> None:
        now_s = asyncio.get_running_loop().time()
        for tenant in [name for name, line in self._lines.items() if not line.has_takers and not line.coming]:
            if now_s - self._lines[tenant].used_s > _KEPT_S:
                del self._lines[tenant]
