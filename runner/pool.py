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
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, KeysView
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from handlers.model import Handler
from runner.idle_meter import IdleMeter
from runner.memory_shares import MemoryShares
from vocabulary.sizes import MIB

_WORTH_A_CHARGE_S: Final = 0.001
_SPARE_SEATS: Final = 1 / 32
_PRESSED_S: Final = 1.0
"""When all seats were taken and one was needed, that part is kept free for so long: to end a context takes time."""
_FOR_BUILDS: Final = "(for builds)"
_FOR_ONCE: Final = "(for once)"
"""Whose share of the memory is used for contexts of a moment: those of a tenant must not wait for its long jobs."""


class ContextKey(NamedTuple):
    """What a context belongs to: one tenant and one version of one handler, or one eid of that tenant.

    A tenant that was deleted and one that got its name later are two: the incarnation tells them apart. So do the
    versions of the secrets that a context was given.
    """

    tenant: str
    share: str
    incarnation: int = 0
    secrets: str = ""

    @classmethod
    def of(cls, tenant: str, handler: Handler, incarnation: int = 0, secrets: str = "") -> "ContextKey":
        share = f"eid {handler.eid} {handler.surroundings}" if handler.eid else f"version {handler.version}"
        return cls(tenant, share, incarnation, secrets)

    def is_outdated_by(self, newer: "ContextKey") -> bool:
        """Whether it is for the same jobs, with other versions of their secrets."""
        return self[:3] == newer[:3] and self.secrets != newer.secrets


@dataclass(frozen=True, slots=True)
class PoolSettings:
    max_contexts: int = 64
    max_memory_bytes: int = 2048 * MIB
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
    @property
    def is_metered(self) -> bool:
        """Whether something of it may run while it is idle, and `cpu_s` is cheap: then it is asked at every turn."""

    def cpu_s(self) -> float: ...
    def memory_bytes(self) -> int: ...
    async def close(self) -> None: ...


C = TypeVar("C", bound=Pooled)


class Seat(Generic[C]):
    """A context and its place in the pool."""

    __slots__ = ("context", "key", "memory_bytes", "meter", "owner", "used", "used_at")

    def __init__(self, key: ContextKey, context: C, used: int) -> None:
        self.key = key
        self.context = context
        self.owner = ""
        """Whose share of the memory it counts in while it is in use, with `memory_bytes`."""
        self.memory_bytes = 0
        self.used = used  # grows with every use: the smallest is the least recently used
        self.used_at = 0.0
        self.meter = IdleMeter()


