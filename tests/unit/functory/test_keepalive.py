"""Leases are renewed in time, also in a network that drops packets: there a request gets no answer and no error."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from functory.queue.job import Job
from functory.queue.keepalive import Keepalive
from functory.queue.link import Batch, Given, Wish
from functory.queue.reporter import Reporter
from functory.wire.add_options import AddOptions
from functory.workers.values import Answer, Delivery, Report, Verdict
from tests.support.virtual_time import run_in_virtual_time

LEASE_S: Final = 30.0


class SilentLink:
    """Renewals get no answer while it is silent."""

    def __init__(self) -> None:
        self.is_silent = True
        self.asked_s: list[float] = []
        self.given_up = 0
        self.gave_up = asyncio.Event()

    async def renew(self, deliveries: Sequence[Delivery], lease_s: float | None) -> list[Verdict]:
        self.asked_s.append(asyncio.get_running_loop().time())
        if self.is_silent:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self.given_up += 1
                self.gave_up.set()
        return [Verdict(each.id, Answer.OK) for each in deliveries]

    async def take(self, wish: Wish) -> Batch:
        raise NotImplementedError

    async def report(self, reports: Sequence[Report]) -> list[Verdict]:
        raise NotImplementedError

    async def give_back(self, deliveries: Sequence[Delivery], goodbye: str) -> list[Verdict]:
        raise NotImplementedError

    async def add(self, job_type: str, payloads: Sequence[bytes], options: AddOptions) -> list[str]:
        raise NotImplementedError

    async def register(self, job_type: str, document: Mapping[str, object]) -> None:
        raise NotImplementedError

    async def language(self, job_type: str) -> str | None:
        raise NotImplementedError

    async def worker_types(self) -> list[str] | None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


def job_of(
    link: SilentLink, lease_s: float, token: int = 1, timeout_s: float | None = None, *, is_renewable: bool = True
) -> Job:
    given = Given("j1", token, "resize", b"", 1, lease_s, timeout_s, is_renewable)

    async def give_back(_: Job) -> None:
        raise NotImplementedError

    return Job(given, Reporter(link), give_back)


@pytest.mark.parametrize("lease_s", [1.0, LEASE_S, 3600.0])
def test_a_job_is_lost_when_its_lease_lapses_and_no_answer_comes(lease_s: float) -> None:
    async def story() -> float:
        link = SilentLink()
        keepalive = Keepalive(link, None)
        job = job_of(link, lease_s)
        keepalive.watch([job])
        async with asyncio.timeout(3 * lease_s):
            await job.lost.wait()
        await keepalive.close()
        assert link.given_up >= 2, "it was tried over a new connection"
        return asyncio.get_running_loop().time() - job.until_s

    assert 0.0 <= run_in_virtual_time(story()) <= 0.3


def test_a_connection_that_went_silent_costs_no_lease() -> None:
    async def story() -> None:
        link = SilentLink()
        keepalive = Keepalive(link, None)
        job = job_of(link, LEASE_S)
        first_until_s = job.until_s
        keepalive.watch([job])
        async with asyncio.timeout(LEASE_S):
            await link.gave_up.wait()
        link.is_silent = False  # a new connection gets through
        await asyncio.sleep(2 * LEASE_S)
        await keepalive.close()
        assert not job.lost.is_set()
        assert link.asked_s[1] < first_until_s

    run_in_virtual_time(story())


def test_a_job_is_lost_when_its_type_allows_no_more_time() -> None:
    """The renewal before that is granted, for less than it asks for."""

    async def story() -> float:
        link = SilentLink()
        link.is_silent = False
        keepalive = Keepalive(link, LEASE_S)
        began_s = asyncio.get_running_loop().time()
        job = job_of(link, LEASE_S, timeout_s=1.5 * LEASE_S)
        keepalive.watch([job])
        async with asyncio.timeout(10 * LEASE_S):
            await job.lost.wait()
        await keepalive.close()
        return asyncio.get_running_loop().time() - began_s

    assert 1.5 * LEASE_S <= run_in_virtual_time(story()) <= 1.5 * LEASE_S + 0.3


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, "it was not renewed in time"),
        ({"timeout_s": 1000.0}, "it was not renewed in time"),
        ({"timeout_s": LEASE_S}, "it was held for 30 s, the timeout_s of its type"),
        ({"is_renewable": False}, "the time of its fixed lease is over"),
    ],
)
def test_the_log_says_why_a_lease_lapsed(more: Any, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        link = SilentLink()
        keepalive = Keepalive(link, None)
        job = job_of(link, LEASE_S, **more)
        keepalive.watch([job])
        async with asyncio.timeout(3 * LEASE_S):
            await job.lost.wait()
        await keepalive.close()

    run_in_virtual_time(story())
    (lost,) = [record for record in caplog.records if record.message == "queue.lease_lost"]
    assert vars(lost)["reason"] == reason


def test_a_job_that_comes_again_to_the_same_program_is_lost_to_who_had_it() -> None:
    class Fenced(SilentLink):
        async def renew(self, deliveries: Sequence[Delivery], lease_s: float | None) -> list[Verdict]:
            return [Verdict(each.id, Answer.OK if each.token == 2 else Answer.LATE) for each in deliveries]

    async def story() -> None:
        link = Fenced()
        keepalive = Keepalive(link, LEASE_S)
        first, second = job_of(link, LEASE_S), job_of(link, LEASE_S, token=2)
        keepalive.watch([first])
        keepalive.watch([second])
        async with asyncio.timeout(2 * LEASE_S):
            await first.lost.wait()
        assert keepalive.jobs == [second]
        await keepalive.close()

    run_in_virtual_time(story())
