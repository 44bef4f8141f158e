"""One consumer that this daemon leads: a `Consumer` whose jobs, worker and progress are a numbered type of the store.

An index "starts" when its job is let into the queue, where it runs as any job does, on any daemon. It is done when the
job has ended well. Progress, newly started indexes and the note of the leader go to the store in one write.

The store has the last word: it moves progress only over jobs that are over, and takes nothing from a former leader. If
it disagrees, the consumer ends with OutOfStep or Conflict, and begins again from what the store says.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from math import inf
from typing import Any, Final, NamedTuple

import msgspec

from functory.consumers.blocked_indexes import BlockedIndexes
from functory.consumers.consumer import Consumer
from functory.consumers.look_pace import LookPace
from functory.consumers.pull import Ask, PullSource, SourceTrouble
from functory.consumers.roles import Job, Notified
from functory.consumers.terms import Blocked, Skipped, Terms, encode, note_from
from functory.errors import QuotaExceeded
from functory.loops.shared import Shared
from journal import InvalidWrite
from scheduler.index_window import WindowLimits
from scheduler.retry import RetryPolicy
from store.base import Code, ConsumerRecord, IndexEnd, JobState, NewJob, WindowMove
from store.errors import Conflict
from vocabulary.names import jobtype_of, type_of

log = logging.getLogger("functory.consumers")

_FEW: Final = 20
"""Skipped indexes that a note names."""
_MOST_PULLS: Final = 50
"""Jobs that one look asks a source for: what has ended meanwhile waits for its end."""
_WORDS: Final = 300
STEP: Final = 500
"""Indexes that start, end or are queued again in one go."""
_TELL_EVERY_S: Final = 60.0
"""So often the log says that a consumer is blocked: it can be by thousands of indexes."""


class OutOfStep(Exception):
    """The store knows of less progress than this leader: something ended twice, and differently."""


class Surroundings(NamedTuple):
    """What a consumer needs of the daemon that leads it."""

    shared: Shared
    retry: RetryPolicy
    queued: Callable[[str], None]
    """To be told that jobs of a type have entered the queue."""
    moved: Callable[[str], None]
    """To be told that the consumer of a type has made progress."""
    ask: Ask
    """For sources that are pulled."""
    admit: Callable[[str, bytes], Awaitable[None]]
    """Whether the tenant may have a job of this type with this payload. Raises QuotaExceeded, InvalidWrite."""
    pace: LookPace


class LedConsumer:
    """Jobs, Worker and ConsumerProgress of its consumer."""

    def __init__(self, around: Surroundings, record: ConsumerRecord, terms: Terms) -> None:
        self._around = around
        self._store = around.shared.store
        self._clock = around.shared.clock
        self.record = record
        self.terms = terms
        limits = WindowLimits(terms.max_processing, terms.max_search_ahead)
        self.consumer: Consumer[None] = Consumer(self, self, self, limits, on_progress=self._progressed)
        self._note = note_from(record.note)
        self._blocked = BlockedIndexes(self._clock, around.retry, self._note.blocked)
        self._turn = asyncio.Lock()
        self._head = 0
        self._started = 0
        self._written: tuple[int, int, str] = (-1, 0, "")
        """Progress, last started index and note, as the store has them."""
        self._wants_look = True
        """Jobs may have ended on other daemons."""
        self._turn_s: float | None = None
        """When it may look at its window, if it waits for that."""
        self._told_s = -inf
        """When the log last said that it is blocked."""
        self._is_handing_over = False
        self._source = PullSource(around.ask, jobtype_of(record.tenant, terms.pull)) if terms.pull else None
        self._source_head = 0
        self._pulls = 0
        """Jobs that this look has pulled."""
        self._rests_until_s = -inf
        """After trouble with the source."""

    @property
    def jobtype(self) -> str:
        return self.record.jobtype

    @property
    def blocks(self) -> int:
        return len(self._blocked)

    @property
    def last_number(self) -> int:
        """The last number of its type, as far as known."""
        return self._head

    @property
    def has_nothing_to_do(self) -> bool:
        """Whether only a new job could give it something to do: then time alone is no reason to look."""
        window = self.consumer.window
        return (
            self._source is None
            and not self._blocked
            and not window.in_work
            and window.started >= self._head
            and (window.processed, self._started, self._noted()) == self._written
            and (not self.terms.on_progress or self._written[0] <= self._note.told)
        )

    async def lead(self) -> None:
        """Run until it is stopped or something goes wrong. Raises Conflict (another leads), OutOfStep, StoreError."""
        try:
            await self._hold_older()
            await self.consumer.start()
            await self.consumer.done()
        finally:
            await self.consumer.stop(grace_s=0)

    def tick(self) -> None:
        """Time has passed: look at what other daemons did, and at what is to be tried again."""
        self._wants_look = True
        self.consumer.check()

    def ended(self, end: IndexEnd) -> None:
        """A job has ended. Harmless for any index, and as often as one likes."""
        if not self.consumer.is_running or not self.consumer.window.is_in_work(end.seq):
            return
        if end.code is None or end.code is Code.OK:
            self._done(end.seq)
        elif self.terms.on_failed == "skip":
            at_ms = self._clock.now_ms()
            skipped = Skipped(index=end.seq, job_id=end.job_id, code=end.code.value, at_ms=at_ms)
            self._note.skips += 1
            self._note.skipped = [*self._note.skipped, skipped][-_FEW:]
            self._done(end.seq)
        else:
            self._block(end, end.code)

    # Jobs

    async def head(self) -> int:
        """Once for each look, so this is also where everything else is looked after."""
        await self._tell_again()
        window = self.consumer.window
        has_due = bool(self._blocked.due())  # one that has ended well elsewhere is not to run again
        if (self._wants_look or has_due) and window.in_work and self._has_turn():
            self._wants_look = False
            await self._move(look_from=window.processed)
            await self._retry_blocked()
        elif self._wants_look or self._head - window.started < self.terms.max_processing:
            report = await self._store.look_at_window(self.record.tenant, self.jobtype, after=0, until=0)
            self._head = report.head
        if window.processed == self._written[0] and self._noted() != self._written[2]:
            await self._move()  # nothing else would bring the note to the store
        head = self._head if self._source is None else await self._head_of_source(self._source)
        return window.started if await self._is_next_behind() else head

    def _has_turn(self) -> bool:
        """Whether it may look at its window now. If not, it is woken when it may."""
        now_s = self._clock.monotonic_s()
        if self._turn_s is None:
            window = self.consumer.window
            self._turn_s = self._around.pace.take_turn_s(self.record.tenant, window.started - window.processed)
            if self._turn_s > now_s:
                asyncio.get_running_loop().call_later(self._turn_s - now_s, self.consumer.check)
        if self._turn_s > now_s:
            return False
        self._turn_s = None
        return True

    async def at_index(self, index: int) -> Job[None] | None:
        if index % STEP == 0:
            await asyncio.sleep(0)
        if self._source is not None and index > self._head and not await self._pull(self._source, index):
            return None
        return Job(index, None)

    async def _head_of_source(self, source: PullSource) -> int:
        """It is asked only if a worker is free, and everything that it had is pulled."""
        self._pulls = 0
        window = self.consumer.window
        if window.started < self._source_head or not window.startable(window.started + 1):
            return max(self._head, self._source_head)
        if self._clock.monotonic_s() < self._rests_until_s:
            return self._head
        try:
            self._source_head = await source.head()
        except SourceTrouble as error:
            self._note_trouble(error)
            return self._head
        self._note.trouble = ""
        return max(self._head, self._source_head)

    async def _pull(self, source: PullSource, index: int) -> bool:
        """Have the job at an index in the store. False: not now, another look will."""
        if self._clock.monotonic_s() < self._rests_until_s:
            return False
        if self._pulls >= _MOST_PULLS:
            self.consumer.check()
            return False
        self._pulls += 1
        try:
            data = await source.at(index)
            if data is None:
                return False
            await self._around.admit(self.jobtype, data)
        except (SourceTrouble, QuotaExceeded, InvalidWrite) as error:
            self._note_trouble(error)
            return False
        tenant, name = self.record[:2]
        now_ms = self._clock.now_ms()
        (job_id,) = self._around.shared.journal.take_ids(1)
        job = NewJob(job_id, self.jobtype, data, now_ms, now_ms)
        await self._store.append_job(tenant, name, self.record.token, index, job, now_ms=now_ms)
        self._head = index
        return True

    def _note_trouble(self, error: Exception) -> None:
        text = "".join(char if char.isprintable() else " " for char in str(error)[:_WORDS])
        self._note.trouble = text.encode("utf-8", "replace").decode()
        self._rests_until_s = self._clock.monotonic_s() + self._around.retry.base_s

    # Worker

    def run(self, job: Job[None], consumer: Notified) -> Coroutine[Any, Any, None] | None:  # noqa: ARG002 (the protocol's)
        """An index has started. Of all that start in one look, the first causes the write."""
        self._started = job.index
        if self._is_handing_over:
            return None
        self._is_handing_over = True
        return self._hand_over()

    async def _hand_over(self) -> None:
        self._is_handing_over = False
        await self._move()

    # ConsumerProgress

    async def processed_index(self) -> int | None:
        report = await self._store.look_at_window(self.record.tenant, self.jobtype, after=0, until=0)
        self._head, self._started = report.head, report.processed
        self._written = (report.processed, report.processed, self.record.note)
        self._blocked.free_through(report.processed)
        return report.processed

    async def set_processed_index(self, index: int) -> None:
        assert index <= self.consumer.window.processed
        await self._move()

    async def _move(self, look_from: int | None = None) -> None:
        """Write what has changed, and learn what has ended. One at a time."""
        async with self._turn:
            wanted = (self.consumer.window.processed, self._started, self._noted())
            if wanted == self._written and look_from is None:
                return
            tenant, name, jobtype = self.record[:3]
            processed, released, note = wanted
            after = min(self._written[1], released) if look_from is None else look_from
            skip_failed = self.terms.on_failed == "skip"
            move = WindowMove(tenant, name, self.record.token, processed, released, after, skip_failed, note)
            report = await self._store.move_window(move, now_ms=self._clock.now_ms())
            if report.processed < processed:
                raise OutOfStep(f"{name}: the store has processed {report.processed}, its leader {processed}")
            self._head, self._written = report.head, wanted
        if released > after:
            self._around.queued(jobtype)
        for place, end in enumerate(report.ends):
            if place % STEP == STEP - 1:
                await asyncio.sleep(0)
            self.ended(end)

    async def _hold_older(self) -> None:
        """Jobs that were in the queue before the consumer wait for their turn, too."""
        if self._note.has_held:
            return
        after: int | None = 0
        while after is not None:
            report = await self._store.hold_jobs(
                *self.record[:2], self.record.token, after=after, now_ms=self._clock.now_ms()
            )
            after = report.after
        self._note.has_held = True

    # Indexes that did not end well

    def _done(self, index: int) -> None:
        self._blocked.free(index)
        self.consumer.notify_job_is_done(index)

    def _block(self, end: IndexEnd, code: Code) -> None:
        blocked = self._blocked.ended(end, code)
        if blocked is None:
            return
        now_s = self._clock.monotonic_s()
        if now_s - self._told_s >= _TELL_EVERY_S:
            self._told_s = now_s
            details = {"tenant": self.record.tenant, "consumer": self.record.name, "index": end.seq, "id": end.job_id}
            log.warning("consumer.blocked", extra={**details, "code": code.value, "tries": blocked.tries})
        self.consumer.check()

    def _noted(self) -> str:
        """The note as it is now."""
        self._note.blocks = len(self._blocked)
        self._note.blocked = self._blocked.lowest()
        return encode(self._note)

    async def _retry_blocked(self) -> None:
        due = self._blocked.due()
        for start in range(0, len(due), STEP):
            await self._queue_again(due[start : start + STEP])

    async def _queue_again(self, due: Sequence[Blocked]) -> None:
        tenant, now_ms = self.record.tenant, self._clock.now_ms()
        job_ids = [it.job_id for it in due]
        queued = {*await self._store.replay_jobs(tenant, job_ids, dt_ms=now_ms, now_ms=now_ms)}
        for it in due:
            if it.job_id in queued:
                self._blocked.queued(it.index)
        self._around.queued(self.jobtype)
        for it in due:
            if it.job_id not in queued:
                if why := await self._why_not_queued(it.job_id):
                    self._blocked.put_off(it.index, why)
                else:
                    self._blocked.queued(it.index)

    async def _why_not_queued(self, job_id: str) -> str:
        """ "": somebody else has queued it again, or deleted it."""
        found = await self._store.get_job(self.record.tenant, job_id, now_ms=self._clock.now_ms(), max_bytes=0)
        if found is None or found.state is not JobState.ARCHIVED:
            return ""
        unique = found.job.unique
        return f"another job has its unique name {unique}" if unique else "its children are still being cancelled"

    # Telling of progress

    async def _is_next_behind(self) -> bool:
        """Whether the next stage has too much left to do. It is asked again when it has made progress."""
        if not self.terms.next_type:
            return False
        jobtype = jobtype_of(self.record.tenant, self.terms.next_type)
        report = await self._store.look_at_window(self.record.tenant, jobtype, after=0, until=0)
        return report.head - report.processed > self.terms.max_lag

    async def _progressed(self, index: int) -> None:
        self._around.moved(self.jobtype)
        await self._tell(index)

    async def _tell(self, index: int) -> None:
        """Add a job of the type that wants to know. While one waits to run, its payload is replaced."""
        if not self.terms.on_progress or index <= self._note.told:
            return
        now_ms = self._clock.now_ms()
        jobtype = jobtype_of(self.record.tenant, self.terms.on_progress)
        payload = {"consumer": self.record.name, "type": type_of(self.jobtype), "index": index}
        (job_id,) = self._around.shared.journal.take_ids(1)
        unique = f"consumer {self.record.name}"
        job = NewJob(job_id, jobtype, msgspec.json.encode(payload), now_ms, now_ms, unique=unique)
        try:
            await self._store.create_job(job, now_ms=now_ms)
        except Conflict:
            return  # the last one is running: the next look tries again
        self._note.told = index
        self._around.queued(jobtype)

    async def _tell_again(self) -> None:
        await self._tell(self._written[0])
