"""A server that is away: how often it is asked again, and how much is said of that."""

import asyncio
import logging

import pytest

from functory.errors import ClientError, ServerUnreachable
from functory.queue.link import Batch, Given, Wish
from functory.queue.outage import Outage
from functory.queue.queue import Queue
from functory.queue.reporter import Reporter
from functory.queue.worker import Worker as FunctionWorker
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


def test_a_server_that_was_away_at_first_is_asked_why_nothing_comes(caplog: pytest.LogCaptureFixture) -> None:
    class Bare(AwayLink):
        """Has no handler, and no jobs for a minute."""

        async def take(self, wish: Wish) -> Batch:
            self._ask()
            await asyncio.sleep(wish.wait_s)
            return Batch([], drain=asyncio.get_running_loop().time() > self.back_s + 60)

        async def language(self, job_type: str) -> str | None:
            self._ask()
            return None

    async def story() -> None:
        async for _ in Queue(Bare(25.0), types=("resize",)).take():  # type: ignore[arg-type]
            pass

    run_in_virtual_time(story())
    assert [record.message for record in caplog.records if "handler" in record.message] == [
        "queue.type_without_handler"
    ]


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


class SilentLink:
    """Drops what is sent to it, so many times."""

    def __init__(self, times: int) -> None:
        self.times = times

    async def report(self, reports: list[Report]) -> list[Verdict]:
        self.times -= 1
        if self.times >= 0:
            await asyncio.sleep(90)  # then the client gives up by itself
            raise ServerUnreachable("no answer in 90 s")
        return [Verdict(report.delivery.id, Answer.OK) for report in reports]


class FullLink(SilentLink):
    """Has no room, so many times, and says when to come again."""

    async def report(self, reports: list[Report]) -> list[Verdict]:
        self.times -= 1
        if self.times >= 0:
            raise ClientError(507, "full", "the disk is full", {}, retry_after_s=30.0)
        return [Verdict(report.delivery.id, Answer.OK) for report in reports]


@pytest.mark.parametrize("kind", [SilentLink, FullLink])
def test_an_end_arrives_after_many_tries_however_long_each_took(kind: type[SilentLink]) -> None:
    async def story() -> Answer:
        return (await Reporter(kind(14)).report(Report(Delivery("j1", 1), 200))).answer  # type: ignore[arg-type]

    assert run_in_virtual_time(story()) is Answer.OK


@pytest.mark.parametrize("kind", [SilentLink, FullLink])
def test_an_end_that_never_arrives_is_raised_however_the_server_is_away(kind: type[SilentLink]) -> None:
    async def story() -> None:
        with pytest.raises((ServerUnreachable, ClientError)):
            await Reporter(kind(1000)).report(Report(Delivery("j1", 1), 200))  # type: ignore[arg-type]

    run_in_virtual_time(story())


class Refusing:
    """Answers every request with an error, and counts them."""

    def __init__(self, status: int, code: str) -> None:
        self.error = ClientError(status, code, "not now", {}, retry_after_s=None)
        self.asked = 0

    async def report(self, reports: list[Report]) -> list[Verdict]:
        self.asked += 1
        raise self.error

    async def register(self, _: str, __: object) -> None:
        self.asked += 1
        if self.asked < 5:
            raise self.error


AWAY = pytest.mark.parametrize(
    ("status", "code"), [(503, "not_ready_yet"), (502, "unreadable"), (504, "unreadable"), (520, "unreadable")]
)


@AWAY
def test_ends_that_never_arrive_are_given_up_together(status: int, code: str) -> None:
    """One after the other each would have a patience of its own. A proxy's word for a server that is away counts."""

    async def story() -> tuple[int, int]:
        asked = []
        for count in (1, 20):
            link = Refusing(status, code)
            reporter = Reporter(link)  # type: ignore[arg-type]
            reports = [reporter.report(Report(Delivery(f"j{number}", 1), 200)) for number in range(count)]
            errors = await asyncio.gather(*reports, return_exceptions=True)
            assert errors == [link.error] * count
            asked.append(link.asked)
        return asked[0], asked[1]

    one, many = run_in_virtual_time(story())
    assert one >= 15
    assert many <= 2 * one


@AWAY
def test_a_worker_registers_its_types_when_the_server_is_back(status: int, code: str) -> None:
    async def story() -> int:
        link, worker = Refusing(status, code), FunctionWorker()
        worker.task("resize", register=True)(lambda payload: payload)
        await worker.run(Queue(link), begun=worker.stop)  # type: ignore[arg-type]
        return link.asked

    assert run_in_virtual_time(story()) == 5


@pytest.mark.parametrize("is_hurried", [False, True])
def test_a_queue_is_closed_although_its_server_does_not_answer(*, is_hurried: bool) -> None:
    class Gone(AwayLink):
        is_closed = False

        async def take(self, wish: Wish) -> Batch:
            return Batch([Given("j1", 1, "resize", b"", 1, HOUR_S, None, is_renewable=True)], drain=False)

        async def report(self, reports: list[Report]) -> list[Verdict]:
            return await asyncio.Event().wait()  # type: ignore[return-value]

        async def give_back(self, deliveries: object, goodbye: str) -> list[Verdict]:
            return await asyncio.Event().wait()  # type: ignore[return-value]

        async def close(self) -> None:
            self.is_closed = True

    async def story() -> float:
        link = Gone(HOUR_S)
        queue = Queue(link)  # type: ignore[arg-type]
        (job,) = await queue.take_some()
        ending = asyncio.create_task(job.done())
        await asyncio.sleep(0)
        began_s = asyncio.get_running_loop().time()
        if is_hurried:
            queue.hurry()
        await queue.close()
        assert link.is_closed
        with pytest.raises(ServerUnreachable, match="closed before"):
            await ending
        return asyncio.get_running_loop().time() - began_s

    assert run_in_virtual_time(story()) <= (5 if is_hurried else 60)


def test_a_second_stop_hurries_the_queue_of_a_worker() -> None:
    async def story() -> bool:
        worker, queue = FunctionWorker(), Queue(Refusing(200, ""))  # type: ignore[arg-type]
        worker.task("resize")(lambda payload: payload)
        worker.stop()
        await worker.run(queue)
        assert not queue._hurry.is_set()
        worker.stop()
        return queue._hurry.is_set()

    assert run_in_virtual_time(story())


def test_a_large_end_has_the_time_that_it_takes() -> None:
    class SlowLink:
        async def report(self, reports: list[Report]) -> list[Verdict]:
            await asyncio.sleep(sum(len(report.result) for report in reports) / 300_000)
            return [Verdict(report.delivery.id, Answer.OK) for report in reports]

    async def story() -> Answer:
        report = Report(Delivery("j1", 1), 200, b"x" * 12_000_000)
        return (await Reporter(SlowLink()).report(report)).answer  # type: ignore[arg-type]

    assert run_in_virtual_time(story()) is Answer.OK


def test_workers_that_are_told_when_to_come_again_do_not_come_all_at_once() -> None:
    async def story(draw: float) -> list[float]:
        outage = Outage("queue.take_again", 10.0, lambda: draw)
        return [outage.failed(ClientError(503, "busy", "not now", {}, retry_after_s=1.0)) for _ in range(8)]

    soon, late = run_in_virtual_time(story(0.0)), run_in_virtual_time(story(1.0))
    assert all(1.0 <= first < second for first, second in zip(soon, late, strict=True))
    assert soon == sorted(soon)
    assert (soon[-1], late[-1]) == (5.0, 10.0)
