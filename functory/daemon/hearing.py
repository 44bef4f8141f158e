"""What this daemon does when another one tells it something: it looks at the store, sooner than it would have.

What can be said to a part at once is said at once. What needs the store is an errand: each is done once however often
it was asked for, and then not again for a moment.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from functory.daemon.parts import Parts
from functory.daemon.upkeep import Upkeep
from functory.loops.job_mark import mark_of
from functory.loops.slices import Slices
from functory.peers.news import Look, News
from store.errors import StoreUnavailable

log = logging.getLogger("functory.peers")

_REFRESH_S: Final = 5.0
_PAUSE_S: Final = 0.05
_MARK_COST: Final = 10
"""Of the mark of a job, as a slice counts it."""


class Hearing:
    def __init__(self, parts: Parts, upkeep: Upkeep) -> None:
        self._parts = parts
        self._upkeep = upkeep
        self._errands: dict[str, Callable[[], Awaitable[object]]] = {}
        self._cancelled: set[int] = set()
        self._freed: set[int] = set()
        self._left: set[tuple[str, int]] = set()
        self._woken = asyncio.Event()
        self._keys_listener: Callable[[], None] = lambda: None

    def when_keys_changed(self, listener: Callable[[], None]) -> None:
        """Also told when a tenant is found to be gone: its keys are, too, even if nobody has said so."""
        self._keys_listener = listener
        self._parts.tenants.when_gone(lambda _: listener())

    def hear(self, news: News) -> None:
        parts = self._parts
        if news.added or news.look & Look.JOBS:
            parts.executor.added(news.added)
            parts.workers.added(news.added)
            parts.consumers.told(news.added)
            parts.alarm.ask()
        if news.look & Look.JOBS:
            parts.workers.wake()
            parts.consumers.wake()
        parts.waiters.heard(news.ended)
        for tenant in news.changed:
            parts.executor.changed(tenant)
            parts.workers.changed(tenant)
        if news.look & Look.CONSUMERS:
            parts.consumers.changed()
        if news.look & Look.KEYS:
            self._keys_listener()
        self._note_errands(news)

    def _note_errands(self, news: News) -> None:
        if news.look & Look.TENANTS:
            self._errands["tenants"] = self._refresh_tenants
        if news.look & Look.DAEMONS:
            self._errands["daemons"] = self._parts.peers.refresh
        if news.look & Look.PAUSES:
            self._errands["pauses"] = self._upkeep.renew_sysid
        if news.cancelled:
            self._cancelled |= news.cancelled
            self._errands["cancelled"] = self._end_cancelled
        if news.freed:
            self._freed |= news.freed
            self._errands["freed"] = self._make_room
        if news.left:
            self._left |= news.left
            self._errands["left"] = self._give_back
        if self._errands:
            self._woken.set()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_REFRESH_S):
                    await self._woken.wait()
            self._woken.clear()
            errands, self._errands = self._errands, {}
            errands.setdefault("daemons", self._parts.peers.refresh)
            for errand in errands.values():
                try:
                    await errand()
                except StoreUnavailable as error:  # the poll will do it
                    log.warning("peers.store_unavailable", extra={"reason": str(error)})
            await asyncio.sleep(_PAUSE_S)

    async def _refresh_tenants(self) -> None:
        await self._parts.executor.refresh_tenants()
        self._parts.executor.changed()
        self._parts.workers.changed()

    async def _end_cancelled(self) -> None:
        marks, self._cancelled = self._cancelled, set()
        leases = [lease for lease in self._parts.executor.leases.all() if mark_of(lease.id) in marks]
        await self._upkeep.end_cancelled(leases)
        slices = Slices()
        for job_id in self._parts.workers.held_ids():
            if mark_of(job_id) in marks:
                self._parts.workers.cancelled(job_id)
            await slices.spend(_MARK_COST)

    async def _make_room(self) -> None:
        marks, self._freed = self._freed, set()
        await self._parts.workers.ended_elsewhere(marks)

    async def _give_back(self) -> None:
        left, self._left = self._left, set()
        for tenant, mark in left:
            await self._parts.workers.left_elsewhere(tenant, mark)
