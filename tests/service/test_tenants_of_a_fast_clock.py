"""A tenant that was created while the clock was an hour ahead, and the clock has been set back since: nothing that it
has is taken for that of another which had its name."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from functory.daemon.daemon import Daemon
from functory.workers.values import Order, Worker
from tests.support.clocks import LeapingClock
from tests.support.service import ended, register, running_daemon
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.tenants import AwayAtTimes, count_jobs, create

HOUR_MS = 3_600_000
MINUTES_MS = 120_000


@pytest.fixture(params=back_end_params())
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with BACK_ENDS[request.param](tmp_path) as store:
        yield store


@pytest.fixture
def clock() -> LeapingClock:
    return LeapingClock()


@pytest.fixture(params=["on", "off"])
async def daemon(
    request: pytest.FixtureRequest, tmp_path: Path, url: str, clock: LeapingClock
) -> AsyncIterator[Daemon]:
    async with running_daemon(tmp_path, clock, store=url, straight=request.param) as daemon:
        clock.ahead_ms = HOUR_MS
        await create(daemon)
        clock.ahead_ms = 0
        yield daemon


async def test_what_a_job_asks_for_that_waited_for_minutes_is_queued(daemon: Daemon, clock: LeapingClock) -> None:
    (parent,) = await daemon.intake.write("acme-x", [b"1"])
    await daemon.intake.flush()
    clock.ahead_ms = MINUTES_MS
    await register(daemon, "acme-x", "print('J: y|2')")
    await ended(daemon, parent)
    assert await count_jobs(daemon) == 2


async def test_lines_that_waited_in_the_journal_for_minutes_are_queued(
    daemon: Daemon, clock: LeapingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_times = AwayAtTimes(daemon, monkeypatch, "add_jobs", "add_running_jobs", "add_ended_jobs")
    at_times.is_away = True
    (job,) = await daemon.intake.write("acme-x", [b"1"])
    clock.ahead_ms = MINUTES_MS
    at_times.is_away = False
    await register(daemon, "acme-x", "return payload")
    assert (await ended(daemon, job)).outcome is not None


async def test_its_workers_are_listed_and_can_be_drained(daemon: Daemon) -> None:
    await daemon.workers.take(Order("acme", ("x",), limit=1, wait_s=0.0, worker=Worker("gpu-1")))
    assert [seen.name for seen in await daemon.workers.seen("acme")] == ["gpu-1"]
    await daemon.workers.drain("acme", "gpu-1", drained=True)
    assert daemon.workers.is_draining("acme", "gpu-1")
