"""Outcomes on their way to the store: in whole batches, each tenant's in the order in which its jobs stopped.

Every tenant has a lane of its own, and the store puts what comes from several into one transaction: a tenant whose jobs
stop by the thousand does not make the others wait for their outcomes.

Ensures: the jobs that a job asked for are durable in the journal before its outcome is recorded, so a crash in between
runs it again rather than losing them. While the store cannot be reached outcomes are kept and tried again; what has
lost its lease by then is reported by the store and counted, and changes nothing.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from functory.backlog import Backlog
from functory.courtesy import Courtesy
from functory.joblog import JobLog, Stopped
from functory.progress import Progress
from journal import Clock, JournalUnavailable
from runner.protocol import NewJob as WantedJob
from scheduler import tenant_of
from store.base import Job, Release, Store, Unget
from store.errors import StoreUnavailable

log = logging.getLogger("functory.outbox")

_BATCH = 1000
_MOST_OF_ONE = 1000
"""Outcomes of one tenant that may wait before its slots wait for them."""
_PAUSE_S = 0.2
_PIECE_LINES = 1000
_PIECE_BYTES = 8 << 20
_T = TypeVar("_T")


Ending = tuple[Job, Release, tuple[WantedJob, ...]]
"""One delivery that is over: the job, what becomes of it, and the jobs that it asked for."""


class Outbox:
    def __init__(
        self,
        store: Store,
        backlog: Backlog,
        clock: Clock,
        *,
        owner: str,
        on_released: Callable[[Sequence[Ending]], None],
        progress: Progress,
        courtesy: Courtesy,
        joblog: JobLog | None = None,
    ) -> None:
        self._store = store
        self._backlog = backlog
        self._clock = clock
        self._owner = owner
        self._on_released = on_released
        self._progress = progress
        self._courtesy = courtesy
        self._joblog = joblog
        self._lanes: dict[str, list[Ending]] = {}
        """What waits, by tenant."""
        self._deliveries: asyncio.TaskGroup | None = None
        """One for each lane, while this runs."""
        self._delivered = asyncio.Event()
        self.stale = 0
        """Outcomes that came too late: somebody else has the job."""

    def put(self, endings: Sequence[Ending]) -> None:
        """Of jobs of one type."""
        if not endings:
            return
        tenant = tenant_of(endings[0][0].jobtype)
        lane = self._lanes.get(tenant)
        if lane is not None:
            lane.extend(endings)
            return
        self._lanes[tenant] = list(endings)
        if self._deliveries is not None:
            self._deliveries.create_task(self._deliver_all(tenant), name=f"outcomes of {tenant}")

    async def room(self, tenant: str) -> None:
        """Wait while too much of a tenant is on its way: a slow store slows its slots down, memory stays bounded."""
        while len(self._lanes.get(tenant, ())) > _MOST_OF_ONE:
            await self._delivered.wait()

    async def empty(self) -> None:
        """Wait until everything that was put in is recorded."""
        while self._lanes:
            await self._delivered.wait()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as self._deliveries:
            for tenant in self._lanes:
                self._deliveries.create_task(self._deliver_all(tenant))
            await asyncio.Event().wait()

    async def _deliver_all(self, tenant: str) -> None:
        """Empty a lane. What is being recorded stays in it until it is."""
        lane = self._lanes[tenant]
        while lane:
            batch = _first(lane, self._courtesy.step(tenant, _BATCH))
            await self._deliver(batch)
            del lane[: len(batch)]
            self._on_released(batch)
            if not lane:
                del self._lanes[tenant]
            delivered, self._delivered = self._delivered, asyncio.Event()
            delivered.set()

    async def _deliver(self, batch: Sequence[Ending]) -> None:
        for jobtype, payloads in _wanted_lines(batch):
            await self._until_it_works(partial(self._backlog.write, jobtype, payloads))
        releases = [release for _, release, _ in batch]
        report = await self._until_it_works(lambda: self._store.release_jobs(self._owner, releases, now_ms=self._now()))
        if report.stale:
            self.stale += len(report.stale)
            log.warning("outbox.stale", extra={"jobs": len(report.stale), "first": report.stale[0]})
        if self._joblog is not None:
            self._joblog.stopped(_log_values(batch, set(report.stale)), self._now())

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


def _first(lane: list[Ending], count: int) -> list[Ending]:
    """So many, up to the first job that is among them already: a daemon that lost a lease and claimed the job again may
    end both deliveries at the same moment, and the store takes an id once in a call.
    """
    endings = lane[:count]
    if len({job.id for job, _, _ in endings}) < len(endings):
        seen: set[str] = set()
        for number, (job, _, _) in enumerate(endings):
            if job.id in seen:
                return endings[:number]
            seen.add(job.id)
    return endings


def _wanted_lines(batch: Sequence[Ending]) -> Iterator[tuple[str, list[bytes]]]:
    """The jobs that were asked for, by jobtype, in pieces that fit a write. The tenant is the asking job's own."""
    lines: defaultdict[str, list[bytes]] = defaultdict(list)
    for job, _, wanted in batch:
        for one in wanted:
            lines[f"{tenant_of(job.jobtype)}-{one.type}"].append(one.payload)
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


def _log_values(batch: Sequence[Ending], stale: set[str]) -> Iterator[Stopped]:
    """Of the jobs that stopped: neither those given back nor those that somebody else has. An id is in a batch once."""
    for job, release, _ in batch:
        if not isinstance(release, Unget) and job.id not in stale:
            outcome = release.outcome
            yield job.id, job.jobtype, job.attempts, outcome.code, outcome.exitcode, outcome.duration_us // 1000
