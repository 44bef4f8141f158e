"""Functions as tasks, run side by side until they are told to stop.

    worker = Worker()

    @worker.task("resize")
    def resize(payload):
        return {"width": payload["width"] // 2}

`functory worker module:worker --concurrency 8` runs it. A stop is graceful: nothing more is taken, what runs may end
for a while, and the rest is given back.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from functory.errors import FunctoryError, InvalidInput, LeaseLost, OverLimit
from functory.queue.job import Job
from functory.queue.outage import Outage
from functory.queue.queue import Queue
from functory.queue.reporter import is_passing
from functory.queue.task_calls import call, parameters_of
from functory.queue.task_threads import TaskThreads, as_exception
from functory.queue.unserved import look_for_handlers
from functory.wire.add_options import check_type

log = logging.getLogger("functory.worker")

_WAIT_S: Final = 30.0
_MOST_AT_ONCE: Final = 1000
"""In one take: the server gives no more."""
_LONGEST_PAUSE_S: Final = 10.0
"""Until a server that is away is asked again to register a type."""
_JOB: Final = "job "
"""Before its id: the name of the task that works on it."""
_F = TypeVar("_F", bound=Callable[..., Any])


class Worker:
    def __init__(self) -> None:
        self._tasks: dict[str, tuple[Callable[..., Any], dict[str, object]]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._is_free = asyncio.Event()
        self._is_drained = False
        self._queue: Queue | None = None

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(self._tasks)

    def task(self, job_type: str, **fields: object) -> Callable[[_F], _F]:
        """Have a function work on the jobs of a type. With fields (`timeout_s`, `options`, ...), or with
        `register=True`, the type is registered when the worker starts, as `Queue.register` does; that needs a key with
        the scope `handlers`."""

        def decorate(function: _F) -> _F:
            check_type(job_type)
            if job_type in self._tasks:
                raise InvalidInput(f"type {job_type} has two tasks")
            parameters_of(function)
            self._tasks[job_type] = (function, fields)
            return function

        return decorate

    def stop(self) -> None:
        """Take no more jobs; again: end those that run. They are given back, and a server that is away is not waited
        for, neither here nor when the queue is closed."""
        if self._stop.is_set():
            for task in list(self._running):
                task.cancel()
            if self._queue is not None:
                self._queue.hurry()
        self._stop.set()

    async def run(
        self, queue: Queue, *, concurrency: int = 1, grace_s: float = 30.0, begun: Callable[[], None] | None = None
    ) -> None:
        """Work until `stop`. Jobs that run then have `grace_s` to end. One that is drained ends when its jobs have,
        however long they take. begun: called when its types are registered, unless it was stopped before. Raises what
        `Queue.register` raises, but asks a server again that is away."""
        if concurrency < 1:
            raise InvalidInput(f"concurrency must be 1 or more, not {concurrency}")
        if not self._tasks:
            raise InvalidInput("the worker has no tasks: decorate a function with @worker.task(type)")
        self._queue = queue
        stopped = asyncio.create_task(self._stop.wait())
        looking: asyncio.Task[None] | None = None
        threads = TaskThreads()
        try:
            await self._register(queue, stopped)
            if not self._stop.is_set():
                if begun is not None:
                    begun()
                looking = asyncio.create_task(
                    look_for_handlers(queue, self._unregistered, "worker", "register=True"), name="look for handlers"
                )
            while not self._stop.is_set() and not self._is_drained:
                await self._take(queue, concurrency, stopped, threads)
            while not self._stop.is_set() and self._running:
                await asyncio.wait([*self._running, stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if looking is not None:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
            await self._finish(grace_s)
            threads.close()

    @property
    def _unregistered(self) -> list[str]:
        return [job_type for job_type, (_, fields) in self._tasks.items() if not _is_registered(fields)]

    async def _register(self, queue: Queue, stopped: "asyncio.Task[bool]") -> None:
        """Until it is told to stop: a server that does not answer does not keep it, and one that is away is asked
        again."""

        async def register() -> None:
            for job_type, (_, fields) in self._tasks.items():
                if _is_registered(fields):
                    said = {name: value for name, value in fields.items() if name != "register"}
                    await _register_type(queue, job_type, said)

        registering: asyncio.Task[Any] = asyncio.create_task(register(), name="register types")
        try:
            await asyncio.wait([registering, stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            registering.cancel()
            await asyncio.gather(registering, return_exceptions=True)
        if not registering.cancelled():
            registering.result()

    async def _take(self, queue: Queue, concurrency: int, stopped: "asyncio.Task[bool]", threads: TaskThreads) -> None:
        """Start as many jobs as there is room for, or wait for room."""
        free = concurrency - len(self._running)
        if free <= 0:
            self._is_free.clear()
            waiting: asyncio.Task[Any] = asyncio.create_task(self._is_free.wait())
            try:
                await asyncio.wait([waiting, stopped], return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
            return
        taking = asyncio.create_task(
            queue.take_some(*self.types, limit=min(free, _MOST_AT_ONCE), wait_s=_WAIT_S, capacity=concurrency)
        )
        room: asyncio.Task[Any] = taking
        try:
            await asyncio.wait([room, stopped], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _take_back(taking)
            raise
        if not taking.done():
            await _take_back(taking)
            return
        if queue.is_draining:
            log.warning("worker.drained")
            self._is_drained = True
        for job in taking.result():
            task = asyncio.create_task(self._work(job, threads), name=f"{_JOB}{job.id}")
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        self._is_free.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            job_id = task.get_name().removeprefix(_JOB)
            trace = None if isinstance(error, FunctoryError) else error  # what a server says needs none
            log.error("worker.job_not_reported", extra={"id": job_id, "reason": str(error)}, exc_info=trace)

    async def _work(self, job: Job, threads: TaskThreads) -> None:
        """A job whose lease is lost is stopped: its outcome would not count."""
        async with job:
            work = asyncio.ensure_future(call(self._tasks[job.type][0], job, threads))
            lost = asyncio.ensure_future(job.lost.wait())
            try:
                await asyncio.wait([work, lost], return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    raise LeaseLost(f"job {job.id} was lost while it ran")
                job.result = _result(work)
            finally:
                for task in (work, lost):
                    task.cancel()
                await asyncio.gather(work, lost, return_exceptions=True)

    async def _finish(self, grace_s: float) -> None:
        if self._running:
            log.info("worker.finishing", extra={"jobs": len(self._running)})
            await asyncio.wait(self._running, timeout=grace_s)
        for task in list(self._running):
            task.cancel()
        if self._running:
            await asyncio.gather(*self._running, return_exceptions=True)


async def _register_type(queue: Queue, job_type: str, fields: Mapping[str, object]) -> None:
    """Raises what `Queue.register` does, unless it may do better later."""
    outage = Outage("worker.register_again", _LONGEST_PAUSE_S)
    while True:
        try:
            await queue.register(job_type, **fields)
        except OverLimit:  # a quota
            raise
        except Exception as error:
            if not is_passing(error):
                raise
            await asyncio.sleep(outage.failed(error))
        else:
            return outage.over()


def _result(work: "asyncio.Future[Any]") -> Any:
    """Raises what the task raised. A GeneratorExit is its own by now, and would seem to be the end of the program."""
    try:
        return work.result()
    except GeneratorExit as error:
        raise as_exception(error) from error


def _is_registered(fields: Mapping[str, object]) -> bool:
    return bool(fields.get("register", bool(fields)))


async def _take_back(taking: "asyncio.Task[list[Job]]") -> None:
    """Nobody will work on what it brings. Whatever is on its way comes back by its lease, or with the goodbye."""
    taking.cancel()
    (jobs,) = await asyncio.gather(taking, return_exceptions=True)
    if not isinstance(jobs, BaseException):
        await asyncio.gather(*(job.give_back() for job in jobs), return_exceptions=True)
