"""One daemon, from start to stop: opens the parts, runs their loops, and closes everything in the right order.

Start: the parts (parts.py), one look at tenants and disk, one renewal of the sysid; then `run`. If the store is away,
the daemon takes jobs into its journal, and joins when it comes (joining.py).

Stop: running batches get time to finish and the rest is given back, while jobs are still taken into the journal, for
whoever runs them next. Then intake ends, outcomes and lines are flushed, and the sysid is released. A second request to
stop shortens the waits. A loop that ends on its own takes the daemon down: a daemon that is half alive is worse than
none, because a supervisor restarts one that is gone.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from functory.config import Settings
from functory.daemon.alert_watch import AlertWatch
from functory.daemon.hearing import Hearing
from functory.daemon.joining import sysid_lease_s
from functory.daemon.left_journals import LeftJournals
from functory.daemon.parts import open_parts
from functory.daemon.service import service_of
from functory.daemon.upkeep import Upkeep
from functory.daemon.vitals import Vitals
from functory.errors import DaemonFailed
from functory.loops.job_mark import mark_of
from functory.operations.protocols import Health
from functory.peers.news import Look
from runner.glimpse import Glimpse
from store.errors import StoreError, StoreUnavailable
from vocabulary.clock import Clock, SystemClock

log = logging.getLogger("functory.daemon")


class Daemon:
    """Implements `operations.protocols.Control`."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None, beside: Path | None = None) -> None:
        """beside: a folder of data directories of daemons that come and go, of this store and others; lines that one of
        this store left there are moved."""
        self.settings = settings
        self._beside = beside
        self.clock: Clock = clock or SystemClock()
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()
        self._joined: Callable[[], Awaitable[None]] = _nothing

    async def open(self) -> None:
        """Open every part. If one fails, those before it are closed again. Raises NotEmpty if the data directory is one
        of several, and has a journal of another store."""
        try:
            self._parts = parts = await open_parts(
                self.settings, self.clock, self._stack, is_shared=self._beside is not None
            )
            self.sysid, self.store, self.journal = parts.shared.owner, parts.shared.store, parts.shared.journal
            self.intake, self.executor, self.outbox = parts.intake, parts.executor, parts.outbox
            self.waiters, self.admission = parts.waiters, parts.admission
            self.handlers, self.trial_runs = parts.handlers, parts.trial_runs
            self.straight, self.workers, self.consumers = parts.straight, parts.workers, parts.consumers
            self.vault, self.packages, self.egress = parts.vault, parts.packages, parts.egress
            self.left_journals = LeftJournals(self.settings, parts, self.wake, self._beside)
            self.vitals = Vitals(self.settings, parts, lambda: self.left_journals.trouble)
            self.upkeep = Upkeep(self.settings, parts, self.vitals, self._alert_watch())
            await self.upkeep.measure_disk()
            await self._listen(Hearing(parts, self.upkeep))
            if not parts.joining.trouble:
                await self._appear()
        except BaseException:
            await self._stack.aclose()
            raise
        log.info("daemon.started", extra={"sysid": self.sysid, "isolation": parts.isolation.level.name})

    def _alert_watch(self) -> AlertWatch:
        beat = partial(self._parts.shared.progress.beat, "look_at_alerts")
        return AlertWatch(service_of(self), self.clock, sysid_lease_s(self.settings), beat)

    async def _listen(self, hearing: Hearing) -> None:
        self.hearing = hearing
        await self._parts.peers.open(self.settings.wake, self.settings.store_url, hearing.hear)
        self._stack.callback(self._parts.peers.close)
        self._stack.callback(self._parts.announcer.close)
        self.intake.hold_off(self._parts.joining.trouble)

    async def _appear(self) -> None:
        """Know the tenants, and be there for the other daemons of the store."""
        await self.executor.refresh_tenants()
        await self.upkeep.renew_sysid()
        await self._parts.peers.refresh()
        self._parts.announcer.tell(Look.DAEMONS)

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    async def stopping_within(self, seconds: float) -> None:
        """Return when it is asked to stop, or when the time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()

    async def close(self) -> None:
        """Undo `open`. For a daemon that was never run."""
        await self._stack.aclose()

    async def run(
        self, end_intake: Callable[[], Awaitable[None]] | None = None, when_stopping: Callable[[], None] | None = None
    ) -> None:
        """Run until `quit`. Raises DaemonFailed when a loop ends that must not."""
        self._start_loop("ingest", self._ingest())
        self._start_loop("left journals", self.left_journals.run())
        self._start_loop("outbox", self.outbox.run())
        self._start_loop("workers", self.workers.run())
        self._start_loop("upkeep", self.upkeep.run())
        self._start_loop("consumers", self.consumers.run())
        self._start_loop("peers", self.hearing.run())
        self._start_loop("due", self._parts.alarm.run())
        if self.settings.role != "api" and not self._parts.isolation.refusal:
            self._start_loop("execute", self.executor.run())
        stop = asyncio.create_task(self._stop.wait(), name="stop")
        try:
            done, _ = await asyncio.wait([*self._tasks, stop], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
        failed = [task for task in done if task is not stop]
        self.vitals.is_stopping = True
        if when_stopping is not None:
            when_stopping()
        await self._wind_down(end_intake, orderly=not failed)
        for task in failed:
            raise DaemonFailed(f"the {task.get_name()} loop ended: {task.exception()!r}") from task.exception()

    async def _ingest(self) -> None:
        """Lines are read once the store has said how far they were: at once, unless it is away."""
        if self._parts.joining.trouble:
            await self._parts.joining.join(self.journal, self.intake.reader)
            self.intake.hold_off("")
            with suppress(StoreUnavailable):  # upkeep does it again
                await self._appear()
            self.wake()
            await self._joined()
        await self.intake.run()

    def when_joined(self, listener: Callable[[], Awaitable[None]]) -> None:
        """Awaited when the store was away at the start and is there. Not if it was there from the start."""
        self._joined = listener

    @property
    def is_away(self) -> bool:
        """Whether the store is not there yet."""
        return bool(self._parts.joining.trouble)

    def _start_loop(self, name: str, loop: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(loop, name=name))

    async def _wind_down(self, end_intake: Callable[[], Awaitable[None]] | None, *, orderly: bool) -> None:
        log.info("daemon.stopping", extra={"sysid": self.sysid})
        if orderly:
            await self._unless_hurried(self.executor.stop(self.settings.grace_s))
            await self.executor.stop(0)
        self.workers.stop()
        self.waiters.close()
        if end_intake is not None:
            await end_intake()
        if orderly:
            await self._unless_hurried(self._flush())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._parts.straight.close()
        await self.consumers.resign()
        await self._stack.aclose()
        log.info("daemon.stopped", extra={"sysid": self.sysid})

    async def _flush(self) -> None:
        """Write outcomes and lines to the store, if it takes them within the grace period."""
        with suppress(TimeoutError, StoreError):
            async with asyncio.timeout(self.settings.grace_s):
                await self.outbox.empty()
                await self.workers.empty()
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

    # What the web asks (operations.protocols.Control)

    @property
    def is_paused(self) -> bool:
        return self.executor.is_paused

    def pause(self) -> None:
        self.executor.set_paused(paused=True)
        self.workers.set_paused(paused=True)

    def resume(self) -> None:
        self.executor.set_paused(paused=False)
        self.workers.set_paused(paused=False)

    def quit(self) -> None:
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    def cancel_run(self, tenant: str, job_id: str) -> bool:
        return self._parts.runner.cancel(tenant, job_id)

    def glimpse(self, tenant: str, job_id: str, offset: int = 0) -> Glimpse | None:
        glimpse = self._parts.runner.glimpse(tenant, job_id, offset)
        return self.workers.glimpse(tenant, job_id, offset) if glimpse is None else glimpse

    async def meet_tenant(self, name: str, created_ms: int) -> None:
        await self.executor.meet_tenants({name: created_ms})

    async def tenants_changed(self) -> None:
        await self.executor.refresh_tenants()
        self.executor.changed()
        self.workers.changed()
        self._parts.announcer.tell(Look.TENANTS | Look.KEYS)

    def wake(self) -> None:
        self.executor.wake()
        self.workers.wake()
        self.consumers.wake()
        self._parts.alarm.ask()
        self._parts.announcer.tell(Look.JOBS)

    def types_changed(self, tenant: str) -> None:
        self.executor.changed(tenant)
        self.workers.changed(tenant)
        self._parts.announcer.changed(tenant)

    def cancelled(self, job_id: str) -> None:
        self.waiters.ended((mark_of(job_id),))
        self.workers.cancelled(job_id)
        self._parts.announcer.cancelled(job_id)

    async def worker_left(self, tenant: str, name: str) -> None:
        if self._parts.peers.others:
            with suppress(StoreUnavailable):  # then the leases lapse
                mark = mark_of(name)
                await self.workers.keep_goodbye(tenant, mark, name)
                self._parts.announcer.left(tenant, mark)

    def consumers_changed(self) -> None:
        self._parts.announcer.tell(Look.CONSUMERS)

    def daemons_changed(self) -> None:
        self._parts.announcer.tell(Look.PAUSES)

    def keys_changed(self) -> None:
        self._parts.announcer.tell(Look.KEYS)

    def health(self) -> Health:
        return self.vitals.health()

    def gauges(self) -> dict[str, float]:
        return self.vitals.gauges()

    def egress_by_tenant(self) -> dict[str, dict[str, float]]:
        return self.egress.by_tenant()

    def hold(self, jobtype: str) -> str:
        return self.executor.hold(jobtype)

    def unreadable(self, jobtype: str) -> str:
        return self.executor.unreadable(jobtype)

    def languages(self) -> frozenset[str]:
        return self._parts.languages.able

    def language_trouble(self, lang: str) -> str:
        return self._parts.languages.unable.get(lang, "")


async def _nothing() -> None: ...
