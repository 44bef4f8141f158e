"""Recurring duties: renew leases and the sysid, expire lapsed leases, purge old jobs, watch for progress and alerts.

Each duty is a loop of its own, so a slow purge never delays a renewal. When the store cannot be reached, a duty logs a
warning and tries again later; anything else that it raises takes the daemon down.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from functory.config import Settings
from functory.daemon.alert_watch import LOOK_EVERY_S, AlertWatch
from functory.daemon.garbage_collector import GrowthCollector, own_resident_bytes
from functory.daemon.joining import sysid_lease_s
from functory.daemon.late_jobs import LateJobs
from functory.daemon.package_collector import PackageCollector
from functory.daemon.parts import Parts
from functory.daemon.retention import failed_before_ms, keeps_for_ever, nearly_full
from functory.daemon.served_time import ServedTime
from functory.daemon.vitals import Vitals
from functory.operations.daemons import encode_info
from functory.operations.workers import LONGEST_LEASE_MS
from functory.peers.news import Look
from journal.errors import JournalUnavailable
from store.base import JobState, Lease
from store.errors import StoreLost, StoreUnavailable
from store.names import AHEAD_MS
from vocabulary.zones import read_zones

log = logging.getLogger("functory.upkeep")

_STEP: Final = 1000
_PURGE_EVERY_S: Final = 10.0
_SWEEP_EVERY_S: Final = 1.0
_MEASURE_EVERY_S: Final = 5.0
_COLLECT_EVERY_S: Final = 600.0
_AUDIT_KEPT_MS: Final = 400 * 86_400_000

Duty = Callable[[], Awaitable[object]]


class Upkeep:
    def __init__(self, settings: Settings, parts: Parts, vitals: Vitals, alerts: AlertWatch) -> None:
        self._settings = settings
        self._store = parts.shared.store
        self._journal = parts.shared.journal
        self._intake = parts.intake
        self._clock = parts.shared.clock
        self._progress = parts.shared.progress
        self._sysid = parts.shared.owner
        self._executor = parts.executor
        self._runner = parts.runner
        self._workers = parts.workers
        self._collector = PackageCollector(parts.shared.store, parts.packages)
        parts.packages.when_full(self._collector.make_room)
        self._announcer = parts.announcer
        self._folders = parts.folders
        self._secrets = parts.vault
        parts.vault.when_changed(parts.executor.changed)
        self._joining = parts.joining
        self._vitals = vitals
        self.alerts = alerts
        self._seen = vitals.seen
        self._garbage = GrowthCollector(own_resident_bytes)
        self._served = ServedTime(parts.shared.store, settings.keep_waiting_s, _PURGE_EVERY_S)
        self._late = LateJobs(parts.shared, parts.executor.handlers, parts.tenants, parts.executor.seen)
        self._behind_ms: int | None = None
        """How far the wall clock was behind the monotonic one when it was least behind since leases were cut."""
        self._stale: dict[Lease, bool] = {}
        """Leases whose last renewal was refused, and whether they are counted as lost already."""

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as duties:
            for name, (seconds, duty) in self._duties().items():
                duties.create_task(self._every(seconds, name, duty))

    def _duties(self) -> dict[str, tuple[float, Duty]]:
        """By the name under which a trouble is noted: each has its own, or one would strike off that of another."""
        settings = self._settings
        return {
            "renew_leases": (settings.lease_s / 3, self.renew_leases),
            "renew_sysid": (sysid_lease_s(settings) / 3, self.renew_sysid),
            "keep_spare": (sysid_lease_s(settings) / 3, self._joining.keep_spare),
            "expire_leases": (settings.poll_s, self.expire_leases),
            "end_late": (settings.poll_s, self.end_late),
            "refresh_tenants": (settings.poll_s, self._executor.refresh_tenants),
            "purge": (_PURGE_EVERY_S, self.purge),
            "sweep": (_SWEEP_EVERY_S, self._runner.sweep),
            "collect_garbage": (_SWEEP_EVERY_S, self._garbage.look),
            "collect_folders": (_COLLECT_EVERY_S, self.collect_folders),
            "watch_progress": (settings.stuck_s / 4, self.watch_progress),
            "measure_disk": (_MEASURE_EVERY_S, self.measure_disk),
            "write_down": (_MEASURE_EVERY_S, self._workers.write_down),
            "read_zones": (_PURGE_EVERY_S, self.read_zones),
            "open_secrets": (_PURGE_EVERY_S, self._secrets.look),
            "collect_packages": (_COLLECT_EVERY_S, self._collector.collect_packages),
            "look_at_alerts": (LOOK_EVERY_S, self.alerts.look),
        }

    async def renew_leases(self) -> None:
        began_ms = self._clock.now_ms()
        leases = self._executor.leases.all()
        lease_ms = round(self._settings.lease_s * 1000)
        stale: list[Lease] = []
        for start in range(0, len(leases), _STEP):
            step = leases[start : start + _STEP]
            report = await self._store.renew_locks(self._sysid, step, lease_ms=lease_ms, now_ms=self._clock.now_ms())
            refused = set(report.stale)
            stale += [lease for lease in step if lease.id in refused]
        self._executor.leases.renewed(began_ms, stale)
        self._note_lost(stale)
        await self.end_cancelled(stale)

    async def end_cancelled(self, leases: Sequence[Lease]) -> None:
        """Of these, jobs that run here and are over in the store were cancelled elsewhere: end their runs."""
        for lease in leases:
            tenant = self._runner.running_tenant(lease.id)
            if not tenant:
                continue
            states = await self._store.get_states(tenant, [lease.id], now_ms=self._clock.now_ms())
            if states.get(lease.id, JobState.ARCHIVED) is JobState.ARCHIVED:
                self._runner.cancel(tenant, lease.id)

    def _note_lost(self, stale: Sequence[Lease]) -> None:
        """Count each lost lease once. A release under way looks like a lost lease, but never twice in a row."""
        lost = [lease for lease in stale if self._stale.get(lease) is False]
        self._stale = {lease: lease in self._stale for lease in stale}
        if lost:
            self._seen.lost_leases += len(lost)
            log.warning("upkeep.leases_lost", extra={"jobs": len(lost), "first": lost[0].id})

    async def renew_sysid(self) -> None:
        daemon = await self._store.renew_sysid(
            self._sysid,
            info=encode_info(self._vitals.info()),
            lease_ms=round(sysid_lease_s(self._settings) * 1000),
            now_ms=self._clock.now_ms(),
        )
        self._seen.sysid_until_ms = daemon.until_ms
        self._executor.set_paused(paused=daemon.paused)
        self._workers.set_paused(paused=daemon.paused)

    async def measure_disk(self) -> None:
        await self._journal.try_again()
        try:
            self._seen.journal_free_bytes = await self._journal.free_bytes()
        except JournalUnavailable as error:
            log.warning("upkeep.disk_unreadable", extra={"reason": str(error)})

    async def read_zones(self) -> None:
        """Once, when there is time for it: a job that repeats in a zone must not wait for the disk."""
        await asyncio.to_thread(read_zones)

    async def expire_leases(self) -> None:
        self._executor.note_long_batches()
        await self._cut_leases()
        await self._workers.end_overdue()
        expired = await self._store.expire_locks(now_ms=self._clock.now_ms(), limit=_STEP)
        if expired:
            self._seen.expired_leases += expired
            log.warning("upkeep.leases_expired", extra={"jobs": expired})
            self._executor.wake()
            self._workers.wake()
            self._announcer.tell(Look.JOBS)

    async def _cut_leases(self) -> None:
        """Cut those of a clock that was ahead. Only at the start and when the clock was set back since: with many long
        leases, a look takes a while."""
        behind_ms = round(self._clock.monotonic_s() * 1000) - self._clock.now_ms()
        if self._behind_ms is not None and behind_ms <= self._behind_ms + AHEAD_MS:
            self._behind_ms = min(self._behind_ms, behind_ms)
            return
        longest_ms = max(LONGEST_LEASE_MS, round(self._settings.lease_s * 1000))
        while await self._store.cut_leases(now_ms=self._clock.now_ms(), longest_ms=longest_ms, limit=_STEP) >= _STEP:
            self._progress.beat("expire_leases")
        self._behind_ms = behind_ms

    async def purge(self) -> None:
        now_ms = self._clock.now_ms()
        await self._expire(now_ms, failed_before_ms(self._settings, now_ms), await self._served.look(now_ms))
        if keeps_for_ever(self._settings):
            for tenant in await nearly_full(self._store):
                await self._expire(now_ms, None, 0, tenant)
        if not self._joining.trouble:
            await self._intake.keep_position()
        audit_ms = now_ms - _AUDIT_KEPT_MS
        while await self._store.expire_records(now_ms=now_ms, audit_before_ms=audit_ms, limit=_STEP) >= _STEP:
            self._progress.beat("purge")

    async def _expire(self, now_ms: int, failed_ms: int | None, waiting_ms: int, tenant: str | None = None) -> None:
        """failed_ms: what failed before that is old; None: as the others. waiting_ms: what waits since before that."""
        keep_done_ms = round(self._settings.keep_done_s * 1000)
        more = True
        while more:
            report = await self._store.expire_jobs(
                now_ms=now_ms,
                done_before_ms=now_ms - keep_done_ms,
                failed_before_ms=failed_ms,
                waiting_before_ms=waiting_ms,
                tenant=tenant,
                limit=_STEP,
            )
            more = report.more
            self._progress.beat("purge")
            if report.purged or report.abandoned:
                log.info("upkeep.purged", extra={"purged": report.purged, "abandoned": report.abandoned})

    async def end_late(self) -> None:
        if await self._late.look():
            self._executor.wake()  # for parents whose last child ended
            self._workers.wake()

    async def collect_folders(self) -> None:
        removed = await self._folders.collect(self._clock.now_ms())
        if removed:
            log.info("upkeep.folders_collected", extra={"pieces": removed})

    async def watch_progress(self) -> None:
        stuck = self._executor.untried(self._settings.stuck_s)
        if stuck and stuck != self._seen.stuck:
            log.error("upkeep.stuck", extra={"jobtypes": ",".join(stuck[:10]), "count": len(stuck)})
        if self._seen.stuck and not stuck:
            log.warning("upkeep.unstuck")
        self._seen.stuck = stuck
        for jobtype in stuck:
            await self._executor.recycle(jobtype)
        if stuck:
            self._executor.wake()

    async def _every(self, seconds: float, name: str, duty: Duty) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                with self._progress.step(name):
                    await duty()
            except StoreUnavailable as error:
                self._note_trouble(name, error)
            else:
                self._seen.store_troubles.pop(name, None)
                self._seen.store_lost_to.discard(name)

    def _note_trouble(self, name: str, error: StoreUnavailable) -> None:
        seen = self._seen
        seen.store_troubles[name] = str(error)
        if not isinstance(error, StoreLost):
            seen.store_lost_to.discard(name)
            log.warning("upkeep.store_unavailable", extra={"reason": str(error)})
            return
        if not seen.store_lost_to:  # once: nothing changes until somebody does something
            log.error("upkeep.store_lost", extra={"reason": str(error)})
        seen.store_lost_to.add(name)
