"""From the journal to the store: every line exactly once, in bulk, as soon as it is there.

Ensures: a line leaves the journal only after the store has it. When the store cannot be reached the lines stay in the
journal and are tried again; nothing is dropped, and intake goes on until the journal's own limit. A line that the store
refuses for good is set aside in a file with the reason, so that one bad line does not hold up all others.
"""

import asyncio
import base64
import heapq
import itertools
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import aiofiles

from functory.backlog import Backlog
from functory.courtesy import Courtesy, Pace
from functory.jobattributes import PLAIN, JobOptions, to_new_job, to_new_jobs
from functory.joblog import JobLog
from functory.progress import Progress
from journal import Clock, Journal, Position, Record, Reservation, parse_id
from scheduler import tenant_of
from store.base import JournalPosition, Store
from store.errors import StoreUnavailable

log = logging.getLogger("functory.ingest")

_BATCH_LINES = 1000
"""A step holds up everybody who wants the store or the event loop, so it is not as long as would be fastest."""
_SOME_LINES = range(4, 50)
_GATHER_S = 0.003
"""After a step of some lines, which came one by one, the next one waits for so long: many cost little more in one
transaction than one. After a step of fewer somebody waits for single jobs, and they are not held up."""
_RESERVATION_S = 60.0
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
"""Between two tries of a store that is away: also how long it may be back before anybody notices."""


class Ingest:
    """Implements `functory.seams.Intake`."""

    def __init__(
        self,
        journal: Journal,
        store: Store,
        clock: Clock,
        *,
        backlog: Backlog,
        reader: str,
        rejects: Path,
        on_added: Callable[[Iterable[str]], None],
        progress: Progress,
        courtesy: Courtesy,
        joblog: JobLog | None = None,
    ) -> None:
        self._backlog = backlog
        self._journal = journal
        self._store = store
        self._clock = clock
        self._reader = reader
        self._rejects = rejects
        self._on_added = on_added
        self._progress = progress
        self._courtesy = courtesy
        self._steps = Pace(courtesy, clock)
        self._last_tenant = ""
        """Whose line was the last of the last batch: most likely the next ones are its, too."""
        self._joblog = joblog
        self._waiting: list[tuple[Position, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._hurry = asyncio.Event()
        self.trouble = ""
        """Why the store does not take lines now; empty when it does."""
        self._oldest_ms: int | None = None
        """When the oldest line was written that was read last and is not known to be in the store."""

    def lag_ms(self, now_ms: int) -> int:
        """Age of the oldest line that is not in the store."""
        if self._oldest_ms is None or self._journal.read_point >= self._journal.write_point:
            return 0
        return max(0, now_ms - self._oldest_ms)

    async def run(self) -> None:
        """Until cancelled."""
        pause_s = _FIRST_PAUSE_S
        while True:
            await self._journal.readable()
            lines = self._courtesy.step(self._last_tenant, _BATCH_LINES)
            reservation = await self._journal.read_reserve(lines, _RESERVATION_S)
            if reservation is None:
                self._backlog.all_read()
                self._settle()
                continue
            try:
                async with self._steps.step(self._last_tenant, reservation.span.lines):
                    with self._progress.step("ingest"):
                        await self._move(reservation)
            except StoreUnavailable as error:
                await self._journal.read_cancel(reservation)
                self._fail(error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            except BaseException:
                await self._journal.read_cancel(reservation)
                raise
            else:
                pause_s = _FIRST_PAUSE_S
                self._recovered()
                self._settle()
                if reservation.span.lines in _SOME_LINES:
                    await self._let_gather()

    async def write(self, jobtype: str, lines: list[bytes], options: JobOptions = PLAIN) -> list[str]:
        return await self._backlog.write(jobtype, lines, options)

    async def flush(self, tenant: str = "") -> None:
        if tenant:
            await self._backlog.landed(tenant)
            if not self._backlog.waits(tenant):
                return
        target = self._journal.write_point
        if self._journal.read_point >= target:
            return
        if self.trouble:
            raise StoreUnavailable(self.trouble)
        done = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (target, next(self._order), done))
        self._hurry.set()
        await done

    async def _move(self, reservation: Reservation) -> None:
        records = await self._journal.read(reservation)
        new = self._backlog.still_to_add(records)
        self._oldest_ms = parse_id(records[0].id).time_ms
        now_ms = self._clock.now_ms()
        end = reservation.span.end
        position = JournalPosition(self._reader, str(end.segment), end.offset, end.line)
        try:
            await self._store.add_jobs(to_new_jobs(new, now_ms), now_ms=now_ms, position=position)
        except ValueError:  # InvalidValue of the store among them
            await self._add_one_by_one(new, now_ms, position)
        await self._journal.rsync(reservation)
        self._backlog.read(records)
        if self._joblog is not None:
            self._joblog.entered([(r.id, r.jobtype, len(r.payload)) for r in new], now_ms)
        self._last_tenant = tenant_of(records[-1].jobtype)
        self._on_added({record.jobtype for record in new})

    async def _let_gather(self) -> None:
        """Unless somebody waits for the lines."""
        self._hurry.clear()
        if not self._waiting:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GATHER_S):
                    await self._hurry.wait()

    async def _add_one_by_one(self, records: Sequence[Record], now_ms: int, position: JournalPosition) -> None:
        """Some line of the batch is not acceptable: find it, keep it aside, let the others through."""
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
            "payload_base64": base64.b64encode(record.payload).decode(),
        }
        async with aiofiles.open(self._rejects, "a") as file:
            await file.write(json.dumps(line) + "\n")

    def _settle(self) -> None:
        point = self._journal.read_point
        while self._waiting and self._waiting[0][0] <= point:
            _, _, done = heapq.heappop(self._waiting)
            if not done.done():
                done.set_result(None)

    def _fail(self, error: StoreUnavailable) -> None:
        if not self.trouble:
            log.error("ingest.store_unavailable", extra={"reason": str(error)})
        self.trouble = str(error)
        waiting, self._waiting = self._waiting, []
        for _, _, done in waiting:
            if not done.done():
                done.set_exception(StoreUnavailable(self.trouble))

    def _recovered(self) -> None:
        if self.trouble:
            log.warning("ingest.store_available")
            self.trouble = ""
