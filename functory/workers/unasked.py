"""Types that workers serve, with jobs that could run, and how long no worker has asked for them.

Bounded: of very many types those with the oldest jobs are looked at, and of very many tenants that are new to this
daemon some at a time. Asks the store little: whoever's workers wait at this daemon costs nothing.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from functory.workers.asked_types import AskedTypes
from functory.workers.presence import Presence
from store.base import Store, WaitingType
from vocabulary.clock import Clock
from vocabulary.names import WORKER, tenant_of, type_of

JUST_NOW_MS: Final = 30_000
"""A worker that waits for jobs at another daemon is known to do so by then: it is written down every 15 s."""
LIFE_S: Final = 10.0
_MOST_TYPES: Final = 1000
_MOST_NEW_TENANTS: Final = 200
_MOST_KNOWN: Final = 20_000
_AT_ONCE: Final = 20


class Unasked(NamedTuple):
    """seconds: since a worker last asked, or since the oldest job could run, whichever is later; 0 if workers hold jobs
    of the type."""

    jobtype: str
    waiting: int
    seconds: float


class UnaskedTypes:
    def __init__(self, store: Store, clock: Clock, presence: Presence) -> None:
        self._store = store
        self._clock = clock
        self._presence = presence
        self._langs: dict[str, tuple[int, str]] = {}
        """By type: a version of its handler, and its language."""
        self._looked_s = -math.inf
        """When the last look began, whatever became of it."""
        self._look: asyncio.Task[None] | None = None
        self._waiting: dict[str, list[WaitingType]] = {}
        """What waited then, by tenant."""
        self._running: dict[str, int] = {}
        self._all: list[Unasked] = []

    async def now(self) -> list[Unasked]:
        """Of all that waits, as it was at most LIFE_S ago: whoever asks every moment costs the store nothing. Raises
        StoreUnavailable."""
        await self._look_once()
        return self._all

    async def of(self, tenant: str) -> list[Unasked]:
        """Of what waited for a tenant then; however much waits for the others. Raises StoreUnavailable."""
        await self._look_once()
        return await self.among(self._waiting.get(tenant, ()), self._running)

    async def among(self, waiting: Iterable[WaitingType], running: Mapping[str, int]) -> list[Unasked]:
        """waiting: what could run. running: how many jobs of each type run. Raises StoreUnavailable."""
        oldest_first = sorted((each for each in waiting if each.handler_version), key=lambda each: each.oldest_due_ms)
        await self._learn_langs(oldest_first)
        by_tenant: dict[str, list[WaitingType]] = {}
        external = [each for each in oldest_first if self._lang(each) == WORKER]
        for each in external[:_MOST_TYPES]:
            by_tenant.setdefault(tenant_of(each.jobtype), []).append(each)
        tenants, found = list(by_tenant), list[Unasked]()
        for start in range(0, len(tenants), _AT_ONCE):
            some = tenants[start : start + _AT_ONCE]
            for rows in await asyncio.gather(*(self._of(tenant, by_tenant[tenant], running) for tenant in some)):
                found += rows
        return found

    def close(self) -> None:
        if self._look is not None:
            self._look.cancel()

    async def _look_once(self) -> None:
        """All that ask wait for the same look, which goes on if one of them does not wait any longer."""
        if self._clock.monotonic_s() - self._looked_s >= LIFE_S and (self._look is None or self._look.done()):
            self._looked_s = self._clock.monotonic_s()
            self._look = asyncio.create_task(self._look_at_all(), name="types that no worker asks for")
            self._look.add_done_callback(_heard)
        if self._look is not None and not self._look.done():
            await asyncio.shield(self._look)

    async def _look_at_all(self) -> None:
        now_ms = self._clock.now_ms()
        waiting = await self._store.get_waiting_jobtypes(now_ms=now_ms, runnable=True)
        counters = await self._store.get_counters(None, now_ms=now_ms)
        by_tenant: dict[str, list[WaitingType]] = {}
        for each in waiting:
            by_tenant.setdefault(tenant_of(each.jobtype), []).append(each)
        self._waiting, self._running = by_tenant, {row.jobtype: row.running for row in counters if row.running}
        self._all = await self.among(waiting, self._running)

    async def _of(self, tenant: str, types: list[WaitingType], running: Mapping[str, int]) -> list[Unasked]:
        now_ms, idle = self._clock.now_ms(), [each for each in types if not running.get(each.jobtype)]
        asked_ms = await _last_asked(idle, AskedTypes(self._presence.here(tenant)))
        if any(now_ms - each_ms > JUST_NOW_MS for each_ms in asked_ms.values()):
            asked_ms = await _last_asked(idle, AskedTypes(await self._presence.everywhere(tenant)))
        return [
            Unasked(each.jobtype, each.waiting, max(0, now_ms - asked_ms.get(each.jobtype, now_ms)) / 1000)
            for each in types
        ]

    async def _learn_langs(self, types: Iterable[WaitingType]) -> None:
        unknown = dict.fromkeys(tenant_of(each.jobtype) for each in types if not self._lang(each))
        for tenant in list(unknown)[:_MOST_NEW_TENANTS]:
            for row in await self._store.list_handlers(tenant):
                self._langs.pop(row.jobtype, None)
                self._langs[row.jobtype] = (row.version, row.lang)
        while len(self._langs) > _MOST_KNOWN:
            del self._langs[next(iter(self._langs))]

    def _lang(self, each: WaitingType) -> str:
        version, lang = self._langs.get(each.jobtype, (0, ""))
        return lang if version == each.handler_version else ""


def _heard(look: "asyncio.Task[None]") -> None:
    """Whoever waited for it has its error, if somebody did."""
    if not look.cancelled():
        look.exception()


async def _last_asked(types: Iterable[WaitingType], asked: AskedTypes) -> dict[str, int]:
    """When one of the workers last asked for each type, while there was something to ask for."""
    return {each.jobtype: await asked.last_ms(type_of(each.jobtype), each.oldest_due_ms) for each in types}
