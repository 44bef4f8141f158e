"""One daemon, from start to stop: opens the parts, runs their loops, and closes everything in the right order.

Start: the store, a sysid, the journal (which locks and recovers its directory), the sandbox's self-test, then listen.
Stop: no more intake, running batches finish for a while, the rest is given back, outcomes and lines are flushed, the
sysid is released. A second request to stop hurries. Any loop that ends on its own takes the daemon down: half alive is
worse than gone, because a supervisor restarts what is gone.
"""

import asyncio
import logging
import os
import random
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import functory
from functory.backlog import Backlog
from functory.backup.layout import require_whole
from functory.config import Settings
from functory.courtesy import Courtesy
from functory.endings import Waiters
from functory.errors import DaemonFailed
from functory.execute import Execute
from functory.ingest import Ingest
from functory.isolation import Isolation, choose_isolation
from functory.joblog import JobLog
from functory.outbox import Ending, Outbox
from functory.progress import Progress
from functory.seams import Health
from functory.tenantbook import TenantBook
from functory.upkeep import Upkeep
from functory.workbench import Workbench
from handlers.languages import LANGUAGES
from journal import Clock, Journal, JournalOptions, Position, SystemClock
from runner.pool import PoolSettings
from runner.runner import Runner, RunnerSettings
from scheduler import SchedulerOptions, make_policy
from scheduler.retry import RetryPolicy
from store.base import Archive, Store
from store.errors import StoreUnavailable
from store.url import open_store

log = logging.getLogger("functory.daemon")

_SYSID_LEASES = 4
_STALLED_S = 150.0
"""A loop that is in one step for longer makes the daemon not live: over twice what a call to the store may take."""


