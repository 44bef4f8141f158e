"""Moves lines from the journal to the store: every line exactly once, in bulk, as soon as it is written.

Ensures: a line leaves the journal only after the store has it. When the store cannot be reached, lines stay in the
journal and are tried again; nothing is dropped, and intake goes on until the journal's own limit. The same holds when
the disk does not give them back. A line that the store refuses for good is set aside in a file, with the reason, so
that it does not hold up the others.
"""

import asyncio
import base64
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from functory.intake.backlog import Backlog
from functory.intake.flushes import Flushes
from functory.intake.former_tenants import APART_MS, lines_of_former_tenants
from functory.intake.held_lines import HeldLine
from functory.intake.job_options import to_new_job, to_new_jobs
from functory.intake.open_reservation import Open
from functory.intake.passed_lines import PassedLines
from functory.loops.courtesy import LONG_STEP
from functory.loops.shared import Shared
from journal import JournalUnavailable, Position, Record, Reservation, parse_id
from journal.durable import append_durably
from store.base import JournalPosition, NewJob
from store.errors import StoreUnavailable
from vocabulary.columns import fields, take_out
from vocabulary.names import tenant_of

log = logging.getLogger("functory.ingest")

_ID, _JOBTYPE, _PAYLOAD = fields(Record, "id"), fields(Record, "jobtype"), fields(Record, "payload")
_ATTRIBUTES: Final = fields(Record, "attributes")

_SOME_LINES: Final = range(4, 50)
_GATHER_S: Final = 0.003
"""After a step with this many lines, which came one by one, wait this long before the next: many lines cost little more
in a transaction than one. After fewer lines there is no wait, because somebody may be waiting for a single job."""
_PASS_BY_S: Final = 0.05
"""Lines on the straight way only need to be passed by, and lines of types that nobody runs only need to be kept. Both
are cheaper for many than for each. So while there are no others, the next look comes after this time."""
_RESERVATION_S: Final = 86_400.0
"""This is the only reader, and it gives lines back when it fails. Lines on the straight way can take their time."""
_KEEP_AFTER_S: Final = 1.0
"""How long the position in the store may lag behind the lines. A crash repeats these, and their ids are known."""
_FOLLOW_MS: Final = 10_000
"""Lines that have waited for longer go to the store, where other daemons and all counters see them."""
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
"""Longest pause between two tries of a store that cannot be reached, or of a disk; so this long may pass before anybody
notices that it is back."""


