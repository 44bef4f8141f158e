"""Looks at the alert rules of all tenants, again and again, on one daemon of the store.

The newest daemon looks, by the records of those that are alive. While two think so, or none, after one has vanished,
nothing is told twice: alert_looks.py sees to that, whoever looks.

Ensures: a look costs a tenant's share. A few tenants are looked at at once, none for longer than MOST_S, and one whose
look took long rests for REST times as long: its rules are looked at less often, and those of others as ever. Whatever a
look raises ends nothing else.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final

from functory.alerts.judgement import Moment
from functory.operations.alert_looks import look_at_alerts
from functory.operations.daemons import info_of
from functory.operations.service import Service
from store.errors import StoreUnavailable
from store.names import AHEAD_MS
from vocabulary.clock import Clock

log = logging.getLogger("functory.alerts")

LOOK_EVERY_S: Final = 10.0
MOST_S: Final = 10.0
REST: Final = 20
_SEATS: Final = 2


class AlertWatch:
    def __init__(self, service: Service, clock: Clock, lease_s: float, beat: Callable[[], None]) -> None:
        """lease_s: of the sysids of daemons. `beat` is called after each tenant: a round with many takes a while."""
        self._service = service
        self._clock = clock
        self._longest_ms = round(lease_s * 1000) + AHEAD_MS
        self._beat = beat
        self._rests_until_s: dict[str, float] = {}
        self._behind_ms: int | None = None
        """How far the wall clock was behind the monotonic one at the last look."""
        self._even_since_ms = 0

    async def look(self) -> None:
        """One round. Raises StoreUnavailable."""
        self._note_leaps()
        if not await self._is_mine():
            return
        tenants = await self._service.store.list_alert_tenants()
        now_s = self._clock.monotonic_s()
        self._rests_until_s = {
            tenant: until_s for tenant in tenants if (until_s := self._rests_until_s.get(tenant, 0)) > now_s
        }
        ready = iter([tenant for tenant in tenants if tenant not in self._rests_until_s])
        async with asyncio.TaskGroup() as seats:
            for _ in range(_SEATS):
                seats.create_task(self._look_at_each(ready))

    async def _look_at_each(self, tenants: Iterator[str]) -> None:
        """The seats share the iterator: each takes the next tenant when it is done with one."""
        for tenant in tenants:
            began_s = self._clock.monotonic_s()
            try:
                async with asyncio.timeout(MOST_S):
                    await look_at_alerts(self._service, tenant, self._moment())
            except (StoreUnavailable, TimeoutError) as error:
                log.warning(
                    "alerts.not_looked_at", extra={"tenant": tenant, "reason": str(error) or "it took too long"}
                )
            except Exception:  # a defect of ours, or a value that nobody thought of: it costs this tenant its look
                log.exception("alerts.look_failed", extra={"tenant": tenant})
            ended_s = self._clock.monotonic_s()
            self._rests_until_s[tenant] = ended_s + REST * (ended_s - began_s)
            self._beat()

    def _moment(self) -> Moment:
        return Moment(self._clock.now_ms(), self._even_since_ms)

    def _note_leaps(self) -> None:
        """A wall clock that has moved otherwise than the monotonic one was set."""
        now_ms = self._clock.now_ms()
        behind_ms = round(self._clock.monotonic_s() * 1000) - now_ms
        if self._behind_ms is not None and abs(behind_ms - self._behind_ms) > AHEAD_MS:
            log.warning("alerts.clock_leapt", extra={"by_ms": self._behind_ms - behind_ms})
            self._even_since_ms = now_ms
        self._behind_ms = behind_ms

    async def _is_mine(self) -> bool:
        """Not counted are reserved sysids without a daemon, which say nothing about themselves, and daemons that seem
        to live for too long: their clock was ahead, and they may be gone."""
        now_ms = self._clock.now_ms()
        found = await self._service.store.list_daemons(now_ms=now_ms)
        alive = [it for it in found if info_of(it).role and it.until_ms - now_ms <= self._longest_ms]
        return bool(alive) and alive[-1].sysid == self._service.control.sysid
