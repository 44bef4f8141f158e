"""The stock of blank contexts: filled in the background, used once, bounded, and empty after close."""

import asyncio
from dataclasses import dataclass, field
from typing import cast

from runner.errors import LaunchError
from runner.sandbox.child import SandboxedChild
from runner.sandbox.stock import Stock


@dataclass(eq=False)
class FakeChild:
    alive: bool = True
    closed: bool = False

    def close(self) -> None:
        self.closed = True

    async def discard(self) -> None:
        self.alive = False
        self.closed = True


@dataclass
class Factory:
    made: list[FakeChild] = field(default_factory=list)
    broken: bool = False
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def make(self, _kind: str) -> SandboxedChild:
        self.asked.set()
        if self.broken:
            raise LaunchError("no")
        self.made.append(FakeChild())
        return cast("SandboxedChild", self.made[-1])


async def test_a_blank_context_is_ready_before_it_is_wanted_and_is_used_once() -> None:
    factory = Factory()
    stock = Stock(factory.make, spares=2, kinds=4)
    await stock.fill("python")
    assert len(factory.made) == 2
    taken = {id(await stock.take("python")), id(await stock.take("python"))}
    assert taken == {id(child) for child in factory.made[:2]}
    await stock.fill("python")
    assert len(factory.made) == 4
    await stock.close()
    assert all(child.closed for child in factory.made[2:])
    assert not any(child.closed for child in factory.made[:2])  # those belong to whoever took them


async def test_its_place_is_filled_a_moment_later_and_not_while_its_first_result_is_awaited() -> None:
    factory = Factory()
    stock = Stock(factory.make, spares=1, kinds=4)
    assert stock.take_ready("python") is None
    await stock.fill("python")
    factory.asked.clear()
    assert stock.take_ready("python") is not None
    await asyncio.sleep(0)
    assert not factory.asked.is_set()
    await asyncio.wait_for(factory.asked.wait(), 20)
    await stock.fill("python")
    assert len(factory.made) == 2
    await stock.close()


async def test_nothing_is_made_for_a_stock_that_was_closed_meanwhile() -> None:
    factory = Factory()
    stock = Stock(factory.make, spares=1, kinds=4)
    await stock.take("python")
    await stock.close()
    stock._refill("python")  # as the timer that `take` set will do
    assert not stock._filling
    assert len(factory.made) == 1


async def test_one_that_died_in_stock_is_not_given_out() -> None:
    factory = Factory()
    stock = Stock(factory.make, spares=1, kinds=4)
    await stock.fill("python")
    factory.made[0].alive = False
    taken = await stock.take("python")
    assert taken is not cast("SandboxedChild", factory.made[0])
    assert factory.made[0].closed
    await stock.close()


async def test_the_kind_that_was_wanted_longest_ago_makes_room() -> None:
    factory = Factory()
    stock = Stock(factory.make, spares=1, kinds=2)
    for kind in ("a", "b", "c"):
        await stock.fill(kind)
    assert [child.closed for child in factory.made] == [True, False, False]
    await stock.close()


async def test_without_spares_nothing_is_kept() -> None:
    factory = Factory()
    stock = Stock(factory.make, spares=0, kinds=2)
    await stock.take("a")
    await stock.fill("a")
    assert len(factory.made) == 1
    await stock.close()


async def test_trouble_in_the_background_is_met_again_by_the_next_launch() -> None:
    factory = Factory(broken=True)
    stock = Stock(factory.make, spares=1, kinds=2)
    await stock.fill("a")
    factory.broken = False
    await stock.take("a")
    assert len(factory.made) >= 1
    await stock.close()


@dataclass(eq=False)
class BusyChild(FakeChild):
    """Uses the processor all the time, as a thread that an import has left may do."""

    used_s: float = 0.0

    def cpu_s(self) -> float:
        self.used_s += 1.0
        return self.used_s


async def test_a_blank_context_that_works_on_is_ended() -> None:
    busy, idle = BusyChild(), BusyChild()
    idle.cpu_s = lambda: 1.0  # type: ignore[method-assign]
    made = iter([busy, idle])

    async def make(_kind: str) -> SandboxedChild:
        return cast("SandboxedChild", next(made))

    stock = Stock(make, spares=1, kinds=4, watch_s=0.001)
    await stock.fill("busy")
    await stock.fill("idle")
    async with asyncio.timeout(30):
        while busy.alive:  # noqa: ASYNC110 (it is found out by a look, and no event tells)
            await asyncio.sleep(0)
    assert stock.take_ready("busy") is None
    assert idle.alive
    await stock.close()


async def test_all_blank_contexts_of_some_kinds_can_be_taken_out() -> None:
    factory = Factory()
    stock = Stock(factory.make, spares=2, kinds=4)
    await stock.fill("python")
    await stock.fill("sh")
    assert stock.blanks(lambda kind: kind == "sh") == 2
    assert len(stock.take_all(lambda kind: kind == "sh")) == 2
    assert stock.blanks(lambda kind: kind == "sh") == 0
    assert stock.blanks(lambda kind: kind == "python") == 2
    await stock.close()