class JournalReader:
    def __init__(self, shared: Shared, backlog: Backlog, lines: PassedLines, *, rejects: Path) -> None:
        """rejects: where refused lines are set aside."""
        self._backlog = backlog
        self._journal = shared.journal
        self._store = shared.store
        self._clock = shared.clock
        self._progress = shared.progress
        self._courtesy = shared.courtesy
        self._job_log = shared.job_log
        self._lines = lines
        self._rejects = rejects
        self._listeners: list[Callable[[Iterable[str]], None]] = []
        self._deferred_listeners: list[Callable[[], None]] = []
        self._open_of: dict[str, Open] = {}
        """By id of a line on the straight way that was read."""
        self._kept: JournalPosition | None = None
        """What the store has for sure."""
        self._kept_point: Position | None = None
        self._keeping: asyncio.TimerHandle | None = None
        self._keeping_task: asyncio.Task[None] | None = None
        self._last_tenant = ""
        """The tenant of the last line of the last batch: most likely the next lines are of the same tenant."""
        self._flushes = Flushes()
        self._in_hand: Reservation | None = None
        self._hurry = asyncio.Event()
        self._is_wanted = asyncio.Event()
        backlog.when_in_line(self._is_wanted.set)
        self.trouble = ""
        """Why the store does not take lines now; empty when it does."""
        self._oldest_ms: int | None = None
        """When the oldest line of the last batch was written; None when nothing waits for the reader."""

    def when_added(self, listener: Callable[[Iterable[str]], None]) -> None:
        self._listeners.append(listener)

    def when_deferred(self, listener: Callable[[], None]) -> None:
        self._deferred_listeners.append(listener)

    def lag_ms(self, now_ms: int) -> int:
        """Age of the oldest line that is not in the store."""
        if self._oldest_ms is None or self._journal.read_point >= self._journal.write_point:
            return 0
        return max(0, now_ms - self._oldest_ms)

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            await self._read_on()
        finally:
            if self._keeping is not None:
                self._keeping.cancel()
            if self._keeping_task is not None:
                self._keeping_task.cancel()

    async def _read_on(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            await self._journal.readable()
            await self._until_wanted()
            await self._until_room()
            lines = self._courtesy.step(self._last_tenant, LONG_STEP)
            try:
                reservation = await self._journal.read_reserve(lines, _RESERVATION_S)
            except JournalUnavailable as error:  # they wait until they can be read: nobody else has them
                self._flushes.fail(str(error))
                pause_s = await _paused(pause_s)
                continue
            if reservation is None:
                self._backlog.all_read()
                self._settle()
                continue
            self._in_hand = reservation
            try:
                with self._progress.step("ingest"):
                    await self._move(reservation)
                self._in_hand = None
            except StoreUnavailable as error:
                await self._journal.read_cancel(reservation)
                self._in_hand = None
                self._fail(error)
                pause_s = await _paused(pause_s)
            except BaseException:
                await self._journal.read_cancel(reservation)
                raise
            else:
                pause_s = _FIRST_PAUSE_S
                if not self._backlog.is_in_line:
                    self._oldest_ms = None
                self._recovered()
                self._settle()
                if reservation.span.lines in _SOME_LINES:
                    await self._let_gather()

    async def flush(self, tenant: str = "") -> None:
        """Wait until the lines acknowledged so far are in the store: all, or those of one tenant.

        Raises StoreUnavailable when the store cannot take them now, or the disk does not give them back.
        """
        with self._flushes.of(tenant):
            await self._backlog.flush_straight(tenant)
            if tenant:
                await self._backlog.landed(tenant)
                if not self._backlog.waits(tenant):
                    return
            target = self._journal.write_point
            if (self._passed if tenant else self._journal.read_point) < target:
                if trouble := self.trouble or self._journal.stats().unreadable:
                    raise StoreUnavailable(trouble)
                done = self._flushes.wait(tenant, target)
                self._hurry.set()
                self._is_wanted.set()
                self._backlog.make_room()
                await done
        if not tenant:
            await self._keep_position()

    @property
    def _passed(self) -> Position:
        """Every line before it is in the store, or on the straight way."""
        point = self._journal.unread_point
        return point if self._in_hand is None else min(point, self._in_hand.span.start)

    # Lines on the straight way

    async def arrived(self, ids: Sequence[str]) -> None:
        """The store has these: the journal lets go of what is complete."""
        self._backlog.arrived(ids)
        opens = dict.fromkeys(take_out(self._open_of, ids))
        for open_ in opens:
            take_out(open_.missing, ids)
        for open_ in opens:
            await self._finish(open_)

    def return_to_line(self, jobs: Sequence[NewJob]) -> None:
        """These take the long way after all: what was read already is read again."""
        self._backlog.return_to_line(jobs, self._open_of)
        for job in jobs if self._open_of else ():
            open_ = self._open_of.get(job.id)
            if open_ is not None and not open_.is_returned:
                open_.is_returned = True
                if open_.is_added:
                    self._give_back(open_)

    def position(self) -> JournalPosition | None:
        """How far everything is in the store, if the store does not know that yet: to be committed with anything."""
        point = self._journal.read_point
        return None if point == self._kept_point else self._lines.at(point)

    def kept(self, position: JournalPosition | None) -> None:
        """The store has it."""
        if position is not None:
            self._kept = position
            self._kept_point = Position(int(position.segment), position.offset, position.line)

    def _give_back(self, open_: Open) -> None:
        for job_id in open_.missing:
            self._open_of.pop(job_id, None)
        self._backlog.unread([job_id for job_id in open_.ids if job_id not in open_.missing], open_.missing)
        self._journal.give_back(open_.reservation)

    async def _finish(self, open_: Open) -> None:
        if open_.missing or not open_.is_added or open_.is_returned:
            return
        open_.is_returned = True  # only once
        try:
            await self._journal.rsync(open_.reservation)
        except JournalUnavailable as error:  # its lines may be read again after a restart, which changes nothing
            log.warning("ingest.position_not_kept", extra={"reason": str(error)})
        self._settle()
        if self._keeping is None and self.position() is not None:
            self._keeping = asyncio.get_running_loop().call_later(_KEEP_AFTER_S, self._keep_later)

    def _keep_later(self) -> None:
        self._keeping = None
        self._keeping_task = asyncio.create_task(self._keep_position())

    async def _keep_position(self) -> None:
        with suppress(StoreUnavailable):  # the next one will do
            await self.keep_position()

    async def keep_position(self) -> None:
        """Also if no line moved it: ids of jobs that are no lines are passed, too. Raises StoreUnavailable."""
        position = self._lines.at(self._journal.read_point, self._journal.passed_id or "")
        if position != self._kept:
            await self._store.add_jobs([], now_ms=self._clock.now_ms(), position=position)
            self.kept(position)

    async def _move(self, reservation: Reservation) -> None:
        records = await self._journal.read(reservation)
        await self._backlog.reach(records)
        self._oldest_ms = parse_id(records[0].id).time_ms
        now_ms = self._clock.now_ms()
        ids = list(map(_ID, records))
        self._lines.read(reservation.span, ids[-1])
        held = self._backlog.held(ids)
        new, follow = self._parted(self._backlog.still_to_add(records), held, now_ms)
        open_ = Open(reservation, ids, held)
        self._open_of.update(dict.fromkeys(open_.missing, open_))
        try:
            if new and self._oldest_ms < now_ms - APART_MS:
                new = await self._still_wanted(new, now_ms)
            await self._add(new, open_, now_ms)
        except BaseException:
            for job_id in open_.missing:
                self._open_of.pop(job_id, None)
            raise
        open_.is_added = True
        self._backlog.read(_without(records, follow))
        if follow:
            self._backlog.follow(follow, now_ms)
        if open_.is_returned:
            self._give_back(open_)
        else:
            await self._finish(open_)
        if self._job_log is not None:
            self._job_log.entered(map(_ID, new), map(_JOBTYPE, new), map(_PAYLOAD, new), now_ms)
        self._last_tenant = tenant_of(records[-1].jobtype)
        if new:
            jobtypes = set(map(_JOBTYPE, new))
            for listener in self._listeners:
                listener(jobtypes)
            for told in self._deferred_listeners if any(map(_ATTRIBUTES, new)) else ():
                told()

    def _parted(
        self, new: Sequence[Record], held: dict[str, HeldLine], now_ms: int
    ) -> tuple[Sequence[Record], Sequence[Record]]:
        """What goes to the store, and what goes the straight way, which is held from now on."""
        if new and parse_id(new[0].id).time_ms >= now_ms - _FOLLOW_MS and not self._flushes.want(new[0].jobtype):
            follow = self._backlog.hold(new)
            held.update(follow)
            if follow:
                return (), new
        return new, ()

    async def _still_wanted(self, new: Sequence[Record], now_ms: int) -> Sequence[Record]:
        """Without the lines of tenants that were deleted, whose names others have now."""
        gone = await lines_of_former_tenants(self._store, new, now_ms)
        if not gone:
            return new
        log.warning("ingest.tenant_deleted", extra={"lines": len(gone), "first": min(gone)})
        return [record for record in new if record.id not in gone]

    async def _add(self, new: Sequence[Record], open_: Open, now_ms: int) -> None:
        """With the position after the reservation, if nothing before it or in it is on the straight way."""
        position = self.position()
        if not open_.missing and self._journal.read_point == open_.reservation.span.start:
            position = self._lines.at(open_.reservation.span.end, open_.ids[-1])
        if not new:
            return  # the position goes with the next that has something to write, or alone a little later
        try:
            await self._store.add_jobs(to_new_jobs(new, now_ms), now_ms=now_ms, position=position)
        except ValueError:  # InvalidValue of the store among them
            await self._add_one_by_one(new, now_ms, position)
        self.kept(position)

    async def _until_wanted(self) -> None:
        """Wait a while if all that can be read is on the straight way, or cannot run."""
        self._is_wanted.clear()
        if not self._backlog.is_urgent and not self._flushes:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PASS_BY_S):
                    await self._is_wanted.wait()

    async def _until_room(self) -> None:
        """Wait while there is enough to start, unless somebody waits for what is read, or it would grow too old: then
        it goes to the store as fast as that takes it, for the room in the journal is everybody's."""
        now_ms = self._clock.now_ms()
        if self._oldest_ms is None:  # the first that it finds after a pause
            self._oldest_ms = now_ms
        left_ms = _FOLLOW_MS - self.lag_ms(now_ms)
        if left_ms > 0 and not self._flushes:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_ms / 1000):
                    await self._backlog.room()

    async def _let_gather(self) -> None:
        """Wait a moment for more lines, unless somebody waits for those that are there."""
        self._hurry.clear()
        if not self._flushes:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GATHER_S):
                    await self._hurry.wait()

    async def _add_one_by_one(self, records: Sequence[Record], now_ms: int, position: JournalPosition | None) -> None:
        """The store refuses a line of the batch: find it, set it aside, and add the others."""
        for record in records:
            self._progress.beat("ingest")
            try:
                await self._store.add_jobs([to_new_job(record, now_ms)], now_ms=now_ms)
            except ValueError as error:
                await self._set_aside(record, str(error))
        await self._store.add_jobs([], now_ms=now_ms, position=position)

    async def _set_aside(self, record: Record, reason: str) -> None:
        log.error("job.rejected", extra={"id": record.id, "jobtype": record.jobtype, "reason": reason})
        line = {
            "id": record.id,
            "jobtype": record.jobtype,
            "reason": reason,
            "attributes": dict(record.attributes),
            "note": record.note,
            "payload_base64": base64.b64encode(record.payload).decode(),
        }
        try:
            await asyncio.to_thread(append_durably, self._rejects, json.dumps(line).encode() + b"\n")
        except OSError as error:  # the line stays in the journal, and is tried again as after any trouble of the store
            raise StoreUnavailable(f"a refused line could not be set aside: {error}") from error

    def _settle(self) -> None:
        if self._flushes:
            self._flushes.settle(self._journal.read_point, self._passed)

    def _fail(self, error: StoreUnavailable) -> None:
        if not self.trouble:
            log.error("ingest.store_unavailable", extra={"reason": str(error)})
        self.trouble = str(error)
        self._flushes.fail(self.trouble)

    def _recovered(self) -> None:
        if self.trouble:
            log.warning("ingest.store_available")
            self.trouble = ""


async def _paused(pause_s: float) -> float:
    """Returns how long the next pause is."""
    await asyncio.sleep(pause_s)
    return min(2 * pause_s, _LONGEST_PAUSE_S)


def _without(records: Sequence[Record], some: Sequence[Record]) -> Sequence[Record]:
    if len(some) in {0, len(records)}:
        return () if some else records
    ids = set(map(_ID, some))
    return [record for record in records if record.id not in ids]
