"""Ends of the straight way: what was recorded, and is not kept, does not come back to run again."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import functory.execution.straight.way
from functory.daemon.daemon import Daemon
from functory.intake.job_options import JobOptions
from store.errors import StoreUnavailable
from tests.support.service import register, running_daemon, until
from tests.support.straight_times import set_straight_times


@pytest.fixture(autouse=True)
def nothing_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is at the moment, a job is shown or given back only when the test says so."""
    set_straight_times(monkeypatch)


async def ready(daemon: Daemon) -> None:
    await register(daemon, "acme-x", "return payload", keep="none")

    await until_true(lambda: daemon.executor.is_clear("acme-x"))


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


async def test_a_flush_waits_for_ends_that_take_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks again now and then, and everybody else goes on meanwhile."""
    monkeypatch.setattr(functory.execution.straight.way, "LOOK_AGAIN_S", 0.001)
    async with running_daemon(tmp_path, poll="10 s") as daemon, asyncio.timeout(30):
        await ready(daemon)
        end, begun, may_end = daemon.store.add_ended_jobs, asyncio.Event(), asyncio.Event()
        show, looks, looked = daemon.straight.showing.show, 0, asyncio.Event()

        async def end_slowly(*given: Any, **named: Any) -> Any:
            begun.set()
            await may_end.wait()
            return await end(*given, **named)

        async def look(ids: Sequence[str]) -> str:
            nonlocal looks
            looks += 1
            assert looks < 1000, "it looks again and again, and lets nobody else run"
            if looks == 5:
                looked.set()
            return await show(ids)

        monkeypatch.setattr(daemon.store, "add_ended_jobs", end_slowly)
        monkeypatch.setattr(daemon.straight.showing, "show", look)
        (id_,) = await daemon.intake.write("acme-x", [b"1"])
        await begun.wait()
        flushing = asyncio.create_task(daemon.intake.flush("acme"))
        await asyncio.wait([flushing, asyncio.create_task(looked.wait())], return_when=asyncio.FIRST_COMPLETED)
        assert not flushing.done()
        may_end.set()
        await flushing
        assert await daemon.store.get_states("acme", [id_], now_ms=daemon.clock.now_ms()) == {}


async def test_a_flush_says_that_ends_wait_for_others_that_cannot_be_recorded_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the long way are written first; until then the others can be shown as running, or it is said why not."""
    async with running_daemon(tmp_path, poll="10 s") as daemon, asyncio.timeout(30):
        await ready(daemon)
        release, entered, may_go = daemon.store.release_jobs, asyncio.Event(), asyncio.Event()

        async def release_once(*given: Any, **named: Any) -> Any:
            if entered.is_set():
                raise StoreUnavailable("away")
            entered.set()
            await may_go.wait()
            return await release(*given, **named)

        async def away(*_: Any, **__: Any) -> Any:
            raise StoreUnavailable("away")

        monkeypatch.setattr(daemon.store, "release_jobs", release_once)
        await daemon.intake.write("acme-x", [b"1"], JobOptions(priority=1000))  # the long way
        await entered.wait()
        await daemon.intake.write("acme-x", [b"2"], JobOptions(priority=1000))
        await register(daemon, "acme-y", "return payload", keep="none")
        await until_true(lambda: daemon.executor.is_clear("acme-y"))
        (id_,) = await daemon.intake.write("acme-y", [b"3"])
        assert daemon.straight.is_here(id_)
        await until_true(lambda: len(daemon.outbox._lanes["acme"]) == 3)
        add_ended, add_running = daemon.store.add_ended_jobs, daemon.store.add_running_jobs
        monkeypatch.setattr(daemon.store, "add_ended_jobs", away)
        monkeypatch.setattr(daemon.store, "add_running_jobs", away)
        may_go.set()
        await until_true(lambda: len(daemon.outbox._lanes["acme"]) == 2)
        with pytest.raises(StoreUnavailable, match="away"):
            await daemon.intake.flush("acme")
        monkeypatch.setattr(daemon.store, "release_jobs", release)
        monkeypatch.setattr(daemon.store, "add_ended_jobs", add_ended)
        monkeypatch.setattr(daemon.store, "add_running_jobs", add_running)
        await daemon.outbox.empty()


async def until_true(look: Callable[[], bool]) -> None:
    async def ask() -> bool:
        return look()

    await until(ask)
