"""When types that lack a token are told of: at their time, together, and with pauses."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from functory.loops import token_alarm
from functory.loops.token_alarm import TokenAlarm
from tests.support.virtual_time import run_in_virtual_time

Story = Callable[[TokenAlarm], Coroutine[Any, Any, None]]


def told_by(story: Story) -> list[tuple[float, list[str]]]:
    """What an alarm tells, and when after the beginning."""

    async def run() -> list[tuple[float, list[str]]]:
        loop = asyncio.get_running_loop()
        told: list[tuple[float, list[str]]] = []
        began_s = loop.time()
        alarm = TokenAlarm(lambda jobtypes: told.append((round(loop.time() - began_s, 6), jobtypes)))
        await story(alarm)
        await asyncio.sleep(10)
        return told

    return run_in_virtual_time(run())


def test_each_type_is_told_of_once_at_the_time_that_was_said_last() -> None:
    async def story(alarm: TokenAlarm) -> None:
        alarm.set("later", 0.5)
        alarm.set("moved", 0.1)
        alarm.set("sooner", 0.2)
        alarm.set("moved", 0.4)
        alarm.set("sooner", 0.05)

    assert told_by(story) == [(0.05, ["sooner"]), (0.4, ["moved"]), (0.5, ["later"])]


def test_a_time_can_be_set_while_types_are_told_of() -> None:
    async def run() -> list[float]:
        loop = asyncio.get_running_loop()
        began_s, told = loop.time(), list[float]()

        def again(jobtypes: list[str]) -> None:
            told.append(round(loop.time() - began_s, 6))
            if len(told) < 3:
                alarm.set(jobtypes[0], 0.01)

        alarm = TokenAlarm(again)
        alarm.set("acme-x", 0.01)
        await asyncio.sleep(1)
        return told

    assert run_in_virtual_time(run()) == [0.01, 0.02, 0.03]


def test_after_long_work_the_next_types_wait_and_are_told_of_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """So very many types with high rates leave the loop to the others for most of the time."""

    async def run() -> list[tuple[float, int]]:
        loop: Any = asyncio.get_running_loop()
        began_s, told = loop.time(), list[tuple[float, int]]()

        def work(jobtypes: list[str]) -> None:
            told.append((round(loop.time() - began_s, 6), len(jobtypes)))
            loop._jump.now_s += 0.02

        alarm = TokenAlarm(work)
        for number in range(50):
            alarm.set(f"acme-{number}", 0.001 * (number + 1))
        await asyncio.sleep(1)
        return told

    monkeypatch.setattr(token_alarm, "_PAUSE_PART", 1)
    told = run_in_virtual_time(run())
    assert [at_s for at_s, _ in told] == [0.001, 0.041, 0.081]
    assert sum(count for _, count in told) == 50