class Daemon:
    """Implements `functory.seams.Control`."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock: Clock = clock or SystemClock()
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._is_stopping = False
        self._is_paused = False
        self._started_s = self.clock.monotonic_s()
        self._progress = Progress(self.clock.monotonic_s)
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        """Bring every part up. Whatever fails, what was opened is closed again."""
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise
        log.info("daemon.started", extra={"sysid": self.sysid, "isolation": self._isolation.level.name})

    async def _open(self) -> None:
        settings = self.settings
        await asyncio.to_thread(settings.data_dir.mkdir, mode=0o700, parents=True, exist_ok=True)
        await asyncio.to_thread(require_whole, settings.data_dir)
        self.store = await self._stack.enter_async_context(open_store(settings.store_url))
        await self._take_sysid(self.store)
        reader = await asyncio.to_thread(_identity, settings.journal_dir)
        position = await self.store.get_journal_position(reader)
        self.journal = await self._stack.enter_async_context(
            Journal(
                settings.journal_dir,
                self.sysid,
                JournalOptions(
                    segment_bytes=settings.journal_segment_bytes,
                    max_backlog_bytes=settings.journal_backlog_bytes,
                    min_free_bytes=settings.journal_min_free_bytes,
                    sync_cursor=False,  # the store keeps the position, with the jobs
                ),
                clock=self.clock,
                read_from=Position(int(position.segment), position.offset, position.line) if position else None,
            )
        )
        self._isolation: Isolation = await choose_isolation(settings)
        self._languages = frozenset() if settings.role == "api" else await asyncio.to_thread(_languages)
        pool = PoolSettings(max_contexts=settings.max_contexts, max_memory_bytes=settings.max_contexts_memory_bytes)
        self._runner = Runner(self._isolation.launcher, RunnerSettings(pool=pool))
        await self._runner.start()
        self._stack.push_async_callback(self._runner.close)
        self._wire(reader)
        await self._refresh_tenants()
        await self._upkeep.measure_disk()
        await self._upkeep.renew_sysid()  # so that the others see from the start what this one is

    def _wire(self, reader: str) -> None:
        settings, store, journal, clock = self.settings, self.store, self.journal, self.clock
        joblog = JobLog(lambda text: os.write(2, text.encode()), settings.log_style) if settings.log_jobs else None
        self.endings = Waiters(settings.poll_s)
        self.tenants = TenantBook(store)
        self._policy = make_policy(settings.policy, SchedulerOptions(slots=settings.slot_count), random.random)
        courtesy = Courtesy(clock)
        self._backlog = Backlog(
            journal, store, clock, on_added=self._on_added, progress=self._progress, courtesy=courtesy, joblog=joblog
        )
        self._outbox = Outbox(
            store,
            self._backlog,
            clock,
            owner=self.sysid,
            on_released=self._on_released,
            progress=self._progress,
            courtesy=courtesy,
            joblog=joblog,
        )
        self.execute = Execute(
            store,
            self._runner,
            self._policy,
            self._outbox,
            self.tenants,
            clock,
            owner=self.sysid,
            lease_s=settings.lease_s,
            poll_s=settings.poll_s,
            retry=RetryPolicy(
                base_s=settings.retry_base_s,
                max_s=settings.retry_max_s,
                max_attempts=settings.max_attempts,
                window_s=settings.retry_window_s,
            ),
            progress=self._progress,
            courtesy=courtesy,
            joblog=joblog,
        )
        self.intake = Ingest(
            journal,
            store,
            clock,
            backlog=self._backlog,
            reader=reader,
            rejects=settings.data_dir / "rejected.jsonl",
            on_added=self._on_added,
            progress=self._progress,
            courtesy=courtesy,
            joblog=joblog,
        )
        self.bench = Workbench(self._runner, self.tenants.of, self._isolation.refusal)
        self._upkeep = Upkeep(
            store,
            self.execute,
            self._runner,
            journal,
            clock,
            sysid=self.sysid,
            refresh_tenants=self._refresh_tenants,
            info=self._info,
            on_paused=self._set_paused,
            lease_s=settings.lease_s,
            sysid_lease_s=_SYSID_LEASES * settings.lease_s,
            poll_s=settings.poll_s,
            stuck_s=settings.stuck_s,
            keep_done_s=settings.keep_done_s,
            keep_waiting_s=settings.keep_waiting_s,
            progress=self._progress,
        )

    async def _take_sysid(self, store: Store) -> None:
        daemon = await store.reserve_sysid(
            info="{}", lease_ms=round(_SYSID_LEASES * self.settings.lease_s * 1000), now_ms=self.clock.now_ms()
        )
        self.sysid = daemon.sysid

        async def release() -> None:
            with suppress(StoreUnavailable):
                await store.release_sysid(daemon.sysid)

        self._stack.push_async_callback(release)

    async def close(self) -> None:
        """Undo `open`, for a daemon that was never run."""
        await self._stack.aclose()

    async def run(self, before_stop: Callable[[], Awaitable[None]] | None = None) -> None:
        """Until `quit`. Raises DaemonFailed when a part ended that must not. `before_stop` ends the intake."""
        self._start_loop("ingest", self.intake.run())
        self._start_loop("backlog", self._backlog.run())
        self._start_loop("outbox", self._outbox.run())
        self._start_loop("upkeep", self._upkeep.run())
        if self.settings.role != "api" and not self._isolation.refusal:
            self._start_loop("execute", self.execute.run())
        stop = asyncio.create_task(self._stop.wait(), name="stop")
        try:
            done, _ = await asyncio.wait([*self._tasks, stop], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
        failed = [task for task in done if task is not stop]
        self._is_stopping = True
        await self._wind_down(before_stop, orderly=not failed)
        for task in failed:
            raise DaemonFailed(f"the {task.get_name()} loop ended: {task.exception()!r}") from task.exception()

    async def _refresh_tenants(self) -> None:
        self._policy.set_tenants(await self.tenants.refresh())

    def _start_loop(self, name: str, loop: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(loop, name=name))

    async def _wind_down(self, end_intake: Callable[[], Awaitable[None]] | None, *, orderly: bool) -> None:
        log.info("daemon.stopping", extra={"sysid": self.sysid})
        intake_ends = asyncio.ensure_future(end_intake()) if end_intake else None
        if orderly:
            await self._unless_hurried(self.execute.stop(self.settings.grace_s))
            await self.execute.stop(0)
        if intake_ends is not None:
            await intake_ends
        if orderly:
            await self._unless_hurried(self._flush())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()
        log.info("daemon.stopped", extra={"sysid": self.sysid})

    async def _flush(self) -> None:
        """Outcomes and lines into the store, if it takes them within the grace period."""
        with suppress(TimeoutError, StoreUnavailable):
            async with asyncio.timeout(self.settings.grace_s):
                await self._outbox.empty()
                await self.intake.flush()

    async def _unless_hurried(self, step: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(step)
        hurry = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait([task, hurry], return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _on_released(self, endings: Sequence[Ending]) -> None:
        self.execute.released(endings)
        self.endings.announce(release.id for _, release, _ in endings if isinstance(release, Archive))

    # What the web asks (functory.seams.Control)

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    def pause(self) -> None:
        self._set_paused(True)

    def resume(self) -> None:
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        if paused != self._is_paused:
            log.warning("daemon.paused" if paused else "daemon.resumed", extra={"sysid": self.sysid})
        self._is_paused = self.execute.is_paused = paused
        self.execute.wake()

    def quit(self) -> None:
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    def wake(self) -> None:
        self.execute.wake()

    def _on_added(self, jobtypes: Iterable[str]) -> None:
        self.execute.added(jobtypes)

    def health(self) -> Health:
        stalled = self.stalled(_STALLED_S)
        problems = {
            "stalled": f"no progress in {', '.join(stalled)}" if stalled else "",
            "journal": self.journal.stats().trouble,
            "store": self._store_trouble,
            "isolation": self._isolation.refusal,
            "stuck": f"no claim for {', '.join(self._upkeep.stuck[:10])}" if self._upkeep.stuck else "",
            "stopping": "the daemon is stopping" if self._is_stopping else "",
        }
        problems = {name: text for name, text in problems.items() if text}
        return Health(
            is_live=not stalled,
            is_ready=not problems.keys() & {"journal", "stopping"},
            isolation=self._isolation.level.name,
            problems=problems,
        )

    def stalled(self, longer_than_s: float) -> list[str]:
        """The loops that are in one step for longer than that."""
        journal = ["journal"] if self.journal.stats().writing_s > longer_than_s else []
        return journal + self._progress.stalled(longer_than_s)

    @property
    def _store_trouble(self) -> str:
        return self.intake.trouble or self._upkeep.trouble

    def gauges(self) -> dict[str, float]:
        stats = self.journal.stats()
        now_ms = self.clock.now_ms()
        return {
            "uptime_seconds": self.clock.monotonic_s() - self._started_s,
            "slots": self.settings.slot_count,
            "slots_free": self.execute.free_slots,
            "jobs_claimed_total": self.execute.claimed,
            "leases_held": self.execute.leases_held,
            "leases_expired_total": self._upkeep.expired_leases,
            "leases_lost_total": self._upkeep.lost_leases,
            "outcomes_stale_total": self._outbox.stale,
            "jobtypes_stuck": len(self._upkeep.stuck),
            "journal_is_writable": 0 if stats.trouble else 1,
            "journal_lag_seconds": self.intake.lag_ms(now_ms) / 1000,
            "journal_disk_free_bytes": self._upkeep.journal_free_bytes,
            "journal_min_free_bytes": self.settings.journal_min_free_bytes,
            "store_is_available": 0 if self._store_trouble else 1,
            "isolation_level": int(self._isolation.level),
            "isolation_minimum": int(self._isolation.wanted),
            "sysid_remaining_seconds": (self._upkeep.sysid_until_ms - now_ms) / 1000,
            "sysid_lease_seconds": _SYSID_LEASES * self.settings.lease_s,
            "longest_step_seconds": max(self._progress.longest_s(), stats.writing_s),
            "paused": int(self._is_paused),
            **{f"runner_{name}": value for name, value in self._runner.gauges().items()},
        }

    def hold(self, jobtype: str) -> str:
        return self.execute.hold(jobtype)

    def languages(self) -> frozenset[str]:
        return self._languages

    def _info(self) -> dict[str, Any]:
        """What this daemon tells the others about itself."""
        return {
            "version": functory.__version__,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "role": self.settings.role,
            "isolation": self._isolation.level.name,
            "languages": sorted(self._languages),
            "problems": self.health().problems,
            "journal_backlog_bytes": self.journal.stats().backlog_bytes,
            "gauges": self.gauges(),
        }


def _identity(directory: Path) -> str:
    """The name under which the store keeps this journal's position: made once, and kept with the journal."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / "identity"
    with suppress(FileExistsError), path.open("x") as file:
        file.write(secrets.token_hex(8))
    return path.read_text()


def _languages() -> frozenset[str]:
    """Those whose programs are on this machine."""
    return frozenset(name for name, language in LANGUAGES.items() if language.missing() is None)
