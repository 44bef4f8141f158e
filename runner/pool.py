"""The contexts that are alive: bounded in number and memory, kept warm for reuse, recycled before they grow
stale.

Ensures: a context serves one key for life, and a key names one tenant; at most `max_contexts` exist at any
time, starting ones included; whoever waits for room gets it in turn. When room is needed the idle context
that was used longest ago goes. Knows nothing of processes: it is given a function that starts a context and
asks it to close.
"""

import asyncio
import itertools
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from handlers.model import Handler

_MB: Final = 1 << 20
_MEASURE_EVERY_S: Final = 5.0


class ContextKey(NamedTuple):
    """What a context belongs to: one tenant and one version of one handler, or one eid of that tenant."""

    tenant: str
    share: str

    @classmethod
    def of(cls, tenant: str, handler: Handler) -> "ContextKey":
        share = f"eid {handler.eid} {handler.surroundings}" if handler.eid else f"version {handler.version}"
        return cls(tenant, share)


@dataclass(frozen=True, slots=True)
class PoolSettings:
    max_contexts: int = 64
    max_memory_bytes: int = 2048 * _MB
    max_jobs: int = 100_000  # a context is recycled after so many jobs,
    max_age_s: float = 3600.0  # so many seconds,
    max_slots: int = 64  # or so many handlers that share it
    idle_s: float = 600.0  # and ended when nobody used it for so long


class Pooled(Protocol):
    """What the pool asks of a context."""

    usable: bool
    jobs_run: int
    started_at: float

    @property
    def slots(self) -> int: ...
    def memory_bytes(self) -> int: ...
    async def close(self) -> None: ...


C = TypeVar("C", bound=Pooled)


class _Seat(Generic[C]):
    """A context and its place in the pool."""

    __slots__ = ("context", "key", "measured_at", "memory_bytes", "used", "used_at")

    def __init__(self, key: ContextKey, context: C, used: int) -> None:
        self.key = key
        self.context = context
        self.used = used  # grows with every use: the smallest is the least recently used
        self.used_at = 0.0
        self.memory_bytes = 0
        self.measured_at = -math.inf


