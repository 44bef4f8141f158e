"""What the loops wait with: deadlines that share a timer, tasks that stay, news for whoever waits."""

import asyncio
from contextlib import suppress

import pytest

from functory.loops.couriers import Couriers
from functory.loops.deadlines import Deadlines
from functory.loops.next_time import NextTime
from tests.support.virtual_time import run_in_virtual_time


def test_each_is_told_when_its_time_has_come_and_none_that_is_over() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        told: list[tuple[str, float]] = []
        deadlines = Deadlines[str](1.0, lambda what: told.append((what, round(loop.time() - began_s, 3))))
        first = deadlines.begin("first")
        deadlines.begin("second")
        await asyncio.sleep(0.5)
        first.cancel()
        first.cancel()
        deadlines.begin("third")
        await asyncio.sleep(0.7)
        deadlines.begin("fourth").cancel()
        await asyncio.sleep(5)
        deadlines.begin("fifth")
        await asyncio.sleep(2)
        assert told == [("second", 1.0), ("third", 1.5), ("fifth", 7.2)]

    run_in_virtual_time(run())


def test_nothing_is_told_after_the_end() -> None:
    async def run() -> None:
        told: list[str] = []
        deadlines = Deadlines[str](1.0, told.append)
        deadlines.begin("one")
        deadlines.close()
        await asyncio.sleep(2)
        assert told == []

    run_in_virtual_time(run())


async def test_all_who_wait_hear_of_the_next_time_and_of_no_earlier_one() -> None:
    news = NextTime()
    news.tell()
    waiting = [asyncio.ensure_future(news.wait()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)
    news.tell()
    await asyncio.gather(*waiting)
    later = asyncio.ensure_future(news.wait())
    await asyncio.sleep(0)
    assert not later.done()
    later.cancel()


class Doors:
    """Delivers when it is let in."""

    def __init__(self) -> None:
        self.open: dict[str, asyncio.Event] = {}
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.delivered: asyncio.Queue[str] = asyncio.Queue()
        self.tasks: set[object] = set()

    async def deliver(self, name: str) -> None:
        self.tasks.add(asyncio.current_task())
        self.begun.put_nowait(name)
        await self.open.setdefault(name, asyncio.Event()).wait()
        self.delivered.put_nowait(name)


async def test_nobody_waits_for_another_delivery_and_tasks_are_used_again() -> None:
    doors = Doors()
    couriers = Couriers(doors.deliver)
    couriers.send("too early")
    running = asyncio.ensure_future(couriers.run(["held up"]))
    assert await doors.begun.get() == "held up", "nothing came before this ran"
    for name in ("a", "b", "c"):
        couriers.send(name)
        assert await doors.begun.get() == name
        doors.open[name].set()
        assert await doors.delivered.get() == name
    assert len(doors.tasks) == 2
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    couriers.send("too late")
    await asyncio.sleep(0)
    assert doors.begun.empty()
    assert doors.delivered.empty()


async def test_whoever_sends_while_a_delivery_has_failed_hears_nothing_of_that() -> None:
    """The couriers that were idle are cancelled two turns before the loop ends. Whoever sent meanwhile was raised an
    InvalidStateError, or the RuntimeError of a group of tasks that is shutting down."""

    async def deliver(name: str) -> None:
        if name == "bad":
            raise ValueError(name)

    couriers = Couriers(deliver)
    running = asyncio.ensure_future(couriers.run(["a", "b", "c"]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # all three are idle now
    couriers.send("bad")
    while not running.done():
        await asyncio.sleep(0)
        couriers.send("d")
    with pytest.raises(ExceptionGroup) as raised:
        await running
    assert raised.group_contains(ValueError, match="bad")
