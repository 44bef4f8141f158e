"""Which jobs wait for others of their type, and for how long."""

import asyncio

import pytest

from functory.execution.straight import gathering
from functory.execution.straight.gathering import ENOUGH, MOMENT_S, Gathering
from tests.support.clocks import FakeClock


class Line:
    """Jobs that wait, and the starts that it was told."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.told: asyncio.Queue[str] = asyncio.Queue()
        self.gathering = Gathering(self.clock, self.told.put_nowait)


@pytest.fixture
async def line() -> Line:
    return Line()


async def test_a_job_that_finds_nothing_under_way_starts_at_once(line: Line) -> None:
    assert not line.gathering.waits_for_more("acme-x", 1)
    line.gathering.started("acme-x", 1)
    assert not line.gathering.waits_for_more("acme-y", 1), "another type is"
    line.gathering.ended(["acme-x"])
    assert not line.gathering.waits_for_more("acme-x", 1)


async def test_the_others_wait_for_more_until_the_moment_is_over(line: Line) -> None:
    line.gathering.started("acme-x", 1)
    assert line.gathering.waits_for_more("acme-x", 1)
    line.gathering.ended(["acme-x"])
    assert line.gathering.waits_for_more("acme-x", 2), "who has begun to wait waits on"
    assert line.told.empty()
    assert await line.told.get() == "acme-x"
    assert not line.gathering.waits_for_more("acme-x", 3)


async def test_a_run_that_takes_long_holds_nobody_up(line: Line) -> None:
    line.gathering.started("acme-x", 1)
    line.clock.elapsed_s += MOMENT_S
    assert not line.gathering.waits_for_more("acme-x", 1)


async def test_enough_of_them_start_at_once_and_gather_nobody(line: Line) -> None:
    line.gathering.started("acme-x", 1)
    assert not line.gathering.waits_for_more("acme-x", ENOUGH)
    line.gathering.started("acme-y", ENOUGH)
    assert not line.gathering.waits_for_more("acme-y", 1)


async def test_who_asks_for_one_starts_them_once(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "MOMENT_S", 3600.0)
    line.gathering.started("acme-x", 1)
    assert line.gathering.waits_for_more("acme-x", 1)
    line.gathering.hurry("acme-x")
    line.gathering.hurry("acme-x")
    line.gathering.hurry("acme-y")
    assert line.told.get_nowait() == "acme-x"
    assert line.told.empty()


async def test_a_start_ends_the_wait(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "MOMENT_S", 3600.0)
    line.gathering.started("acme-x", 1)
    assert line.gathering.waits_for_more("acme-x", 1)
    line.gathering.started("acme-x", 1)
    line.gathering.hurry("acme-x")
    assert line.told.empty(), "nothing waits any more"


async def test_only_so_many_types_are_remembered(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "_MOST_TYPES", 2)
    for jobtype in ("acme-x", "acme-y", "acme-z"):
        line.gathering.started(jobtype, 1)
    assert not line.gathering.waits_for_more("acme-x", 1)
    assert line.gathering.waits_for_more("acme-z", 1)
    line.gathering.close()
