"""The journal: lines go in with `write` and are durable when it returns; they come out with `read_reserve`, `read` and
`rsync`, each exactly once to a reader that syncs in time.

Owns the directory (one process at a time), two threads (one writes and syncs, one reads), and the order of things.
All methods belong to one event loop; none of them blocks it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

from journal.backlog import Backlog
from journal.commits import GroupCommit, Settled, tell
from journal.cursor import END, Cursor, Position
from journal.disk import Disk, OsDisk
from journal.errors import DiskFull, JournalClosed, JournalError, JournalUnavailable, ReservationUnread
from journal.format import NO_ATTRIBUTES, Record
from journal.ids import IdSource, LateTexts
from journal.ledger import Ledger, Reservation, Span
from journal.lines import LineReader, Piece
from journal.options import JournalOptions
from journal.payloads import Lines, Payloads, check_payloads, to_payloads, to_payloads_in_parts
from journal.recent import Recent
from journal.recovery import Finding, log_findings, losses, recover
from journal.segment import Damage
from journal.stats import JournalStats
from journal.threads import OneThread
from journal.trouble import Trouble
from journal.writer import Appended, Previous, SegmentWriter
from journal.writes import check_jobtype, make_write
from vocabulary.clock import Clock, SystemClock

log = logging.getLogger("journal")
_T = TypeVar("_T")
_KEEP_AFTER_S: Final = 0.2
"""Whoever keeps the position elsewhere needs this one for a glance from outside only."""


class Journal:
    """See the module. `async with Journal(...)` opens and closes it."""

    def __init__(
        self,
        disk: Disk | Path,
        sysid: str,
        options: JournalOptions = JournalOptions(),  # noqa: B008 (a frozen value)
        *,
        clock: Clock | None = None,
        read_from: Position | None = None,
        make_executor: Callable[[str], Executor] | None = None,
    ) -> None:
        """`read_from` is the read position that a store committed with the jobs; it overrides the journal's own."""
        self._disk = OsDisk(disk) if isinstance(disk, Path) else disk
        self.options = self._options = options
        self._clock = clock or SystemClock()
        self._ids = IdSource(sysid)
        self._sysid = sysid
        self._read_from = read_from
        self._make_executor = make_executor or OneThread
        self._is_open = False
        self._recent = Recent(options.recent_bytes)
        self._loaded: dict[int, list[Record]] = {}
        self._reading = asyncio.Lock()
        self._news = asyncio.Event()
        self._keeping: asyncio.TimerHandle | None = None
        self._lines_written = self._lines_read = self._damages = 0
        self._trouble, self._unreadable = Trouble(), Trouble("journal.unreadable", "journal.readable")
        self.findings: list[Finding] = []
        """What recovery found; already logged."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Lock the directory and recover it. Raises JournalLocked, UnsupportedFormat or JournalUnavailable."""
        self._write_executor = self._make_executor("journal-write")
        self._read_executor = self._make_executor("journal-read")
        try:
            await self._on_read_thread(self._open_files)
        except BaseException:
            self._read_executor.submit(self._disk.unlock)  # who is cancelled leaves a thread that may just lock it
            self._write_executor.shutdown(wait=False)
            self._read_executor.shutdown(wait=False)
            raise
        self._commits = GroupCommit(
            self._writer, self._write_executor, self._options.max_group_bytes, self._on_settled, self._clock.monotonic_s
        )
        self._is_open = True
        self._backlog.weigh(self._ledger.read_point)
        if self._backlog.size_bytes:
            self._news.set()  # lines that an earlier life left are as good as new ones

    def _open_files(self) -> None:
        self._disk.lock()
        try:
            recovered = recover(self._disk)
            self._cursor = Cursor.open(self._disk)
            start = self._read_from or self._cursor.position
            self._backlog = Backlog(self._disk, self._cursor, recovered.segments, self._options.max_backlog_bytes)
            self._ids = IdSource(self._sysid, recovered.floor_ms)
            last = max(recovered.segments.values(), default=None)
            # Above the read position too: a lost directory must not make new lines look as if they were read.
            last_number = max(recovered.last_number, start.segment, self._cursor.position.segment)
            self._first_new = Position(last_number + 1, 0, 0)
            self._writer = SegmentWriter(
                self._disk,
                self._options,
                self._clock,
                sysid=self._sysid,
                floor_ms=lambda: self._ids.time_ms,
                last_number=last_number,
                previous=Previous(last.number, last.end) if last else Previous(0, 0),
            )
            self._reader = LineReader(self._disk, self._on_damage)
            self._ledger = Ledger(start)
            self.findings = recovered.findings + losses(recovered.gone, max(start, self._cursor.position))
            self._damages += log_findings(self.findings)
        except BaseException:
            self._disk.unlock()
            raise

    def read_on_from(self, position: Position) -> None:
        """The position that a store has, learned after `open` and before any line is reserved. One beyond all that was
        there at `open` is ignored, because lines written since would look as if they were read."""
        if position <= self._first_new:
            self._ledger = Ledger(position)
            self._backlog.weigh(position)
            self._news.set()

    async def close(self) -> None:
        """Finish the writes under way, keep the read position, unlock. Again, or before open: does nothing."""
        if not self._is_open:
            return
        self._is_open = False
        self._news.set()
        if self._keeping is not None:
            self._keeping.cancel()
        await self._commits.drain()
        async with self._reading:
            try:
                await self._on_read_thread(self._close_files)
            finally:
                self._write_executor.shutdown(wait=False)
                self._read_executor.shutdown(wait=False)

    def _close_files(self) -> None:
        try:
            self._writer.close()
            self._reader.close()
            self._backlog.keep(self._ledger.read_point, self._backlog.read_up(self._ledger.read_point), sync=True)
            self._cursor.close()
        finally:
            self._disk.unlock()

    async def write(
        self, jobtype: str, lines: Lines, attributes: Mapping[str, str] = NO_ATTRIBUTES, notes: Sequence[str] = ()
    ) -> list[str]:
        """Append lines of one type; returns their ids once all of them are on disk. Raises InvalidWrite or
        LimitExceeded before anything is written, DiskFull, BacklogFull or JournalUnavailable when it could not be: then
        none of them will ever be read. Who is cancelled while waiting does not learn whether the lines are there."""
        payloads, done = await self.look_at(lines), asyncio.get_running_loop().create_future()
        ids = self.begin_write(jobtype, payloads, attributes, notes, partial(tell, done))
        await done
        return ids if isinstance(ids, list) else await ids.made()

    async def look_at(self, lines: Lines) -> Payloads:
        """The first part of `begin_write`, in short steps: for many lines, which nobody may change meanwhile."""
        return await to_payloads_in_parts(lines, self._options)

    def begin_write(
        self, jobtype: str, lines: Lines | Payloads, attrs: Mapping[str, str], notes: Sequence[str], settled: Settled
    ) -> list[str] | LateTexts:
        """The first half of `write`: the ids. No reader sees a line before this returns. `settled` hears, later, that
        they are on disk, or why not. notes: what is said of each line, if anything is: printable ASCII without `|`."""
        self._require_open()
        check_jobtype(jobtype)
        payloads = lines if isinstance(lines, Payloads) else to_payloads(lines, self._options)
        self._backlog.require_room()
        now_ms = self._clock.now_ms()
        ids = self._ids.take(len(payloads.lines), now_ms)
        self._commits.add(write := make_write(ids, jobtype, payloads, attrs, now_ms, notes), settled)
        return list(write.ids) if isinstance(write.ids, list) else write.ids  # the caller's own

    def check(self, jobtype: str, lines: Sequence[bytes]) -> None:
        """Raises what `write` would raise for the lines themselves: InvalidWrite, LimitExceeded. Writes nothing."""
        check_jobtype(jobtype)
        check_payloads(lines, self._options)

    def take_ids(self, count: int) -> list[str]:
        """Ids for jobs that never pass through the journal: no line of it, written before or later, has one of them.
        Nothing is recorded: whoever restarts with the same sysid after the clock was set back might get them again."""
        self._require_open()
        return self._ids.take(count, self._clock.now_ms()).texts()

    async def wsync(self) -> None:
        """Wait until all writes begun so far are settled."""
        self._require_open()
        await self._commits.drain()

    async def read_reserve(self, max_lines: int, timeout_s: float) -> Reservation | None:
        """Reserve up to `max_lines` of the oldest lines that nobody holds; None when there are none now. Lines that are
        not rsynced within `timeout_s` go back, in their order, to the next reader. Raises JournalUnavailable."""
        self._require_open()
        if max_lines < 1:
            raise ValueError(f"max_lines must be at least 1, not {max_lines}")
        async with self._reading:
            self._expire()
            self._news.clear()
            offered = self._ledger.begin()
            try:
                piece = await self._load(offered, max_lines)
            except BaseException:
                self._ledger.abort()
                self._news.set()
                raise
            span = Span(piece.start, piece.end, len(piece.records))
            reservation = self._ledger.complete(span, self._clock.monotonic_s() + timeout_s)
            if reservation is not None:
                self._loaded[reservation.token] = piece.records
            elif not self._ledger.has_returned:
                self._backlog.weigh(self._ledger.read_point)  # what was stepped over held no line
                return None
            self._news.set()
            return reservation

    async def read(self, reservation: Reservation) -> list[Record]:
        """The reserved lines. Raises ReservationLapsed once they belong to somebody else."""
        self._require_open()
        self._expire()
        span = self._ledger.require(reservation)
        records = self._loaded.pop(reservation.token, None)
        if records is None:  # a second look: from disk, so that what was handed over need not be kept
            async with self._reading:
                records = (await self._load(span, span.lines)).records
        return records

    async def rsync(self, reservation: Reservation) -> None:
        """The reserved lines are durable elsewhere: move the read point past them, and remove what is read up.

        Raises ReservationLapsed if it comes too late, ReservationUnread if the lines were never read (they stay
        reserved), and JournalUnavailable if the new position could not be kept: then they may be read again after a
        restart. Without `sync_cursor` it is kept a moment later, unless there is something to remove.
        """
        self._require_open()
        self._expire()
        self._ledger.require(reservation)
        if reservation.token in self._loaded:
            raise ReservationUnread(
                f"reservation {reservation.token}: its {reservation.span.lines} lines were never read."
                " Read them first, or give them back with read_cancel"
            )
        self._ledger.finish(reservation)
        self._lines_read += reservation.span.lines
        position = self._ledger.read_point
        done = self._backlog.read_up(position)
        self._backlog.forget(done)
        self._backlog.weigh(position)
        if done or self._options.sync_cursor:
            await self._on_read_thread(lambda: self._backlog.keep(position, done, sync=self._options.sync_cursor))
        elif self._keeping is None:
            self._keeping = asyncio.get_running_loop().call_later(_KEEP_AFTER_S, self._keep_now)

    async def read_cancel(self, reservation: Reservation) -> None:
        self._require_open()
        self.give_back(reservation)

    def give_back(self, reservation: Reservation) -> None:
        """Give the reserved lines back at once. A reservation that has lapsed or ended is given back already."""
        self._loaded.pop(reservation.token, None)
        with suppress(JournalError):
            self._ledger.give_back(reservation)
        self._news.set()

    async def readable(self) -> None:
        """Wait until a reservation is likely to find lines; also returns when the journal closes."""
        while self._is_open and not self._news.is_set():
            deadline = self._ledger.next_deadline()
            wait_s = None if deadline is None else max(0.0, deadline - self._clock.monotonic_s())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), wait_s)
            self._expire()

    def stats(self) -> JournalStats:
        return JournalStats(
            segments=len(self._backlog.segments),
            backlog_bytes=self._backlog.size_bytes,
            reservations=self._ledger.open_reservations,
            lines_written=self._lines_written,
            lines_read=self._lines_read,
            damages=self._damages,
            trouble=self._trouble.reason or self._backlog.trouble.reason,
            unreadable=self._unreadable.reason,
            writing_s=self._commits.writing_s,
        )

    async def try_again(self) -> None:
        """After a write that failed, see whether the next one would succeed: who sends jobs only to a daemon without
        trouble would never send one again. Nothing happens while there is no trouble."""
        self._require_open()
        if self._trouble.reason:
            with suppress(JournalUnavailable):
                await self._commits.try_again()
                self._trouble.end()

    async def free_bytes(self) -> int:
        """Of the disk that it is on. Raises JournalUnavailable."""
        self._require_open()
        return await self._on_read_thread(self._disk.free_bytes)

    @property
    def read_point(self) -> Position:
        """Every line before it was rsynced."""
        return self._ledger.read_point

    @property
    def is_filling(self) -> bool:
        """Whether more waits than half of what may: whoever does not need the lines in it lets go of them."""
        return self._backlog.is_filling

    @property
    def unread_point(self) -> Position:
        """Every line before it is reserved, or was rsynced."""
        return self._ledger.unread_point

    @property
    def write_point(self) -> Position:
        """Where the next line will go: once the read point is here, everything acknowledged so far was rsynced."""
        return self._backlog.end or self._ledger.read_point

    @property
    def passed_id(self) -> str | None:
        """No line with an id up to this one will be read again; None while there are lines that were not rsynced, or
        are being written."""
        is_read = self._commits.is_idle and self.read_point >= self.write_point
        return self._ids.last if is_read else None

    async def _load(self, span: Span, max_lines: int) -> Piece:
        lines, size = min(max_lines, span.lines), self._options.read_bytes
        if span.end == END and (piece := self._recent.read(span.start, lines, size)):
            return piece
        segments = dict(self._backlog.segments)
        with self._unreadable.noted():
            return await self._on_read_thread(lambda: self._reader.read(span.start, segments, lines, size, span.end))

    async def _on_read_thread(self, call: Callable[[], _T]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._read_executor, call)
        except OSError as error:
            raise JournalUnavailable(f"could not read the journal or keep its position: {error}") from error

    def _require_open(self) -> None:
        if not self._is_open:
            raise JournalClosed("the journal is not open")

    def _expire(self) -> None:
        for reservation in self._ledger.expire(self._clock.monotonic_s()):
            self._loaded.pop(reservation.token, None)
            self._news.set()
            log.warning("journal.reservation_lapsed", extra={"lines": reservation.span.lines})

    def _keep_now(self) -> None:
        self._keeping = None
        position = self._ledger.read_point
        kept = asyncio.get_running_loop().run_in_executor(
            self._read_executor, lambda: self._backlog.keep(position, (), sync=False)
        )
        kept.add_done_callback(_log_not_kept)

    def _on_settled(self, verdict: Appended | JournalError) -> None:
        if isinstance(verdict, Appended):
            segment, batches, offsets = verdict
            self._backlog.grow(segment)
            for batch, offset, end in zip(batches, offsets, offsets[1:], strict=False):
                self._lines_written += batch.lines
                self._recent.add(segment.number, offset, end, batch)
            self._news.set()
            self._trouble.end()
        elif not (isinstance(verdict, DiskFull) and verdict.has_room_for_less):
            self._trouble.begin(verdict)

    def _on_damage(self, number: int, damage: Damage) -> None:
        """On the reader's thread."""
        self._backlog.mark_damaged(number)
        self._damages += 1
        size_bytes = damage.end - damage.offset
        log.error("journal.damage", extra={"segment": number, "offset": damage.offset, "bytes": size_bytes})


def _log_not_kept(kept: "asyncio.Future[None]") -> None:
    if error := kept.exception():
        log.error("journal.position_not_kept", extra={"reason": str(error)})