class Pool(Generic[C]):
    """`async with pool.borrow(key, start) as context`.

    `close` ends every context; borrowed ones when they come back.
    """

    def __init__(self, settings: PoolSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._uses = itertools.count()
        self._idle: dict[ContextKey, list[_Seat[C]]] = {}
        self._seats = 0  # contexts that exist or are being started or ended
        self._busy: set[_Seat[C]] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @asynccontextmanager
    async def borrow(self, key: ContextKey, start: Callable[[], Awaitable[C]]) -> AsyncIterator[C]:
        """A context of `key`, warm if there is one.

        It goes back when the block ends, or is ended if it is not usable.
        """
        seat = self._take_idle(key) or await self._make(key, start)
        self._busy.add(seat)
        try:
            yield seat.context
        finally:
            self._busy.discard(seat)
            self._put_back(seat)

    async def prewarm(self, key: ContextKey, start: Callable[[], Awaitable[C]]) -> bool:
        """Have one idle context of `key` ready. False when there is no room that is not in use."""
        if self._closed or self._idle.get(key):
            return not self._closed
        if self._seats >= self._settings.max_contexts and not self._evict_one():
            return False
        self._put_back(await self._make(key, start))
        return True

    def warm(self) -> frozenset[ContextKey]:
        """Keys that have an idle context now: hints for whoever chooses what to run next."""
        return frozenset(key for key, seats in self._idle.items() if seats)

    def gauges(self) -> dict[str, int]:
        idle = sum(map(len, self._idle.values()))
        return {
            "contexts": self._seats,
            "busy": len(self._busy),
            "idle": idle,
            "memory_bytes": self._memory_bytes(),
        }

    async def sweep(self) -> None:
        """End idle contexts that are too old or that nobody used for long. Call it now and then."""
        now = self._clock()
        for seat in list(self._all_idle()):
            old = now - seat.context.started_at > self._settings.max_age_s
            unused = now - seat.used_at > self._settings.idle_s
            if old or unused or not seat.context.usable:
                self._remove_idle(seat)
                self._end(seat)
        await self._settle()

    async def retire(self, matches: Callable[[ContextKey], bool]) -> None:
        """End the idle contexts whose key matches: their handler was replaced or deleted."""
        for seat in [seat for seat in self._all_idle() if matches(seat.key)]:
            self._remove_idle(seat)
            self._end(seat)
        await self._settle()

    async def close(self) -> None:
        self._closed = True
        await self.retire(lambda _: True)

    # Making room
    # ------------------------------------------------------------------------------------------------

    def _take_idle(self, key: ContextKey) -> _Seat[C] | None:
        seats = self._idle.get(key, [])
        while seats:
            seat = seats.pop()  # the most recently used: the others may then grow old and go
            if not seats:
                del self._idle[key]
            if seat.context.usable:
                return seat
            self._end(seat)
        return None

    async def _make(self, key: ContextKey, start: Callable[[], Awaitable[C]]) -> _Seat[C]:
        await self._take_seat()
        try:
            context = await start()
        except BaseException:
            self._free_seat()
            raise
        return _Seat(key, context, next(self._uses))

    async def _take_seat(self) -> None:
        while self._seats >= self._settings.max_contexts:
            self._evict_one()
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except BaseException:
                if turn.done() and not turn.cancelled():
                    self._wake_next()
                raise
        self._seats += 1

    def _evict_one(self) -> bool:
        seat = min(self._all_idle(), key=lambda seat: seat.used, default=None)
        if seat is None:
            return False
        self._remove_idle(seat)
        self._end(seat)
        return True

    def _free_seat(self) -> None:
        self._seats -= 1
        self._wake_next()

    def _wake_next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    # Coming back
    # ------------------------------------------------------------------------------------------------

    def _put_back(self, seat: _Seat[C]) -> None:
        if self._closed or not self._worth_keeping(seat.context):
            self._end(seat)
            return
        seat.used = next(self._uses)
        seat.used_at = self._clock()
        self._idle.setdefault(seat.key, []).append(seat)
        if seat.used_at - seat.measured_at > _MEASURE_EVERY_S:
            seat.measured_at = seat.used_at
            self._in_background(self._measure(seat))
        if self._waiting and self._seats >= self._settings.max_contexts:
            self._evict_one()  # somebody waits for a place, and not for this key

    async def _measure(self, seat: _Seat[C]) -> None:
        seat.memory_bytes = await asyncio.to_thread(seat.context.memory_bytes)
        while self._memory_bytes() > self._settings.max_memory_bytes and self._evict_one():
            pass

    def _worth_keeping(self, context: C) -> bool:
        settings = self._settings
        return (
            context.usable
            and context.jobs_run < settings.max_jobs
            and context.slots < settings.max_slots
            and self._clock() - context.started_at < settings.max_age_s
        )

    def _memory_bytes(self) -> int:
        return sum(seat.memory_bytes for seat in itertools.chain(self._all_idle(), self._busy))

    def _all_idle(self) -> Iterator[_Seat[C]]:
        return itertools.chain.from_iterable(self._idle.values())

    def _remove_idle(self, seat: _Seat[C]) -> None:
        seats = self._idle[seat.key]
        seats.remove(seat)
        if not seats:
            del self._idle[seat.key]

    def _end(self, seat: _Seat[C]) -> None:
        """Close in the background. Its place is free only when it is gone: the bound is on processes."""
        self._in_background(self._close(seat))

    async def _close(self, seat: _Seat[C]) -> None:
        try:
            await seat.context.close()
        finally:
            self._free_seat()

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self) -> None:
        while self._tasks:
            await asyncio.gather(*self._tasks)
