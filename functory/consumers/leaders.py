"""The consumers that this daemon leads: takes the lead, keeps it, and gives it up.

One daemon leads a consumer at a time, by a lease with a token in the store. A leader that dies is replaced when its
lease has lapsed; one that stops resigns at once. Nothing that goes wrong with one consumer ends this loop, or another
consumer: it begins again from what the store says. The loop never waits for a consumer that ends: only its own
successor does.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from functory.consumers.led_consumer import LedConsumer, OutOfStep, Surroundings
from functory.consumers.look_pace import LookPace
from functory.consumers.pull import Ask
from functory.consumers.terms import terms_from
from functory.execution.endings import Ending, Recorded
from functory.loops.shared import Shared
from scheduler.errors import SchedulerError
from scheduler.retry import RetryPolicy
from store.base import Archive, ConsumerRecord, Discard, Finish, IndexEnd, ReleaseReport
from store.errors import Conflict, NotFound, StoreError, StoreUnavailable
from store.names import MAX_BATCH
from vocabulary.names import jobtype_of, tenant_of

log = logging.getLogger("functory.consumers")

_PAUSE_S: Final = 0.02
"""Between two looks for new jobs, however often somebody says that there are some."""

Key = tuple[str, str]
"""Tenant and name."""


class LeaderSettings(NamedTuple):
    lease_s: float
    poll_s: float
    retry: RetryPolicy


Admit = Callable[[str, bytes], Awaitable[None]]


class ConsumerLeaders:
    """Implements `operations.protocols.Consumers`."""

    def __init__(
        self,
        shared: Shared,
        settings: LeaderSettings,
        ask: Ask,
        admit: Admit,
        listeners: Sequence[Callable[[Iterable[str]], None]],
        refresh_tenants: Callable[[], Awaitable[None]],
    ) -> None:
        """listeners: to be told the types of jobs that have entered the queue. refresh_tenants: awaited before a
        consumer is led that may be of another tenant than the one that is known by its name."""
        self._shared = shared
        self._settings = settings
        pace = LookPace(shared.clock)
        self._around = Surroundings(shared, settings.retry, self._queued, self._moved, ask, admit, pace)
        self._listeners = listeners
        self._refresh_tenants = refresh_tenants
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._records: dict[Key, ConsumerRecord] = {}
        """As they were when their tasks began."""
        self._ending: dict[asyncio.Task[None], ConsumerRecord] = {}
        """Told to end, and not over."""
        self._led: dict[str, LedConsumer] = {}
        """By jobtype."""
        self._woken = asyncio.Event()
        self._wants_renewal = False

    # For other parts

    def changed(self) -> None:
        """Consumers were made, changed, started, stopped or deleted here: see to it now."""
        self._wants_renewal = True
        self._woken.set()

    def check(self, tenant: str, name: str) -> bool:
        """There may be new jobs. False if another daemon leads it: that one looks by itself in a moment."""
        for led in self._led.values():
            if led.record[:2] == (tenant, name):
                led.tick()
                return True
        return False

    def added(self, jobtypes: Iterable[str]) -> None:
        """Jobs of these types were added to the store."""
        if self._led:
            for jobtype in jobtypes:
                if (led := self._led.get(jobtype)) is not None:
                    led.consumer.check()

    def told(self, jobtypes: Iterable[str]) -> None:
        """Jobs of these types were added or have ended on another daemon."""
        for jobtype in jobtypes if self._led else ():
            if (led := self._led.get(jobtype)) is not None:
                led.tick()

    def wake(self) -> None:
        """Jobs of any type may have been added."""
        if self._led:
            self._woken.set()

    def released(self, endings: Sequence[Ending]) -> None:
        """The outbox has delivered these, with the jobs that they asked for."""
        for job, _, wanted in endings if self._led else ():
            self.added({jobtype_of(tenant_of(job.jobtype), one.type) for one in wanted})

    def recorded(self, endings: Sequence[Recorded], report: ReleaseReport) -> None:
        """The store has taken these. A job that waits for its children is not over, nor is one whose run came late."""
        if not self._led:
            return
        not_over = {*report.stale, *report.paused}
        for job, release, _ in endings:
            led = self._led.get(job.jobtype) if job.seq is not None and job.id not in not_over else None
            if led is not None and job.seq is not None and isinstance(release, Archive | Finish | Discard):
                led.ended(IndexEnd(job.seq, job.id, release.outcome.code))

    @property
    def led(self) -> int:
        """How many consumers this daemon leads."""
        return len(self._tasks)

    @property
    def blocks(self) -> int:
        """How many of them are blocked by an index that did not end well."""
        return sum(1 for led in self._led.values() if led.blocks)

    def _queued(self, jobtype: str) -> None:
        for listener in self._listeners:
            listener([jobtype])

    def _moved(self, jobtype: str) -> None:
        """A stage before it may have waited for this."""
        for led in self._led.values():
            if led.terms.next_type and jobtype_of(led.record.tenant, led.terms.next_type) == jobtype:
                led.consumer.check()

    # The loop

    async def run(self) -> None:
        """Run until cancelled."""
        renew_s = self._settings.lease_s / 3
        renewed_s = -renew_s
        is_time = True
        try:
            while True:
                self._woken.clear()
                now_s = self._shared.clock.monotonic_s()
                if self._wants_renewal or now_s - renewed_s >= renew_s:
                    self._wants_renewal, renewed_s = False, now_s
                    await self._renew()
                await self._look(is_time=is_time)
                await asyncio.sleep(_PAUSE_S)
                is_time = await self._is_time()
        finally:
            self._give_up(list(self._tasks))
            await asyncio.gather(*self._ending, return_exceptions=True)

    async def _is_time(self) -> bool:
        """Wait for news, or for the next poll. True: it was the poll."""
        try:
            async with asyncio.timeout(self._settings.poll_s):
                await self._woken.wait()
        except TimeoutError:
            return True
        return False

    async def _look(self, *, is_time: bool) -> None:
        """One read tells which of all consumers have new jobs: those that have nothing to do cost no more than that."""
        all_led = list(self._led.values())
        for start in range(0, len(all_led), MAX_BATCH):
            some = all_led[start : start + MAX_BATCH]
            try:
                with self._shared.progress.step("consumers"):
                    numbers = await self._shared.store.get_last_numbers([led.jobtype for led in some])
            except StoreUnavailable:
                return  # their own looks say so
            for led, number in zip(some, numbers, strict=True):
                if is_time and not led.has_nothing_to_do:
                    led.tick()
                elif number != led.last_number:
                    led.consumer.check()

    async def resign(self) -> None:
        """Let others lead at once. For a daemon that stops, after `run` was cancelled."""
        with suppress(StoreError):  # then its lease lapses
            await self._shared.store.resign_consumers(self._shared.owner)

    async def _renew(self) -> None:
        lease_ms = round(self._settings.lease_s * 1000)
        store, now_ms = self._shared.store, self._shared.clock.now_ms
        try:
            with self._shared.progress.step("consumers"):
                records = await store.lead_consumers(self._shared.owner, lease_ms=lease_ms, now_ms=now_ms())
                await self._finish_deleting()
        except StoreUnavailable as error:
            log.warning("consumers.store_unavailable", extra={"reason": str(error)})
            return
        mine: dict[Key, ConsumerRecord] = {(record.tenant, record.name): record for record in records}
        changed = [key for key in self._tasks if not _is_same(mine.get(key), self._records[key])]
        self._give_up([*changed, *(key for key, task in self._tasks.items() if task.done())])
        new = self._without_predecessor([item for item in mine.items() if item[0] not in self._tasks])
        if new and await self._knows_tenants():
            for key, record in new:
                self._records[key] = record
                self._tasks[key] = asyncio.create_task(self._lead(record), name=f"consumer {record.name}")

    async def _knows_tenants(self) -> bool:
        try:
            await self._refresh_tenants()
        except StoreUnavailable as error:  # the next renewal tries again
            log.warning("consumers.store_unavailable", extra={"reason": str(error)})
            return False
        return True

    async def _finish_deleting(self) -> None:
        """What a daemon that died has begun. A step for each; the next renewal makes another."""
        for record in await self._shared.store.list_consumers():
            if record.is_ending:
                with suppress(NotFound):
                    await self._shared.store.end_consumer(
                        record.tenant, record.name, now_ms=self._shared.clock.now_ms(), only_ending=True
                    )

    def _give_up(self, keys: Iterable[Key]) -> None:
        """Tell these to end. Who is over is forgotten at once."""
        for key in keys:
            if (task := self._tasks.pop(key, None)) is not None:
                record = self._records.pop(key)
                if task.cancel():
                    self._ending[task] = record
                    task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._ending[task]
        self.changed()

    def _without_predecessor(self, new: list[tuple[Key, ConsumerRecord]]) -> list[tuple[Key, ConsumerRecord]]:
        """Without those whose name or type one has that is still ending: `changed` comes when that is over."""
        names = {old[:2] for old in self._ending.values()}
        types = {old.jobtype for old in self._ending.values()}
        return [(key, record) for key, record in new if key not in names and record.jobtype not in types]

    async def _lead(self, record: ConsumerRecord) -> None:
        """Lead until the lead is lost. What goes wrong costs a pause, and a new beginning."""
        details = {"tenant": record.tenant, "consumer": record.name}
        log.info("consumer.leading", extra={**details, "token": record.token})
        current: ConsumerRecord | None = record
        while current is not None and current.token == record.token:
            pause_s = self._settings.poll_s
            try:
                await self._lead_once(current)
            except Conflict:
                break
            except OutOfStep as error:
                log.warning("consumer.out_of_step", extra={**details, "reason": str(error)})
                pause_s = 0
            except (StoreError, SchedulerError, msgspec.MsgspecError) as error:
                log.warning("consumer.interrupted", extra={**details, "reason": str(error)})
            except Exception:
                log.exception("consumer.failed", extra=details)
            await asyncio.sleep(pause_s)
            with suppress(StoreUnavailable):
                current = await self._shared.store.get_consumer(record.tenant, record.name)
        log.info("consumer.left", extra=details)

    async def _lead_once(self, record: ConsumerRecord) -> None:
        led = LedConsumer(self._around, record, terms_from(record.settings))
        self._led[record.jobtype] = led
        try:
            await led.lead()
        finally:
            del self._led[record.jobtype]


def _is_same(new: ConsumerRecord | None, old: ConsumerRecord) -> bool:
    return new is not None and (new.token, new.settings) == (old.token, old.settings)
