"""What has to happen again and again: leases renewed, lapsed ones expired, old things purged, the sysid kept, progress
watched. Each duty is a loop of its own, so that a slow purge never delays a renewal.

A store that cannot be reached is a warning and another try; anything else that a duty raises takes the daemon down.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from functory.execute import Execute
from functory.progress import Progress
from journal import Clock, Journal
from journal.errors import JournalUnavailable
from runner.runner import Runner
from store.base import Lease, Store
from store.errors import StoreUnavailable

log = logging.getLogger("functory.upkeep")

_STEP = 1000
_PURGE_EVERY_S = 10.0
_SWEEP_EVERY_S = 5.0
_MEASURE_EVERY_S = 5.0
_AUDIT_KEPT_MS = 400 * 86_400_000


class Upkeep:
    def __init__(
        self,
        store: Store,
        execute: Execute,
        runner: Runner,
        journal: Journal,
        clock: Clock,
        *,
        sysid: str,
        refresh_tenants: Callable[[], Awaitable[None]],
        info: Callable[[], dict[str, Any]],
        on_paused: Callable[[bool], None],
        lease_s: float,
        sysid_lease_s: float,
        poll_s: float,
        stuck_s: float,
        keep_done_s: float,
        keep_waiting_s: float,
        progress: Progress,
    ) -> None:
        self._store = store
        self._execute = execute
        self._runner = runner
        self._journal = journal
        self._clock = clock
        self._sysid = sysid
        self._refresh_tenants = refresh_tenants
        self._info = info
        self._on_paused = on_paused
        self._lease_s = lease_s
        self._sysid_lease_s = sysid_lease_s
        self._poll_s = poll_s
        self._stuck_s = stuck_s
        self._keep_done_ms = round(keep_done_s * 1000)
        self._keep_waiting_ms = round(keep_waiting_s * 1000)
        self._stale: dict[Lease, bool] = {}
        """Leases whose last renewal was refused, and whether they count as lost already."""
        self._progress = progress
        self._troubles: dict[str, str] = {}
        self.expired_leases = 0
        self.lost_leases = 0
        self.stuck: list[str] = []
        """Jobtypes with runnable work that nobody has tried to claim for too long."""
        self.sysid_until_ms = 0
        """Until when this daemon's name is held, as of the last renewal."""
        self.journal_free_bytes = 0
        """Room on the journal's disk at the last look."""

    @property
    def trouble(self) -> str:
        """Why the store did not do what it was asked last; empty when it did."""
        return next(iter(self._troubles.values()), "")

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as duties:
            duties.create_task(self._every(self._lease_s / 3, self.renew_leases))
            duties.create_task(self._every(self._sysid_lease_s / 3, self.renew_sysid))
            duties.create_task(self._every(self._poll_s, self.expire_leases))
            duties.create_task(self._every(self._poll_s, self._refresh_tenants))
            duties.create_task(self._every(_PURGE_EVERY_S, self.purge))
            duties.create_task(self._every(_SWEEP_EVERY_S, self._runner.sweep))
            duties.create_task(self._every(self._stuck_s / 4, self.watch_progress))
            duties.create_task(self._every(_MEASURE_EVERY_S, self.measure_disk))

    async def renew_leases(self) -> None:
        leases = self._execute.leases()
        lease_ms = round(self._lease_s * 1000)
        stale: list[Lease] = []
        for start in range(0, len(leases), _STEP):
            step = leases[start : start + _STEP]
            report = await self._store.renew_locks(self._sysid, step, lease_ms=lease_ms, now_ms=self._clock.now_ms())
            refused = set(report.stale)
            stale += [lease for lease in step if lease.id in refused]
        self._note_lost(stale)

    def _note_lost(self, stale: Sequence[Lease]) -> None:
        """Count each lost lease once. A release that was just under way looks like one, but never twice in a row."""
        lost = [lease for lease in stale if self._stale.get(lease) is False]
        self._stale = {lease: lease in self._stale for lease in stale}
        if lost:
            self.lost_leases += len(lost)
            log.warning("upkeep.leases_lost", extra={"jobs": len(lost), "first": lost[0].id})

    async def renew_sysid(self) -> None:
        daemon = await self._store.renew_sysid(
            self._sysid,
            info=json.dumps(self._info()),
            lease_ms=round(self._sysid_lease_s * 1000),
            now_ms=self._clock.now_ms(),
        )
        self.sysid_until_ms = daemon.until_ms
        self._on_paused(daemon.paused)

    async def measure_disk(self) -> None:
        try:
            self.journal_free_bytes = await self._journal.free_bytes()
        except JournalUnavailable as error:
            log.warning("upkeep.disk_unreadable", extra={"reason": str(error)})

    async def expire_leases(self) -> None:
        self._execute.note_long_batches()
        expired = await self._store.expire_locks(now_ms=self._clock.now_ms(), limit=_STEP)
        if expired:
            self.expired_leases += expired
            log.warning("upkeep.leases_expired", extra={"jobs": expired})
            self._execute.wake()

    async def purge(self) -> None:
        now_ms = self._clock.now_ms()
        more = True
        while more:
            report = await self._store.expire_jobs(
                now_ms=now_ms,
                done_before_ms=now_ms - self._keep_done_ms,
                waiting_before_ms=now_ms - self._keep_waiting_ms,
                limit=_STEP,
            )
            more = report.more
            self._progress.beat("purge")
            if report.purged or report.abandoned:
                log.info("upkeep.purged", extra={"purged": report.purged, "abandoned": report.abandoned})
        while await self._store.expire_records(now_ms=now_ms, audit_before_ms=now_ms - _AUDIT_KEPT_MS) >= _STEP:
            self._progress.beat("purge")

    async def watch_progress(self) -> None:
        stuck = self._execute.untried(self._stuck_s)
        if stuck and stuck != self.stuck:
            log.error("upkeep.stuck", extra={"jobtypes": ",".join(stuck[:10]), "count": len(stuck)})
        if self.stuck and not stuck:
            log.warning("upkeep.unstuck")
        self.stuck = stuck
        for jobtype in stuck:
            await self._execute.recycle(jobtype)
        if stuck:
            self._execute.wake()

    async def _every(self, seconds: float, duty: Callable[[], Awaitable[object]]) -> None:
        name = duty.__name__.strip("_")
        while True:
            await asyncio.sleep(seconds)
            try:
                with self._progress.step(name):
                    await duty()
            except StoreUnavailable as error:
                log.warning("upkeep.store_unavailable", extra={"reason": str(error)})
                self._troubles[name] = str(error)
            else:
                self._troubles.pop(name, None)
