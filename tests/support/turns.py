"""Two stores taking turns: one is stopped between two of its steps, the other does a whole verb, the first goes on.

A step is a command to a MongoDB server, or a call of the reading or writing threads of a SQLite store. Whatever a verb
reads before it stops may be out of date when it goes on: that is what its conditional writes are for.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, TypeVar

from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from store.base import Store
from store.checked import CheckedStore
from store.mongo import MongoStore
from store.sqlite import SqliteStore, store_from_url
from store.url import open_store

T = TypeVar("T")
_PATIENCE_S: Final = 30.0
_NOT_COUNTED: Final = frozenset({"hello", "ismaster", "endSessions"})


class Turn(CommandListener):
    """Stops whoever comes to the chosen step until it is let go. Called on threads, never on the event loop."""

    def __init__(self) -> None:
        self.steps = 0
        self._stop_at = 0
        self._lock = threading.Lock()
        self._reached = threading.Event()
        self._go = threading.Event()

    def arm(self, stop_at: int) -> None:
        """Count from here, and stop before the so-manieth step; 0 stops never."""
        self.steps, self._stop_at = 0, stop_at
        self._reached.clear()
        self._go.clear()

    def step(self) -> None:
        with self._lock:
            self.steps += 1
            is_here = self.steps == self._stop_at
        if is_here:
            self._reached.set()
            assert self._go.wait(_PATIENCE_S)

    async def reached(self) -> None:
        await asyncio.to_thread(self._reached.wait, _PATIENCE_S)

    def go(self) -> None:
        self._reached.set()
        self._go.set()

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name not in _NOT_COUNTED:
            self.step()

    def succeeded(self, event: CommandSucceededEvent) -> None:
        pass

    def failed(self, event: CommandFailedEvent) -> None:
        pass


class Pair(NamedTuple):
    """Two objects on one database; the first stops where its turn says."""

    first: Store
    other: Store
    turn: Turn


@asynccontextmanager
async def open_pair(url: str) -> AsyncIterator[Pair]:
    turn = Turn()
    async with CheckedStore(_stopping(url, turn)) as first, open_store(url) as other:
        yield Pair(first, other, turn)


def _stopping(url: str, turn: Turn) -> Store:
    if url.startswith("mongodb"):
        return MongoStore(url, listeners=[turn])
    store = store_from_url(url)
    assert isinstance(store, SqliteStore)
    _stop_at_calls(store, turn)
    return store


def _stop_at_calls(store: SqliteStore, turn: Turn) -> None:
    for part in (store._writer, store._readers):
        call = part.call

        async def stopped(*args: Any, _call: Callable[..., Awaitable[Any]] = call, **more: Any) -> Any:
            await asyncio.to_thread(turn.step)
            return await _call(*args, **more)

        vars(part)["call"] = stopped


async def interleave(
    pair: Pair, one: Callable[[Store], Awaitable[T]], other: Callable[[Store], Awaitable[T]], stop_at: int
) -> tuple[T, T, bool]:
    """What both returned, and whether the first really was stopped."""
    pair.turn.arm(stop_at)
    running = asyncio.ensure_future(one(pair.first))
    running.add_done_callback(lambda _: pair.turn.go())
    await pair.turn.reached()
    was_stopped = not running.done()
    done = await other(pair.other)
    pair.turn.go()
    result = await running
    assert pair.turn.steps, "not one step was seen"
    return result, done, was_stopped
