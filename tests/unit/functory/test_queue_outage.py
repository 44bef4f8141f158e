"""A server that is away: how often it is asked again, and how much is said of that."""

import asyncio
import logging

import pytest

from functory.errors import ServerUnreachable
from functory.queue.link import Batch, Wish
from functory.queue.queue import Queue
from functory.queue.reporter import Reporter
from functory.workers.values import Answer, Delivery, Report, Verdict
from tests.support.virtual_time import run_in_virtual_time

HOUR_S = 3600.0


class AwayLink:
    """Cannot be reached until it is back."""

    def __init__(self, away_s: float) -> None:
        self.back_s = asyncio.get_running_loop().time() + away_s
        self.asked = 0

    def _ask(self) -> None:
        self.asked += 1
        if asyncio.get_running_loop().time() < self.back_s:
            raise ServerUnreachable("nobody listens there")

    async def take(self, wish: Wish) -> Batch:
        self._ask()
        return Batch([], drain=True)

    async def report(self, reports: list[Report]) -> list[Verdict]:
        self._ask()
        return [Verdict(report.delivery.id, Answer.OK) for report in reports]


def test_a_worker_asks_less_and_less_and_says_little(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> tuple[int, float]:
        link = AwayLink(HOUR_S)
        queue = Queue(link)  # type: ignore[arg-type]
        while not queue.is_draining:
            await queue.take_some("resize", wait_s=30)
        return link.asked, asyncio.get_running_loop().time() - link.back_s

    with caplog.at_level(logging.INFO, "functory.queue"):
        asked, late_s = run_in_virtual_time(story())
    assert HOUR_S / 10 <= asked <= HOUR_S / 5 + 10
    assert late_s <= 10
    events = [record.message for record in caplog.records]
    assert events[0] == "queue.take_again"
    assert events[-1] == "queue.reached_again"
    assert set(events[:-1]) == {"queue.take_again"}
    assert len(events) <= HOUR_S / 60 + 2


def test_an_end_arrives_soon_after_the_server_is_back() -> None:
    async def story() -> float:
        link = AwayLink(25.0)
        verdict = await Reporter(link).report(Report(Delivery("j1", 1), 200))  # type: ignore[arg-type]
        assert verdict.answer is Answer.OK
        return asyncio.get_running_loop().time() - link.back_s

    assert run_in_virtual_time(story()) <= 2


def test_what_never_arrives_is_raised() -> None:
    async def story() -> float:
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(ServerUnreachable):
            await Reporter(AwayLink(HOUR_S)).report(Report(Delivery("j1", 1), 200))  # type: ignore[arg-type]
        return asyncio.get_running_loop().time() - began_s

    assert run_in_virtual_time(story()) <= 40
