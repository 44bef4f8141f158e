"""The alarm rings when the store's next deferred job comes due, and asks the store no more often than it must."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from functory.execution.due_alarm import DueAlarm
from store.errors import StoreUnavailable
from tests.support.clocks import FakeClock
from tests.support.virtual_time import run_in_virtual_time

T0 = 1_800_000_000_000


class LoopClock(FakeClock):
    """The time of the loop, which began at T0; `wall_ms` can be set apart from it."""

    def now_ms(self) -> int:
        return self.wall_ms + round((asyncio.get_running_loop().time() - 1000.0) * 1000)


class Calendar:
    """A store of due times."""

    def __init__(self, *due_ms: int) -> None:
        self.due_ms = list(due_ms)
        self.asked = 0
        self.is_away = False

    async def get_next_due(self, *, after_ms: int) -> int | None:
        self.asked += 1
        if self.is_away:
            raise StoreUnavailable("away")
        return min((each for each in self.due_ms if each > after_ms), default=None)


def rings(
    calendar: Calendar,
    during: Callable[[DueAlarm, LoopClock], Awaitable[None]] | None = None,
    *,
    for_s: float = 10.0,
    poll_s: float = 3600.0,
) -> list[int]:
    """When it rang, in ms after T0."""

    async def listen() -> list[int]:
        clock, rung = LoopClock(T0), list[int]()
        store: Any = calendar
        alarm = DueAlarm(store, clock, poll_s, lambda: rung.append(clock.now_ms() - T0))
        task = asyncio.create_task(alarm.run())
        if during is not None:
            await during(alarm, clock)
        await asyncio.sleep(for_s)
        task.cancel()
        return rung

    return run_in_virtual_time(listen())


def is_about(found: list[int], expected: list[int]) -> bool:
    return len(found) == len(expected) and all(0 <= a - b <= 60 for a, b in zip(found, expected, strict=True))


def test_it_rings_when_each_comes_due() -> None:
    calendar = Calendar(T0 + 500, T0 + 2500)
    assert is_about(rings(calendar), [500, 2500])
    assert calendar.asked == 3


def test_those_that_are_close_together_are_rung_for_together() -> None:
    """And the last of them is not forgotten."""
    found = rings(Calendar(*range(T0 + 1000, T0 + 2000, 5)))
    assert len(found) <= 21
    assert found[-1] >= 1995


def test_it_hears_of_one_that_comes_due_sooner() -> None:
    calendar = Calendar(T0 + 5000)

    async def sooner(alarm: DueAlarm, _: LoopClock) -> None:
        await asyncio.sleep(1)
        calendar.due_ms.append(T0 + 2000)
        alarm.ask()

    assert is_about(rings(calendar, sooner), [2000, 5000])


def test_what_nobody_told_of_is_found_at_a_poll() -> None:
    calendar = Calendar()

    async def unheard(_alarm: DueAlarm, _clock: LoopClock) -> None:
        await asyncio.sleep(0.5)
        calendar.due_ms.append(T0 + 700)

    assert is_about(rings(calendar, unheard, poll_s=1.0), [1000])


def test_a_store_that_is_away_is_asked_at_the_next_poll() -> None:
    calendar = Calendar(T0 + 1500)

    async def comes_back(_alarm: DueAlarm, _clock: LoopClock) -> None:
        calendar.is_away = True
        await asyncio.sleep(0.5)
        calendar.is_away = False

    assert is_about(rings(calendar, comes_back, poll_s=1.0), [1500])


def test_after_the_clock_was_set_back_it_rings_again() -> None:
    calendar = Calendar(T0 + 1000)

    async def set_back(_alarm: DueAlarm, clock: LoopClock) -> None:
        await asyncio.sleep(2)
        clock.wall_ms -= 1500  # it is T0 + 500 again
        calendar.due_ms.append(T0 + 900)

    assert is_about(rings(calendar, set_back, poll_s=0.3), [1000, 900, 1000])


def test_many_news_are_one_question() -> None:
    calendar = Calendar()

    async def news(alarm: DueAlarm, _clock: LoopClock) -> None:
        for _ in range(1000):
            alarm.ask()
            await asyncio.sleep(0.001)

    rings(calendar, news, for_s=1.0)
    assert calendar.asked <= 22
