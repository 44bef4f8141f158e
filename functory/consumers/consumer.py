"""Works through jobs by index: finds new ones, hands them to workers, and keeps the progress.

Ensures:
- Every index from the start on is done at least once, also across crashes; none is skipped.
- The progress that is kept is the last index below which everything is done. It never falls.
- `scheduler.index_window` bounds how many are in work, and how far ahead of the first gap.
- However often `check` is called during a look, one more look follows.
- An exception of the source, the progress, the callback or a worker ends the consumer, and `done` raises it: leaving a
  gap is not an option. A cancellation of their own is one, too. `start` goes on from the progress that was kept.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from functory.consumers.roles import ConsumerProgress, Job, Jobs, Worker
from scheduler.index_window import IndexWindow, WindowLimits

T = TypeVar("T")

OnProgress = Callable[[int], Coroutine[Any, Any, None] | None]
"""Told the last index of each stretch that became consecutive, when that is durable. Moves that come close together
are told once, with the last index."""


class Consumer(Generic[T]):
    """Belongs to one event loop: other threads use `loop.call_soon_threadsafe(consumer.check)`."""

    def __init__(
        self,
        jobs: Jobs[T],
        worker: Worker[T],
        progress: ConsumerProgress,
        limits: WindowLimits,
        *,
        start_index: int = 1,
        on_progress: OnProgress | None = None,
    ) -> None:
        """start_index: where to begin if no progress was kept. Raises InvalidOptions."""
        self._jobs = jobs
        self._worker = worker
        self._progress = progress
        self._on_progress = on_progress
        self._start_index = start_index
        self._window = IndexWindow(start_index - 1, limits)
        self._saved = self._window.processed
        self._loop: asyncio.Task[None] | None = None
        self._working: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()
        self._looked = asyncio.Event()
        self._is_stopping = False
        self._is_looking = False
        self._is_cut = False
        self._is_ending_work = False
        """What works is cancelled by us."""
        self._turn = asyncio.Lock()
        """Of who starts or stops it."""
        self._failure: BaseException | None = None
        self.head = self._window.processed
        """What the source said at the last look."""

    @property
    def window(self) -> IndexWindow:
        """To be read; its limits may be changed."""
        return self._window

    @property
    def is_running(self) -> bool:
        return self._loop is not None and not self._loop.done()

    async def start(self) -> None:
        """Begin after the last processed index. Starting what runs changes nothing; what has stopped starts again."""
        async with self._turn:
            if self.is_running:
                return
            kept = await self._progress.processed_index()
            self._saved = self._start_index - 1 if kept is None else kept
            self._window = IndexWindow(self._saved, self._window.limits)
            self._woken, self._looked = asyncio.Event(), asyncio.Event()
            self._is_stopping = self._is_cut = self._is_ending_work = False
            self._failure = None
            self._loop = asyncio.create_task(self._consume(), name="consumer")

    async def stop(self, grace_s: float | None = None) -> None:
        """Start no more jobs, let those in work end, keep the progress. After grace_s what still works is
        cancelled, and so is a question that the source has not answered: the next look asks it again.

        Idempotent, and legal before start. Raises nothing of what a worker raised: `done` does. A worker or a callback
        of its own that calls it waits for nothing, because it is what the others would wait for: `done` does that, too.
        """
        async with self._turn:
            self._is_stopping = True
            self._woken.set()
        if self._loop is not None and asyncio.current_task() not in {self._loop, *self._working}:
            await asyncio.wait([self._loop], timeout=grace_s)
            self._cancel_working()
            if self._is_looking and not self._is_cut:
                self._is_cut = True
                self._loop.cancel()
            await asyncio.wait([self._loop])

    def check(self) -> None:
        """There may be new jobs. Returns at once."""
        self._woken.set()

    def notify_job_is_done(self, index: int) -> None:
        """For workers. Reporting twice changes nothing. Raises NotStarted for an index that was never handed out."""
        self._window.finish(index)
        self._woken.set()

    async def ready(self) -> None:
        """Wait until the first look is over: what could start has started. Raises what ended the consumer before."""
        if self._loop is not None:
            looked = asyncio.create_task(self._looked.wait())
            await asyncio.wait([looked, self._loop], return_when=asyncio.FIRST_COMPLETED)
            looked.cancel()
            if self._failure is not None:
                raise self._failure

    async def done(self) -> None:
        """Wait until it has stopped. Raises what ended it, if that was not `stop`."""
        if self._loop is not None:
            await asyncio.wait([self._loop])
        if self._failure is not None:
            raise self._failure

    # The loop

    async def _consume(self) -> None:
        try:
            while not self._is_over():
                self._woken.clear()
                await self._look_unless_cut()
                await self._save()
                self._looked.set()
                if not self._is_over():
                    await self._woken.wait()
            await self._save()
        except Exception as error:  # noqa: BLE001 (whatever it is, `done` raises it)
            self._failure = self._failure or error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._failure = self._failure or _raised_by("the source, the progress or the callback", error)
        finally:
            await self._end_working()

    def _is_over(self) -> bool:
        return self._failure is not None or (self._is_stopping and not self._working)

    async def _look_unless_cut(self) -> None:
        """Only a look can be cut: progress is kept as always."""
        self._is_looking = True
        try:
            await self._look()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._is_cut or task is None:
                raise
            task.uncancel()
        finally:
            self._is_looking = False

    async def _look(self) -> None:
        """Start what may start, until there is no job at an index or no worker for it."""
        if self._is_stopping:
            return
        self.head = await self._jobs.head()
        for index in self._window.startable(self.head):
            job = await self._jobs.at_index(index)
            if job is None or self._is_stopping:
                return
            self._window.start(index)
            self._run(job)

    def _run(self, job: Job[T]) -> None:
        work = self._worker.run(job, self)
        if work is not None:
            task = asyncio.create_task(work, name=f"index {job.index}")
            self._working.add(task)
            task.add_done_callback(self._worked)

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._working.discard(task)
        if task.cancelled():
            if not self._is_ending_work:
                self._failure = self._failure or _raised_by(f"the worker of {task.get_name()}")
        elif (error := task.exception()) is not None:
            self._failure = self._failure or error
        self._woken.set()

    async def _save(self) -> None:
        """Keep the progress if it moved, then tell of it."""
        processed = self._window.processed
        if processed > self._saved:
            await self._progress.set_processed_index(processed)
            self._saved = processed
            if self._on_progress is not None and (telling := self._on_progress(processed)) is not None:
                await telling

    def _cancel_working(self) -> None:
        self._is_ending_work = True
        for task in self._working:
            task.cancel()

    async def _end_working(self) -> None:
        self._cancel_working()
        if self._working:
            await asyncio.wait(list(self._working))


def _raised_by(whom: str, error: asyncio.CancelledError | None = None) -> RuntimeError:
    """In place of a cancellation: raised by `done`, that would look like one of whoever waits there."""
    failure = RuntimeError(f"{whom} raised CancelledError")
    failure.__cause__ = error
    return failure
