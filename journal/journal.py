"""The journal: lines go in with `write` and are durable when it returns; they come out with `read_reserve`, `read` and
`rsync`, each exactly once to a reader that syncs in time.

Owns the directory (one process at a time), two threads (one writes and syncs, one reads), and the order of things.
All methods belong to one event loop; none of them blocks it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from journal.clock import Clock, SystemClock
from journal.commits import GroupCommit
from journal.cursor import END, Cursor, Position
from journal.disk import Disk, OsDisk
from journal.errors import BacklogFull, JournalClosed, JournalError, JournalUnavailable
from journal.format import NO_ATTRIBUTES, Record
from journal.ids import IdSource
from journal.ledger import Ledger, Reservation, Span
from journal.lines import LineReader, Piece
from journal.options import JournalOptions
from journal.recent import Recent
from journal.recovery import Finding, recover
from journal.segment import FIRST_FRAME, Damage, Segment
from journal.writer import Appended, Previous, SegmentWriter
from journal.writes import check_jobtype, make_write, to_payloads

log = logging.getLogger("journal")
_T = TypeVar("_T")
_KEEP_AFTER_S = 0.2
"""Whoever keeps the position elsewhere needs this one for a glance from outside only."""


class JournalStats(NamedTuple):
    """A glance at the journal, for health pages and metrics. Counts are since open."""

    segments: int
    backlog_bytes: int
    """Durable and not yet rsynced."""
    reservations: int
    lines_written: int
    lines_read: int
    damages: int
    trouble: str
    """Why the last write failed; empty when writing works."""
    writing_s: float
    """How long the write under way has taken so far; 0 when there is none."""


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
        self._options = options
        self._clock = clock or SystemClock()
        self._ids = IdSource(sysid)
        self._sysid = sysid
        self._read_from = read_from
        self._make_executor = make_executor or _one_thread
        self._is_open = False
        self._segments: dict[int, Segment] = {}
        self._damaged: set[int] = set()
        self._recent = Recent(options.recent_bytes)
        self._loaded: dict[int, list[Record]] = {}
        self._reading = asyncio.Lock()
        self._news = asyncio.Event()
        self._backlog_bytes = 0
        self._keeping: asyncio.TimerHandle | None = None
        self._lines_written = self._lines_read = self._damages = 0
        self._trouble = ""
        self.findings: list[Finding] = []
        """What recovery found; already logged."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Lock the directory and recover it. Raises JournalLocked, UnsupportedFormat or JournalUnavailable."""
        self._write_executor = self._make_executor("journal-write")
        self._read_executor = self._make_executor("journal-read")
        try:
            await self._on_read_thread(self._open_files)
        except BaseException:
            self._write_executor.shutdown(wait=False)
            self._read_executor.shutdown(wait=False)
            raise
        self._commits = GroupCommit(
            self._writer,
            self._write_executor,
            self._options.max_group_bytes,
            self._on_settled,
            self._clock.monotonic_s,
        )
        self._is_open = True
        self._weigh_backlog()
        if self._backlog_bytes:
            self._news.set()  # lines that an earlier life left are as good as new ones

    def _open_files(self) -> None:
        self._disk.lock()
        try:
            recovered = recover(self._disk)
            self._cursor = Cursor.open(self._disk)
            start = self._read_from or self._cursor.position
            self._segments = recovered.segments
            self._ids = IdSource(self._sysid, recovered.floor_ms)
            last = max(recovered.segments.values(), default=None)
            self._writer = SegmentWriter(
                self._disk,
                self._options,
                self._clock,
                sysid=self._sysid,
                floor_ms=lambda: self._ids.time_ms,
                # Above the read position too: a lost directory must not make new lines look as if they were read.
                last_number=max(recovered.last_number, start.segment, self._cursor.position.segment),
                previous=Previous(last.number, last.end) if last else Previous(0, 0),
            )
            self._reader = LineReader(self._disk, self._on_damage)
            self._ledger = Ledger(start)
            self._report(recovered.findings)
        except BaseException:
            self._disk.unlock()
            raise

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
            self._keep_position(self._ledger.read_point, self._read_up(), sync=True)
            self._cursor.close()
        finally:
            self._disk.unlock()

    async def write(
        self,
        jobtype: str,
        lines: Sequence[str] | Sequence[bytes],
        attributes: Mapping[str, str] = NO_ATTRIBUTES,
    ) -> list[str]:
        """Append lines of one type; returns their ids once all of them are on disk.

        Raises InvalidWrite or LimitExceeded before anything is written, DiskFull, BacklogFull or JournalUnavailable
        when it could not be: then none of the lines will ever be read. A caller that is cancelled while it waits
        does not learn which: its lines may or may not be there.
        """
        self._require_open()
        check_jobtype(jobtype)
        payloads = to_payloads(lines, self._options)
        if self._backlog_bytes >= self._options.max_backlog_bytes:
            raise BacklogFull(
                f"{self._backlog_bytes} bytes wait to be read, at the limit"
                f" max_backlog_bytes={self._options.max_backlog_bytes}"
            )
        now_ms = self._clock.now_ms()
        ids = self._ids.take(len(payloads), now_ms)
        write = make_write(ids, jobtype, payloads, attributes, now_ms, self._options)
        await self._commits.add(write)
        self._lines_written += ids.size
        return list(write.ids)

    def take_ids(self, count: int) -> list[str]:
        """Ids for jobs that never pass through the journal: no line of it, written before or later, has one of them.

        Nothing is recorded. A restart knows the newest time of written lines only, so whoever restarts with the same
        sysid after the clock was set back might get them again; a new sysid at every start rules that out.
        """
        self._require_open()
        return self._ids.take(count, self._clock.now_ms()).texts()

    async def wsync(self) -> None:
        """Wait until all writes begun so far are settled."""
        self._require_open()
        await self._commits.drain()

    async def read_reserve(self, max_lines: int, timeout_s: float) -> Reservation | None:
        """Reserve up to `max_lines` of the oldest lines that nobody holds; None when there are none now.

        Lines that are not rsynced within `timeout_s` go back, in their order, to the next reader.
        """
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
                raise
            span = Span(piece.start, piece.end, len(piece.records))
            reservation = self._ledger.complete(span, self._clock.monotonic_s() + timeout_s)
            if reservation is not None:
                self._loaded[reservation.token] = piece.records
                self._news.set()
            elif self._ledger.has_returned:
                self._news.set()
            else:
                self._weigh_backlog()  # what was stepped over held no line
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

        Raises ReservationLapsed if it comes too late, and JournalUnavailable if the new position could not be kept
        (the lines are done with all the same, but may be read again after a restart). Without `sync_cursor` the
        position is kept a moment later, unless there is something to remove.
        """
        self._require_open()
        self._expire()
        self._ledger.finish(reservation)
        self._loaded.pop(reservation.token, None)
        self._lines_read += reservation.span.lines
        position, done = self._ledger.read_point, self._read_up()
        for number in done:
            del self._segments[number]
        self._weigh_backlog()
        if done or self._options.sync_cursor:
            await self._on_read_thread(lambda: self._keep_position(position, done, sync=self._options.sync_cursor))
        elif self._keeping is None:
            self._keeping = asyncio.get_running_loop().call_later(_KEEP_AFTER_S, self._keep_now)

    async def read_cancel(self, reservation: Reservation) -> None:
        """Give the reserved lines back at once. A reservation that has lapsed or ended is given back already."""
        self._require_open()
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
            segments=len(self._segments),
            backlog_bytes=self._backlog_bytes,
            reservations=self._ledger.open_reservations,
            lines_written=self._lines_written,
            lines_read=self._lines_read,
            damages=self._damages,
            trouble=self._trouble,
            writing_s=self._commits.writing_s,
        )

    async def free_bytes(self) -> int:
        """Of the disk that it is on. Raises JournalUnavailable."""
        self._require_open()
        return await self._on_read_thread(self._disk.free_bytes)

    @property
    def read_point(self) -> Position:
        """Every line before it was rsynced."""
        return self._ledger.read_point

    @property
    def write_point(self) -> Position:
        """Where the next line will go: once the read point is here, everything acknowledged so far was rsynced."""
        newest = max(self._segments.values(), default=None)
        return Position(newest.number, newest.end, 0) if newest else self._ledger.read_point

    async def _load(self, span: Span, max_lines: int) -> Piece:
        lines, size = min(max_lines, span.lines), self._options.read_bytes
        if span.end == END and (piece := self._recent.read(span.start, lines, size)):
            return piece
        segments = dict(self._segments)
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

    def _weigh_backlog(self) -> None:
        """The segments from the read point on. It may lie past the end of what is there: in a copy that was taken
        before the store's, or where a crash left segments that the store had read up."""
        point = self._ledger.read_point
        self._backlog_bytes = sum(
            max(segment.end - max(FIRST_FRAME, point.offset if number == point.segment else 0), 0)
            for number, segment in self._segments.items()
            if number >= point.segment
        )

    def _read_up(self) -> list[int]:
        """The segments whose every line is done with and that will not grow."""
        point = self._ledger.read_point
        newest = max(self._segments, default=0)
        return [
            number
            for number, segment in self._segments.items()
            if number < point.segment or (number == point.segment and number < newest and point.offset >= segment.end)
        ]

    def _keep_position(self, position: Position, done: Sequence[int], *, sync: bool) -> None:
        """On the reader's thread. First the position, then the removals: the other way round a crash could leave a
        position in a segment that is gone."""
        self._cursor.save(position, sync=sync)
        for number in done:
            name = Segment(number, 0, 0).name
            if number in self._damaged:
                self._disk.rename(name, name.replace(".journal", ".damaged"))
            else:
                self._disk.remove(name)

    def _keep_now(self) -> None:
        self._keeping = None
        position = self._ledger.read_point
        kept = asyncio.get_running_loop().run_in_executor(
            self._read_executor, lambda: self._keep_position(position, (), sync=False)
        )
        kept.add_done_callback(_log_not_kept)

    def _on_settled(self, verdict: Appended | JournalError) -> None:
        if isinstance(verdict, Appended):
            segment, batches, offsets = verdict
            self._segments[segment.number] = segment
            for batch, offset, end in zip(batches, offsets, offsets[1:], strict=False):
                self._recent.add(segment.number, offset, end, batch)
            self._weigh_backlog()
            self._news.set()
            if self._trouble:
                self._trouble = ""
                log.warning("journal.intake_resumed")
        elif not self._trouble:
            self._trouble = str(verdict)
            log.error("journal.intake_stopped", extra={"code": verdict.code, "reason": self._trouble})

    def _on_damage(self, number: int, damage: Damage) -> None:
        """On the reader's thread."""
        self._damaged.add(number)
        self._damages += 1
        log.error(
            "journal.damage",
            extra={"segment": number, "offset": damage.offset, "bytes": damage.end - damage.offset},
        )

    def _report(self, findings: list[Finding]) -> None:
        self.findings = findings
        for finding in findings:
            level = logging.ERROR if finding.is_damage else logging.WARNING
            log.log(
                level,
                "journal.recovered",
                extra={"segment": finding.segment, "offset": finding.offset, "found": finding.text},
            )
        self._damages += sum(finding.is_damage for finding in findings)


def _log_not_kept(kept: "asyncio.Future[None]") -> None:
    if error := kept.exception():
        log.error("journal.position_not_kept", extra={"reason": str(error)})


def _one_thread(name: str) -> Executor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
