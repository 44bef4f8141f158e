"""Group commit: all writes that arrive while one sync is under way share the next.

Nobody waits for company: an idle journal syncs a write at once, and under load the group forms by itself during the
sync before it. The delay that grouping adds is therefore at most one sync.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from threading import Lock

from journal.errors import JournalError
from journal.threads import OneThread
from journal.writer import Appended, SegmentWriter
from journal.writes import Write

Settled = Callable[[Exception | None], None]
"""Is told once, on the event loop: None if a write is durable, else the reason why it is not."""
_Waiting = tuple[Write, Settled]


class GroupCommit:
    """Hands writes from the event loop to the writer on its thread, and its verdict back."""

    def __init__(
        self,
        writer: SegmentWriter,
        executor: Executor,
        max_group_bytes: int,
        on_settled: Callable[[Appended | JournalError], None],
        monotonic_s: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._executor = executor
        self._post = executor.post if isinstance(executor, OneThread) else executor.submit
        self._max_group_bytes = max_group_bytes
        self._on_settled = on_settled
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        self._lock = Lock()
        self._is_writing = False
        self._attempt: asyncio.Future[None] | None = None
        self._monotonic_s = monotonic_s
        self._added = self._settled = 0
        self._draining: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Who waits until so many writes are settled."""
        self._moved_s = 0.0

    def add(self, write: Write, settled: Settled) -> None:
        if self._added == self._settled:
            self._moved_s = self._monotonic_s()
        self._added += 1
        with self._lock:
            self._waiting.append((write, settled))
            start, self._is_writing = not self._is_writing, True
        if start:
            self._post(self._write_groups)

    async def try_again(self) -> None:
        """Raises JournalUnavailable as long as a write would fail. `drain` waits also for an attempt whose caller was
        cancelled."""
        attempt = self._attempt = self._loop.run_in_executor(self._executor, self._writer.try_again)
        await asyncio.shield(attempt)

    @property
    def is_idle(self) -> bool:
        return self._added == self._settled

    @property
    def writing_s(self) -> float:
        """How long the group under way has been, 0 when there is none."""
        return 0.0 if self.is_idle else self._monotonic_s() - self._moved_s

    async def drain(self) -> None:
        """Wait until every write added so far is settled; failures belong to those who added them."""
        if not self.is_idle:
            settled = self._loop.create_future()
            self._draining.append((self._added, settled))
            await settled
        if self._attempt is not None and not self._attempt.done():
            await asyncio.wait([self._attempt])

    def _write_groups(self) -> None:
        """On the writer's thread: go on, group after group, as long as any write is waiting."""
        while group := self._take_group():
            try:
                verdict: Appended | Exception = self._writer.append([write for write, _ in group])
            except BaseException as error:  # noqa: BLE001 (whatever it is, the writers must hear of it)
                verdict = error if isinstance(error, Exception) else JournalError(repr(error))
            self._loop.call_soon_threadsafe(self._settle, group, verdict)

    def _take_group(self) -> list[_Waiting]:
        group: list[_Waiting] = []
        size = 0
        with self._lock:
            while self._waiting and (not group or size < self._max_group_bytes):
                group.append(self._waiting.popleft())
                size += group[-1][0].size_bytes
            self._is_writing = bool(group)
        return group

    def _settle(self, group: list[_Waiting], verdict: Appended | Exception) -> None:
        self._settled += len(group)
        self._moved_s = self._monotonic_s()
        if isinstance(verdict, (Appended, JournalError)):
            self._on_settled(verdict)
        for _, settled in group:
            try:
                settled(None if isinstance(verdict, Appended) else _own_copy(verdict))
            except Exception as error:  # noqa: BLE001 (of one writer: the others are told all the same)
                self._loop.call_exception_handler({"message": "a write was settled", "exception": error})
        while self._draining and self._draining[0][0] <= self._settled:
            _, drained = self._draining.popleft()
            if not drained.done():
                drained.set_result(None)


def tell(done: "asyncio.Future[None]", error: Exception | None) -> None:
    """Settle a future, unless who waited for it was cancelled."""
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def _own_copy(error: Exception) -> Exception:
    """Each writer raises an exception of its own, so that tracebacks do not pile up on a shared one."""
    if not isinstance(error, JournalError):
        return error
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
