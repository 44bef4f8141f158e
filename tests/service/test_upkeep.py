"""The duties of a daemon beside its jobs: what others left is taken up, and a store that is away is tried again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from store.base import ExpireReport, NewJob
from store.errors import StoreUnavailable
from tests.support.clocks import LeapingClock
from tests.support.service import ended, register, running_daemon, until


async def test_a_job_of_a_daemon_that_vanished_is_run_here(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-x", "return None")
        daemon.pause()
        now_ms = daemon.clock.now_ms()
        (id_,) = daemon.journal.take_ids(1)
        await daemon.store.add_jobs([NewJob(id_, "acme-x", b"", now_ms, now_ms)], now_ms=now_ms)
        await daemon.store.claim_jobs("acme-x", 1, owner="zz", lease_ms=100, now_ms=now_ms)
        daemon.resume()
        record = await ended(daemon, id_)
    assert (record.job.token, record.job.attempts) == (2, 2)


async def test_leases_of_a_clock_that_was_ahead_are_looked_for_when_it_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = LeapingClock()
    clock.ahead_ms = 3_600_000
    async with running_daemon(tmp_path, clock) as daemon:
        await register(daemon, "acme-x", "return None")
        daemon.pause()
        looks: list[str] = []

        def noted(name: str) -> None:
            real = getattr(daemon.store, name)

            async def look(**more: Any) -> int:
                looks.append(name)
                return int(await real(**more))

            monkeypatch.setattr(daemon.store, name, look)

        noted("cut_leases")
        noted("expire_locks")
        now_ms = clock.now_ms()
        due_ms = now_ms - clock.ahead_ms
        (id_,) = daemon.journal.take_ids(1)
        await daemon.store.add_jobs([NewJob(id_, "acme-x", b"", due_ms, due_ms)], now_ms=now_ms)

        async def has_looked() -> bool:
            return looks.count("expire_locks") >= 3

        await until(has_looked)
        assert looks.count("cut_leases") <= 1, "at the start"
        await daemon.store.claim_jobs("acme-x", 1, owner="zz", lease_ms=500, now_ms=clock.now_ms())
        clock.ahead_ms = 0
        daemon.resume()
        record = await ended(daemon, id_)
        assert looks.count("cut_leases") <= 2
    assert (record.job.token, record.job.attempts) == (2, 2)


async def test_a_store_that_is_away_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_daemon(tmp_path) as daemon:
        tries = 0
        real = daemon.store.expire_locks

        async def away_at_first(**more: Any) -> int:
            nonlocal tries
            tries += 1
            if tries < 3:
                raise StoreUnavailable("the server is being restarted")
            return await real(**more)

        monkeypatch.setattr(daemon.store, "expire_locks", away_at_first)

        async def is_back() -> bool:
            return tries > 3

        await until(is_back)
        assert not daemon.vitals.is_stopping


async def test_a_trouble_stays_until_the_duty_that_had_it_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look at secrets and the look at memory had the same name."""
    monkeypatch.setattr("functory.daemon.upkeep._PURGE_EVERY_S", 0.01)
    monkeypatch.setattr("functory.daemon.upkeep._SWEEP_EVERY_S", 0.01)
    failed, go_on = asyncio.Event(), asyncio.Event()
    looks = 0

    def measure() -> int:
        nonlocal looks
        looks += 1
        return 0

    async def away() -> list[str]:
        if failed.is_set():
            await go_on.wait()
            return []
        failed.set()
        raise StoreUnavailable("no secrets now")

    monkeypatch.setattr("functory.daemon.upkeep.own_resident_bytes", measure)
    async with running_daemon(tmp_path) as daemon:
        monkeypatch.setattr(daemon.store, "list_secret_keys", away)
        await failed.wait()
        before = looks

        async def has_looked_twice() -> bool:
            return looks > before + 1

        async def is_well() -> bool:
            return "store" not in daemon.health().problems

        await until(has_looked_twice)
        assert daemon.health().problems["store"] == "no secrets now"
        go_on.set()
        await until(is_well)


async def test_a_purge_goes_on_until_nothing_old_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_daemon(tmp_path) as daemon:
        reports = [ExpireReport(1000, 0, more=True), ExpireReport(0, 1000, more=True), ExpireReport(1, 1, more=False)]

        async def step(**_: Any) -> ExpireReport:
            return reports.pop(0)

        monkeypatch.setattr(daemon.store, "expire_jobs", step)
        await daemon.upkeep.purge()
    assert reports == []


async def test_a_paused_daemon_does_not_even_look(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-x", "return None")
        daemon.pause()
        (id_,) = await daemon.journal.write("acme-x", ["x"])
        await daemon.intake.flush()
        await daemon.executor._fill_slots()  # as its loop does at the next turn
        assert (daemon.executor.claimed, len(daemon.executor._slots)) == (0, 0)
        daemon.resume()
        await ended(daemon, id_)