class Pool(Generic[C]):
    """`async with pool.borrow(key, start, memory_bytes) as context`, or `take` and `give_back`.

    `close` ends every context; borrowed ones when they come back.
    """

    def __init__(self, settings: PoolSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._uses = itertools.count()
        self._idle: dict[ContextKey, list[Seat[C]]] = {}
        """No list in it is empty."""
        self._seats = 0  # contexts that exist or are being started or ended
        self._ending = 0  # of those
        self._pressed_at = -math.inf  # when somebody last had to wait for a seat
        self._busy: set[Seat[C]] = set()
        self._retired: set[Seat[C]] = set()
        """Of those in use, the ones that nobody is to get any more."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._tasks: dict[asyncio.Task[None], ContextKey] = {}
        """In the background, with the key of the context that each is about."""
        self._memory = MemoryShares(settings.max_memory_bytes)
        self._idle_bytes = 0  # at the last look
        self._burnt: Callable[[str, float], None] | None = None
        self._closed = False

    def when_burnt(self, listener: Callable[[str, float], None]) -> None:
        """The listener is told of processor time that idle contexts of a tenant have used."""
        self._burnt = listener

    @property
    def max_context_bytes(self) -> int:
        """The most memory that one context may have."""
        return self._memory.most_of_one_bytes

    @asynccontextmanager
    async def borrow(
        self, key: ContextKey, start: Callable[[], Awaitable[C]], memory_bytes: int = 0, *, once: bool = False
    ) -> AsyncIterator[C]:
        """A context as from `take`. It goes back when the block ends."""
        seat = await self.take(key, start, memory_bytes, once=once)
        try:
            yield seat.context
        finally:
            self.give_back(seat)

    async def take(
        self, key: ContextKey, start: Callable[[], Awaitable[C]], memory_bytes: int = 0, *, once: bool = False
    ) -> Seat[C]:
        """A seat with a context of `key`, warm if there is one; `memory_bytes` is its limit. `once`: a new one, that
        nobody else gets. Whoever got it calls `give_back`."""
        owner = _FOR_ONCE if once else key.tenant
        await self._memory.take(owner, memory_bytes)
        try:
            if self._idle_bytes + self._memory.taken_bytes > self._settings.max_memory_bytes:
                self._make_room()
            seat = (None if once else self._take_idle(key)) or await self._make(key, start)
        except BaseException:
            self._memory.give_back(owner, memory_bytes)
            raise
        seat.owner, seat.memory_bytes = owner, memory_bytes
        self._busy.add(seat)
        return seat

    def give_back(self, seat: Seat[C]) -> None:
        """The context is ended if it is not usable."""
        self._busy.discard(seat)
        self._memory.give_back(seat.owner, seat.memory_bytes)
        if seat.owner == _FOR_ONCE or seat in self._retired:
            self._retired.discard(seat)
            self._end(seat)
        else:
            self._put_back(seat)

    @asynccontextmanager
    async def hold_memory(self, size_bytes: int) -> AsyncIterator[None]:
        """Have so much free for something that is not a context; idle contexts give way."""
        size_bytes = min(size_bytes, self._memory.most_of_one_bytes)
        await self._memory.take(_FOR_BUILDS, size_bytes)
        try:
            self._make_room()
            yield
        finally:
            self._memory.give_back(_FOR_BUILDS, size_bytes)

    @property
    def idle_keys(self) -> KeysView[ContextKey]:
        """A live view of the keys of which a context is idle."""
        return self._idle.keys()

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
        await self._watch()
        await self._settle(lambda _: True)

    async def retire(self, matches: Callable[[ContextKey], bool]) -> None:
        """End the contexts whose key matches: idle ones now, those in use when they come back."""
        self._retired |= {seat for seat in self._busy if matches(seat.key)}
        for seat in [seat for seat in self._all_idle() if matches(seat.key)]:
            self._remove_idle(seat)
            self._end(seat)
        await self._settle(matches)

    async def end(self, matches: Callable[[ContextKey], bool]) -> None:
        """As `retire`, and what runs in those in use is broken off."""
        busy = [seat for seat in self._busy if matches(seat.key)]
        await asyncio.gather(self.retire(matches), *(seat.context.close() for seat in busy))

    async def close(self) -> None:
        self._closed = True
        await self.retire(lambda _: True)
        while self._tasks:
            await self._settle(lambda _: True)

    # Making room
    # ------------------------------------------------------------------------------------------------

    def _take_idle(self, key: ContextKey) -> Seat[C] | None:
        seats = self._idle.get(key, [])
        while seats:
            seat = seats.pop()  # the most recently used: the others may then grow old and go
            if not seats:
                del self._idle[key]
            if seat.context.usable:
                if seat.context.is_metered:
                    self._charge(seat, seat.meter.charge(seat.context.cpu_s()))
                return seat
            self._end(seat)
        return None

    async def _make(self, key: ContextKey, start: Callable[[], Awaitable[C]]) -> Seat[C]:
        await self._take_seat()
        try:
            context = await start()
        except BaseException:
            self._free_seat()
            raise
        return Seat(key, context, next(self._uses))

    async def _take_seat(self) -> None:
        while self._seats >= self._settings.max_contexts:
            self._pressed_at = self._clock()
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

    def _put_back(self, seat: Seat[C]) -> None:
        now = self._clock()
        if self._closed or not self._worth_keeping(seat.context, now):
            self._end(seat)
            return
        seat.used = next(self._uses)
        seat.used_at = now
        seat.meter.rest(now, seat.context.cpu_s() if seat.context.is_metered else None)
        self._idle.setdefault(seat.key, []).append(seat)
        if seat.meter.is_memory_due(now):
            self._in_background(self._measure(seat), seat.key)
        is_waited_for = self._waiting and self._seats >= self._settings.max_contexts
        if is_waited_for or (now - self._pressed_at < _PRESSED_S and self._lacks_spare_seats()):
            self._evict_one()  # somebody waits for a place, and not for this key, or may do so soon

    def _lacks_spare_seats(self) -> bool:
        left = self._settings.max_contexts - self._seats + self._ending
        return left < int(self._settings.max_contexts * _SPARE_SEATS)

    async def _measure(self, seat: Seat[C]) -> None:
        seat.meter.memory_bytes = await asyncio.to_thread(seat.context.memory_bytes)
        self._make_room()

    def _make_room(self) -> None:
        """End idle contexts until what they use is free beside what those in use may take."""
        while True:
            self._idle_bytes = sum(seat.meter.memory_bytes for seat in self._all_idle())
            if self._idle_bytes + self._memory.taken_bytes <= self._settings.max_memory_bytes or not self._evict_one():
                return

    async def _watch(self) -> None:
        """Look at all idle contexts, together: a thread for each look would cost more than the looks."""
        seats = list(self._all_idle())
        if not seats:
            return
        uses = [seat.used for seat in seats]
        looks = await asyncio.to_thread(lambda: [_look_at(seat.context) for seat in seats])
        for seat, used, look in zip(seats, uses, looks, strict=True):
            if seat.used == used and seat in self._idle.get(seat.key, ()):  # it was not wanted meanwhile
                self._judge(seat, *look)
        self._make_room()

    def _judge(self, seat: Seat[C], used_s: float, memory_bytes: int) -> None:
        """End an idle context that goes on working, or grows: it should be doing nothing."""
        burnt_s, is_at_work = seat.meter.look(self._clock(), used_s, memory_bytes)
        self._charge(seat, burnt_s)
        if is_at_work:
            self._remove_idle(seat)
            self._end(seat)

    def _charge(self, seat: Seat[C], burnt_s: float) -> None:
        """What it has burnt since the last look, told to whoever keeps accounts."""
        if burnt_s > _WORTH_A_CHARGE_S and self._burnt is not None:
            self._burnt(seat.key.tenant, burnt_s)

    def _worth_keeping(self, context: C, now: float) -> bool:
        settings = self._settings
        return (
            context.usable
            and context.jobs_run < settings.max_jobs
            and context.slots < settings.max_slots
            and now - context.started_at < settings.max_age_s
        )

    def _memory_bytes(self) -> int:
        return sum(seat.meter.memory_bytes for seat in itertools.chain(self._all_idle(), self._busy))

    def _all_idle(self) -> Iterator[Seat[C]]:
        return itertools.chain.from_iterable(self._idle.values())

    def _remove_idle(self, seat: Seat[C]) -> None:
        seats = self._idle[seat.key]
        seats.remove(seat)
        if not seats:
            del self._idle[seat.key]

    def _end(self, seat: Seat[C]) -> None:
        """Close in the background. Its place is free only when it is gone: the bound is on processes."""
        self._ending += 1
        self._in_background(self._close(seat), seat.key)

    async def _close(self, seat: Seat[C]) -> None:
        try:
            await seat.context.close()
        finally:
            self._ending -= 1
            self._free_seat()

    def _in_background(self, work: Coroutine[None, None, None], key: ContextKey) -> None:
        task = asyncio.create_task(work)
        self._tasks[task] = key
        task.add_done_callback(lambda over: self._tasks.pop(over, None))

    async def _settle(self, matches: Callable[[ContextKey], bool]) -> None:
        """Wait for what is under way now. More may begin all the time: nobody waits for that, nor for the contexts of
        others."""
        tasks = [task for task, key in self._tasks.items() if matches(key)]
        await asyncio.gather(*tasks)
        for task in tasks:  # those that were over already took no turn of the loop, in which they would have gone
            self._tasks.pop(task, None)


def _look_at(context: Pooled) -> tuple[float, int]:
    """The processor time that it has used, and the memory that it uses."""
    return context.cpu_s(), context.memory_bytes()
