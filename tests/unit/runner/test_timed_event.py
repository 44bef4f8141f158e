"""Waits of one after the other on one timer: each ends with what it waits for, or when its own time is over."""

import asyncio
import contextlib
import gc
import weakref

from runner.timed_event import TimedEvent
from tests.support.virtual_time import run_in_virtual_time


def test_each_wait_has_its_own_bound_whatever_those_before_it_had() -> None:
    async def waits() -> list[float]:
        loop, event = asyncio.get_running_loop(), TimedEvent()
        took_s: list[float] = []
        for seconds in (5, 60, 2, 2, 30):
            begun = loop.time()
            assert not await event.wait(seconds)
            took_s.append(round(loop.time() - begun, 6))
        return took_s

    assert run_in_virtual_time(waits()) == [5, 60, 2, 2, 30]


def test_a_timer_of_an_earlier_wait_does_not_end_a_later_one() -> None:
    async def waits() -> float:
        loop, event = asyncio.get_running_loop(), TimedEvent()
        loop.call_later(1, event.set)
        assert await event.wait(5)
        event.clear()
        begun = loop.time()
        assert not await event.wait(60)
        return round(loop.time() - begun, 6)

    assert run_in_virtual_time(waits()) == 60


def test_a_shorter_bound_holds_while_the_timer_of_a_longer_one_runs() -> None:
    async def waits() -> float:
        loop, event = asyncio.get_running_loop(), TimedEvent()
        loop.call_later(1, event.set)
        assert await event.wait(600)
        event.clear()
        begun = loop.time()
        assert not await event.wait(3)
        return round(loop.time() - begun, 6)

    assert run_in_virtual_time(waits()) == 3


async def test_what_is_set_already_is_not_waited_for() -> None:
    event = TimedEvent()
    event.set()
    event.set()
    assert await event.wait(0)


def test_a_wait_that_was_cancelled_leaves_the_event_to_the_next() -> None:
    async def waits() -> bool:
        event = TimedEvent()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(event.wait(5), 1)
        await asyncio.sleep(10)  # its time comes, and nobody waits
        asyncio.get_running_loop().call_later(1, event.set)
        return await event.wait(5)

    assert run_in_virtual_time(waits())


async def test_the_loop_lets_go_of_one_that_is_closed() -> None:
    event = TimedEvent()
    asyncio.get_running_loop().call_soon(event.set)
    assert await event.wait(600)
    event.close()
    event.close()
    gone = weakref.ref(event)
    del event
    gc.collect()
    assert gone() is None
