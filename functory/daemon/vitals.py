"""The state of this daemon: health, gauges, and what it tells the other daemons about itself.

Reads the parts and what upkeep has seen (`Sightings`). Changes nothing.
"""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import functory
from functory.config import Settings
from functory.daemon.joining import sysid_lease_s
from functory.daemon.parts import Parts
from functory.operations.daemons import DaemonInfo
from functory.operations.protocols import Health

_STALLED_S: Final = 150.0
"""A loop that stays in one step for longer makes the daemon not live. Over twice what a call to the store may take."""


@dataclass(slots=True)
class Sightings:
    """What upkeep has counted so far, and what it saw last."""

    expired_leases: int = 0
    lost_leases: int = 0
    stuck: list[str] = field(default_factory=list)
    """Jobtypes with runnable work that nobody has tried to claim for too long."""
    sysid_until_ms: int = 0
    """Until when this daemon's name is held, as of the last renewal."""
    journal_free_bytes: int = 0
    """Free space on the journal's disk."""
    store_troubles: dict[str, str] = field(default_factory=dict)
    """Duties that the store refused last time, and why."""
    store_lost_to: set[str] = field(default_factory=set)
    """Of these, those that were told that its file is gone."""


class Vitals:
    def __init__(self, settings: Settings, parts: Parts, left_journals: Callable[[], str]) -> None:
        """left_journals: which journals that nobody uses have lines that the store lacks, and why."""
        self._settings = settings
        self._parts = parts
        self._left_journals = left_journals
        self._started_s = parts.shared.clock.monotonic_s()
        self.seen = Sightings()
        self.is_stopping = False

    def health(self) -> Health:
        stalled = self.stalled(_STALLED_S)
        stuck, journal = self.seen.stuck, self._parts.shared.journal.stats()
        problems = {
            "stalled": f"no progress in {', '.join(stalled)}" if stalled else "",
            "journal": journal.trouble,
            "unreadable_lines": journal.unreadable,
            "left_journals": self._left_journals(),
            "store": self._store_trouble,
            "isolation": self._parts.isolation.refusal,
            "languages": self._parts.languages.trouble,
            "secrets": self._parts.vault.trouble,
            "stuck": f"no claim for {', '.join(stuck[:10])}" if stuck else "",
            "stopping": "the daemon is stopping" if self.is_stopping else "",
        }
        problems = {name: text for name, text in problems.items() if text}
        return Health(
            is_live=not stalled,
            is_ready=not (problems.keys() & {"journal", "stopping"} or self.seen.store_lost_to),
            isolation=self._parts.isolation.level.name,
            problems=problems,
        )

    def stalled(self, longer_than_s: float) -> list[str]:
        """Loops that have been in one step for longer than this."""
        shared = self._parts.shared
        journal = ["journal"] if shared.journal.stats().writing_s > longer_than_s else []
        return journal + shared.progress.stalled(longer_than_s)

    def gauges(self) -> dict[str, float]:
        settings, parts, seen, shared = self._settings, self._parts, self.seen, self._parts.shared
        stats = shared.journal.stats()
        now_ms = shared.clock.now_ms()
        return {
            "uptime_seconds": shared.clock.monotonic_s() - self._started_s,
            "slots": settings.slot_count,
            "slots_free": parts.executor.free_slots,
            "jobs_claimed_total": parts.executor.claimed,
            "leases_held": len(parts.executor.leases),
            "leases_expired_total": seen.expired_leases,
            "leases_lost_total": seen.lost_leases,
            "outcomes_stale_total": parts.outbox.stale + parts.reported.stale,
            "outcomes_refused_total": parts.outbox.refused + parts.reported.refused,
            "jobtypes_stuck": len(seen.stuck),
            "journal_is_writable": 0 if stats.trouble else 1,
            "journal_lag_seconds": parts.intake.lag_ms(now_ms) / 1000,
            "journal_disk_free_bytes": seen.journal_free_bytes,
            "journal_min_free_bytes": settings.journal_min_free_bytes,
            "store_is_available": 0 if self._store_trouble else 1,
            "isolation_level": int(parts.isolation.level),
            "isolation_minimum": int(parts.isolation.wanted),
            "sysid_remaining_seconds": (seen.sysid_until_ms - now_ms) / 1000,
            "sysid_lease_seconds": sysid_lease_s(settings),
            "longest_step_seconds": max(shared.progress.longest_s(), stats.writing_s),
            "consumers_led": parts.consumers.led,
            "consumers_blocked": parts.consumers.blocks,
            "paused": int(parts.executor.is_paused),
            **parts.egress.gauges(),
            **parts.workers.gauges(),
            **parts.peers.gauges(),
            **{f"runner_{name}": value for name, value in parts.runner.gauges().items()},
        }

    def info(self) -> DaemonInfo:
        wake_at, wake_key = self._parts.peers.published
        return DaemonInfo(
            version=functory.__version__,
            host=socket.gethostname(),
            pid=os.getpid(),
            role=self._settings.role,
            isolation=self._parts.isolation.level.name,
            languages=sorted(self._parts.languages.able),
            unable=dict(self._parts.languages.unable),
            no_packages=self._parts.packages.all_unavailable(),
            problems=self.health().problems,
            journal_backlog_bytes=self._parts.shared.journal.stats().backlog_bytes,
            gauges=self.gauges(),
            wake_at=wake_at,
            wake_key=wake_key,
        )

    @property
    def _store_trouble(self) -> str:
        return (
            self._parts.joining.trouble
            or self._parts.intake.trouble
            or next(iter(self.seen.store_troubles.values()), "")
        )
