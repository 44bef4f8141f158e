"""Ends of the straight way: what was recorded, and is not kept, does not come back to run again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from functory.daemon.daemon import Daemon
from store.errors import StoreUnavailable
from tests.support.service import register, running_daemon, until
from tests.support.straight_times import set_straight_times


@pytest.fixture(autouse=True)
def nothing_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is at the moment, a job is shown or given back only when the test says so."""
    set_straight_times(monkeypatch)


async def ready(daemon: Daemon) -> None:
    await register(daemon, "acme-x", "return payload", keep="none")

    async def is_clear() -> bool:
        return daemon.executor.is_clear("acme-x")

    await until(is_clear)


async def test_a_job_is_not_shown_as_running_once_its_end_may_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease would lapse, and it would run again."""
    async with running_daemon(tmp_path, poll="10 s") as daemon, asyncio.timeout(30):
        await ready(daemon)
        end, flushing = daemon.store.add_ended_jobs, asyncio.Queue[asyncio.Task[None]]()

        async def end_and_answer_late(owner: str, jobs: Any, *given: Any, **named: Any) -> Any:
            report = await end(owner, jobs, *given, **named)
            flushing.put_nowait(asyncio.create_task(daemon.intake.flush("acme")))  # as for `ack=store`, or a cancel
            for job in jobs:
                await daemon.straight.showing.show_all([job.id])  # as when it has run for a while
            return report

        monkeypatch.setattr(daemon.store, "add_ended_jobs", end_and_answer_late)
        (id_,) = await daemon.intake.write("acme-x", [b"1"])
        await (await flushing.get())
        await daemon.outbox.empty()
        assert await daemon.store.get_states("acme", [id_], now_ms=daemon.clock.now_ms()) == {}
        (row,) = await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
        assert (row.ok, row.running) == (1, 0)


async def test_a_flush_says_that_ends_cannot_be_recorded_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They cannot be shown either, because the store may have them; nobody waits for ever."""
    async with running_daemon(tmp_path, poll="10 s") as daemon, asyncio.timeout(30):
        await ready(daemon)
        end, tried = daemon.store.add_ended_jobs, asyncio.Event()

        async def end_and_lose_the_answer(*given: Any, **named: Any) -> Any:
            if not tried.is_set():
                await end(*given, **named)
            tried.set()
            raise StoreUnavailable("away")

        monkeypatch.setattr(daemon.store, "add_ended_jobs", end_and_lose_the_answer)
        (id_,) = await daemon.intake.write("acme-x", [b"1"])
        await tried.wait()
        with pytest.raises(StoreUnavailable, match="away"):
            await daemon.intake.flush("acme")
        monkeypatch.setattr(daemon.store, "add_ended_jobs", end)
        await daemon.outbox.empty()
        await daemon.intake.flush("acme")
        assert await daemon.store.get_states("acme", [id_], now_ms=daemon.clock.now_ms()) == {}
