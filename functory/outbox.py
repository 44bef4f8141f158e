"""Outcomes on their way to the store: from all slots together, in whole batches, in the order in which jobs stopped.

Ensures: the jobs that a job asked for are durable in the journal before its outcome is recorded, so a crash in between
runs it again rather than losing them. While the store cannot be reached outcomes are kept and tried again; what has
lost its lease by then is reported by the store and counted, and changes nothing.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from functory.joblog import JobLog, Stopped
from functory.progress import Progress
from journal import Clock, Journal, JournalUnavailable
from runner.protocol import NewJob as WantedJob
from store.base import Archive, Job, Rearm, Release, Retry, Store, Unget
from store.errors import StoreUnavailable

log = logging.getLogger("functory.outbox")

_BATCH = 5000
_PAUSE_S = 0.2
_MOST_WAITING = 20_000
_PIECE_LINES = 1000
_PIECE_BYTES = 8 << 20
_T = TypeVar("_T")


class Ending(NamedTuple):
    """One delivery that is over: the job, what becomes of it, and the jobs that it asked for."""

    job: Job
    release: Release
    wanted: tuple[WantedJob, ...] = ()


class Outbox:
    def __init__(
        self,
        store: Store,
        journal: Journal,
        clock: Clock,
        *,
        owner: str,
        on_released: Callable[[Sequence[Ending]], None],
        progress: Progress,
        joblog: JobLog | None = None,
    ) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self._owner = owner
        self._on_released = on_released
        self._progress = progress
        self._joblog = joblog
        self._endings: list[Ending] = []
        self._news = asyncio.Event()
        self._emptied = asyncio.Event()
        self._emptied.set()
        self.stale = 0
        """Outcomes that came too late: somebody else has the job."""

    def put(self, endings: Sequence[Ending]) -> None:
        if endings:
            self._endings += endings
            self._emptied.clear()
            self._news.set()

    async def room(self) -> None:
        """Wait while too much is on its way, so that a slow store slows the slots down and memory stays bounded."""
        while len(self._endings) > _MOST_WAITING:
            await self._emptied.wait()

    async def empty(self) -> None:
        """Wait until everything that was put in is recorded."""
        await self._emptied.wait()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._endings:
                batch = self._endings[:_BATCH]
                await self._deliver(batch)
                del self._endings[: len(batch)]
                self._on_released(batch)
            self._emptied.set()

    async def _deliver(self, batch: Sequence[Ending]) -> None:
        for jobtype, payloads in _wanted_lines(batch):
            await self._until_it_works(partial(self._journal.write, jobtype, payloads))
        releases = [ending.release for ending in batch]
        report = await self._until_it_works(lambda: self._store.release_jobs(self._owner, releases, now_ms=self._now()))
        if report.stale:
            self.stale += len(report.stale)
            log.warning("outbox.stale", extra={"jobs": len(report.stale), "first": report.stale[0]})
        if self._joblog is not None:
            lines = [_log_line(ending.job, ending.release) for ending in batch if not isinstance(ending.release, Unget)]
            self._joblog.stopped(lines, self._now())

    async def _until_it_works(self, call: Callable[[], Awaitable[_T]]) -> _T:
        has_failed = False
        while True:
            try:
                with self._progress.step("outbox"):
                    return await call()
            except (StoreUnavailable, JournalUnavailable) as error:
                if not has_failed:
                    log.warning("outbox.waiting", extra={"reason": str(error)})
                has_failed = True
                await asyncio.sleep(_PAUSE_S)

    def _now(self) -> int:
        return self._clock.now_ms()


def _wanted_lines(batch: Sequence[Ending]) -> Iterator[tuple[str, list[bytes]]]:
    """The jobs that were asked for, by jobtype, in pieces that fit a write. The tenant is the asking job's own."""
    lines: defaultdict[str, list[bytes]] = defaultdict(list)
    for ending in batch:
        tenant = ending.job.jobtype.partition("-")[0]
        for wanted in ending.wanted:
            lines[f"{tenant}-{wanted.type}"].append(wanted.payload)
    for jobtype, payloads in lines.items():
        piece: list[bytes] = []
        size_bytes = 0
        for payload in payloads:
            if piece and (len(piece) == _PIECE_LINES or size_bytes + len(payload) > _PIECE_BYTES):
                yield jobtype, piece
                piece, size_bytes = [], 0
            piece.append(payload)
            size_bytes += len(payload)
        yield jobtype, piece


def _log_line(job: Job, release: Archive | Retry | Rearm) -> Stopped:
    outcome = release.outcome
    return Stopped(job.id, job.jobtype, job.attempts, outcome.code, outcome.exitcode, outcome.duration_us // 1000)
