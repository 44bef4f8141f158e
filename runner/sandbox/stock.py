"""A small stock of blank contexts: locked, waiting, and without a tenant, so that a launch need not wait for
the kernel.

Kept per kind of context that was wanted before. A blank one has never seen a byte of any tenant; it is used
once.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from runner.errors import LaunchError
from runner.sandbox.child import SandboxedChild

# Making a context keeps a core and the event loop busy for milliseconds: those in which whoever took the last one waits
# for its first result.
_CALM_S: Final = 0.005

_BUSY_PART: Final = 0.1

Kind = TypeVar("Kind", bound=Hashable)


class Stock(Generic[Kind]):
    """`make` makes a blank context.

    At most `kinds` kinds are kept, `spares` of each; 0 spares: none are kept. With `watch_s`, blank contexts have run
    code that is not ours: one that uses the processor for that long is ended.
    """

    def __init__(
        self, make: Callable[[Kind], Awaitable[SandboxedChild]], *, spares: int, kinds: int, watch_s: float = 0.0
    ) -> None:
        self._make = make
        self._spares = spares
        self._kinds = kinds
        self._blanks: OrderedDict[Kind, list[SandboxedChild]] = OrderedDict()
        self._filling: dict[Kind, asyncio.Task[None]] = {}
        self._watch_s = watch_s
        self._watching: set[asyncio.Task[None]] = set()
        self._closed = False

    async def take(self, kind: Kind) -> SandboxedChild:
        """A blank context of this kind, from stock if there is one; another takes its place in the
        background, a moment later.
        """
        child = self.take_ready(kind)
        if child is None:
            child = await self._make(kind)
            self._refill_soon(kind)
        return child

    def take_ready(self, kind: Kind) -> SandboxedChild | None:
        """As `take`, but None when there is none in stock."""
        blanks = self._blanks.get(kind, [])
        while blanks:
            child = blanks.pop(0)
            if child.alive:
                self._refill_soon(kind)
                return child
            child.close()
        return None

    async def fill(self, kind: Kind) -> None:
        """Return when the stock of this kind is full."""
        self._refill(kind)
        if (task := self._filling.get(kind)) is not None:
            await task

    def blanks(self, matches: Callable[[Kind], bool]) -> int:
        return sum(len(blanks) for kind, blanks in self._blanks.items() if matches(kind))

    def take_all(self, matches: Callable[[Kind], bool]) -> list[SandboxedChild]:
        """All blank contexts of these kinds, which are not kept any more. The caller ends them."""
        kinds = [kind for kind in self._blanks if matches(kind)]
        return [child for kind in kinds for child in self._blanks.pop(kind)]

    async def close(self) -> None:
        """End all blank contexts. Idempotent."""
        self._closed = True
        for watch in tuple(self._watching):
            watch.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        await asyncio.gather(*self._filling.values())
        blanks, self._blanks = self._blanks, OrderedDict()
        await asyncio.gather(*(child.discard() for children in blanks.values() for child in children))

    def _refill_soon(self, kind: Kind) -> None:
        asyncio.get_running_loop().call_later(_CALM_S, self._refill, kind)

    def _refill(self, kind: Kind) -> None:
        if self._spares and not self._closed and kind not in self._filling:
            task = asyncio.create_task(self._fill(kind))
            self._filling[kind] = task
            task.add_done_callback(lambda _: self._filling.pop(kind, None))

    async def _fill(self, kind: Kind) -> None:
        blanks = self._blanks.setdefault(kind, [])
        self._blanks.move_to_end(kind)
        while len(self._blanks) > self._kinds:
            _, dropped = self._blanks.popitem(last=False)
            await asyncio.gather(*(child.discard() for child in dropped))
        while len(blanks) < self._spares and not self._closed:
            try:
                child = await self._make(kind)
            except LaunchError:
                return  # the next launch will meet the same trouble and report it
            if self._blanks.get(kind) is not blanks:  # the kind was dropped meanwhile
                await child.discard()
                return
            blanks.append(child)
            if self._watch_s:
                watch = asyncio.create_task(self._watch(blanks, child))
                self._watching.add(watch)
                watch.add_done_callback(self._watching.discard)

    async def _watch(self, blanks: list[SandboxedChild], child: SandboxedChild) -> None:
        """End a blank context that goes on working once it has had time to get ready."""
        before_s: float | None = None
        while True:
            await asyncio.sleep(self._watch_s)
            if child not in blanks:
                return
            used_s = await asyncio.to_thread(child.cpu_s)
            if before_s is not None and used_s - before_s > _BUSY_PART * self._watch_s and child in blanks:
                blanks.remove(child)
                await child.discard()
                return
            before_s = used_s
