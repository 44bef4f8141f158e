"""A queue to take jobs from, and to add some to. The same on both kinds of link.

Ensures: jobs in hand are kept alive until they end, are lost, or the queue is closed. What was taken and not begun
when an iteration or the queue ends is given back.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from types import TracebackType
from typing import Any, Final, Self

import functory
from functory.errors import InvalidInput, ServerUnreachable, WorkerDrained
from functory.queue.job import Job
from functory.queue.keepalive import Keepalive
from functory.queue.link import Given, Link, Wish
from functory.queue.outage import Outage
from functory.queue.reporter import Reporter, is_passing
from functory.queue.unserved import look_for_handlers
from functory.wire.add_options import AddOptions, check_number, check_options, check_type
from functory.wire.payloads import encode
from functory.workers.values import Worker

log = logging.getLogger("functory.queue")

_WAIT_S: Final = 30.0
"""Of one request; then another follows."""
_MOMENT_S: Final = 1.0
"""Of the first request for some types: if it brings nothing, there may be a reason."""
_LONGEST_PAUSE_S: Final = 10.0
"""Until a server that is away is asked for jobs again."""
_MOST_GIVEN_BACK: Final = 1000
"""In one request: the server takes no more."""
_LAST_WORDS_S: Final = 30.0
"""When it is closed, for ends that are not said yet, with the time that sending them may take: longer than a try that
gets no answer."""
_GOODBYE_S: Final = 10.0
_HURRIED_S: Final = 2.0
"""For each of the two in a hurry."""


class Queue:
    def __init__(self, link: Link, *, name: str = "", types: tuple[str, ...] = ("*",), lease_s: float | None = None):
        """name: of this worker, unique among those of the tenant: who leaves gives back what its name holds.
        types: what `next` takes."""
        self._link = link
        self._name = name or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._types = types
        self._lease_s = lease_s
        self._reporter = Reporter(link)
        self._keepalive = Keepalive(link, lease_s)
        self._outage = Outage("queue.take_again", _LONGEST_PAUSE_S)
        self.is_draining = False
        """Somebody wants this worker to stop: it gets no more jobs."""
        self.is_closed = False
        self._closing: asyncio.Task[None] | None = None
        self._has_asked = False
        self._looked_for: set[tuple[str, ...]] = set()
        self._hurry = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What the block raises is not hidden by a close that fails, mostly for the same reason."""
        try:
            await self.close()
        except Exception as unclosed:
            if error is None:
                raise
            log.warning("queue.not_closed", extra={"reason": str(unclosed)})

    # Jobs out

    async def next(self, *types: str) -> Job:
        """The next job, however long that takes. Raises WorkerDrained if there will be none."""
        while True:
            jobs = await self._wait_for_some(types, 1)
            if jobs:
                return jobs[0]
            if self.is_draining:
                raise WorkerDrained(f"worker {self._name} was asked to take no more jobs")

    async def take(self, *types: str, limit: int = 1) -> AsyncIterator[Job]:
        """Jobs one after the other, until this worker is drained; up to `limit` are taken in advance. Those that were
        not begun when the loop is left are given back."""
        ready: deque[Job] = deque()
        try:
            while not self.is_closed and (ready or not self.is_draining):
                if not ready:
                    ready.extend(await self._wait_for_some(types, limit))
                if ready:
                    job = ready.popleft()
                    if not job.lost.is_set():
                        yield job
        finally:
            await self._give_back_all(list(ready))

    async def _wait_for_some(self, types: tuple[str, ...], limit: int) -> list[Job]:
        """The first time that the server answers, it says so if none can come."""
        asked_for = types or self._types
        is_first = asked_for not in self._looked_for and not self._outage.is_on
        jobs = await self.take_some(*types, limit=limit, wait_s=_MOMENT_S if is_first else _WAIT_S)
        if is_first and not self._outage.is_on:
            self._looked_for.add(asked_for)
            if not jobs and not self.is_draining:
                await look_for_handlers(self, asked_for, "queue", "queue.register(type)")
        return jobs

    async def take_some(
        self, *types: str, limit: int = 1, wait_s: float = 0.0, capacity: int | None = None
    ) -> list[Job]:
        """Up to `limit` jobs, as soon as there are some; none when the time is up. A server that is away is asked again
        a little later. capacity: how many jobs this worker works on at once, as the list of workers shows it; `limit`
        unless it is given."""
        if self.is_closed:
            raise InvalidInput("the queue is closed")
        worker = Worker(
            self._name, socket.gethostname()[:100], functory.__version__, limit if capacity is None else capacity
        )
        self._has_asked = True
        try:
            batch = await self._link.take(Wish(types or self._types, limit, wait_s, self._lease_s, worker))
        except Exception as error:
            if not is_passing(error):
                raise
            await asyncio.sleep(min(self._outage.failed(error), wait_s))
            return []
        self._outage.over()
        self.is_draining = batch.drain
        return self._in_hand(batch.jobs)

    def _in_hand(self, given: list[Given]) -> list[Job]:
        jobs = [Job(one, self._reporter, self._give_back) for one in given]
        self._keepalive.watch(jobs)
        return jobs

    # Jobs in

    async def add(
        self,
        job_type: str,
        *payloads: object,
        delay_s: float | None = None,
        priority: int | None = None,
        domain: str | None = None,
        unique: str | None = None,
        parent: str | None = None,
        key: str | None = None,
        repeat: str | None = None,
        max_attempts: int | None = None,
        retry_base_ms: int | None = None,
        retry_max_ms: int | None = None,
        retry_window_s: int | None = None,
        max_wait_s: int | None = None,
    ) -> list[str]:
        """A job for each payload: text, bytes, or anything that JSON can say. They are durable when it returns.
        With `repeat` and `unique` it is a schedule: adding it again changes it, also its payload; `repeat=""` ends it
        after the next round. Raises InvalidInput, NotFound for an unknown parent, Conflict while the job with the
        unique name is running, unless that is the same schedule, OverLimit for a payload that is too large."""
        check_type(job_type)
        if not payloads:
            raise InvalidInput("give a payload for each job: there is none")
        names = (domain, unique, parent, key)
        limits = (max_attempts, retry_base_ms, retry_max_ms, retry_window_s, max_wait_s)
        options = AddOptions(delay_s, priority, *names, repeat, *limits)
        check_options(options)
        check_number(options, len(payloads))
        return await self._link.add(job_type, [encode(payload) for payload in payloads], options)

    async def register(self, *types: str, **fields: object) -> None:
        """Have types served by workers: `body` describes the payload, `timeout_s` and `options` as docs/workers.md has
        them. Fields that are not given stay as they are. Raises InvalidInput, and Conflict for a type with a handler in
        another language, which is not replaced."""
        for job_type in types:
            check_type(job_type)
        for job_type in types:
            await self._link.register(job_type, fields)

    async def language(self, job_type: str) -> str | None:
        """Of the handler of a type; None if it has none, and "" if this key may not look."""
        return await self._link.language(job_type)

    async def worker_types(self) -> list[str] | None:
        """The types that workers serve; None if this key may not look."""
        return await self._link.worker_types()

    # The end

    async def close(self) -> None:
        """Give back what is in hand, and say goodbye. Idempotent: whoever closes it waits until it is closed, and one
        that is cancelled meanwhile leaves the rest to be done all the same. A server that is away gets half a minute
        for what jobs have said last, more if that is large, and a little for the goodbye: then leases lapse."""
        self.is_closed = True
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="closing of a queue")
        if not self._closing.done():
            await asyncio.shield(self._closing)

    def hurry(self) -> None:
        """Have a close, now or later, wait for hardly anything."""
        self._hurry.set()

    async def _close(self) -> None:
        try:
            within_s = _LAST_WORDS_S + self._reporter.sending_s
            await self._say_within(within_s, self._reporter.close(), "queue.ends_unsaid", self._reporter.unsaid)
            left = self._let_go(self._keepalive.jobs)
            if self._has_asked:  # or there is nobody to say goodbye to
                await self._say_within(_GOODBYE_S, self._return(left, self._name), "queue.no_goodbye", len(left))
        finally:
            try:
                await self._keepalive.close()
            finally:
                await self._link.close()

    async def _say_within(self, seconds: float, step: Coroutine[Any, Any, None], unsaid: str, jobs: int) -> None:
        """If that fails for now, the log has the event `unsaid`, and the leases will lapse."""
        try:
            await self._try_within(seconds, step)
        except Exception as error:
            if not is_passing(error):
                raise
            log.warning(unsaid, extra={"jobs": jobs, "reason": str(error)})

    async def _try_within(self, seconds: float, step: Coroutine[Any, Any, None]) -> None:
        """Raises ServerUnreachable if it takes longer, or more than a moment in a hurry."""
        task = asyncio.create_task(step)
        hurry = asyncio.create_task(self._hurry.wait())
        try:
            await asyncio.wait([task, hurry], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if hurry.done():
                await asyncio.wait([task], timeout=_HURRIED_S)
            if not task.done():
                raise ServerUnreachable("no answer in time")
            task.result()
        finally:
            for each in (task, hurry):
                each.cancel()
            await asyncio.gather(task, hurry, return_exceptions=True)

    async def _give_back(self, job: Job) -> None:
        await self._return([job], "")

    async def _give_back_all(self, jobs: list[Job]) -> None:
        left = self._let_go(jobs)
        if left and not self.is_closed:
            await self._return(left, "")

    @staticmethod
    def _let_go(jobs: list[Job]) -> list[Job]:
        """Those that can be given back: none whose end is being said, which may have been heard."""
        left = [job for job in jobs if not job.is_over and not job.is_ending and not job.lost.is_set()]
        for job in left:
            job.is_over = True
        return left

    async def _return(self, jobs: list[Job], goodbye: str) -> None:
        """The goodbye comes with the last of them."""
        deliveries = [job.delivery for job in jobs]
        while len(deliveries) > _MOST_GIVEN_BACK:
            await self._link.give_back(deliveries[:_MOST_GIVEN_BACK], "")
            del deliveries[:_MOST_GIVEN_BACK]
        await self._link.give_back(deliveries, goodbye)
