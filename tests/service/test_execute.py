"""What is claimed, and how often the store is asked: not what another claim is taking; no rest for new jobs."""

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import functory.execution.executor
import functory.execution.outlook
from functory.daemon.daemon import Daemon
from functory.intake.job_options import PLAIN
from functory.operations.type_controls import delete_rate, set_rate
from store.base import Store
from tests.support.service import register, running_daemon, until


class Spy:
    """Counts what is asked of a store, and may hold claims."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: Counter[str] = Counter()
        self.empty = 0
        self.is_claiming = asyncio.Event()
        self.may_claim = asyncio.Event()
        self.may_claim.set()
        claim, look = store.claim_jobs, store.get_waiting_jobtypes

        async def claim_jobs(*args: Any, **more: Any) -> Any:
            self.calls["claim"] += 1
            self.is_claiming.set()
            await self.may_claim.wait()
            jobs = await claim(*args, **more)
            self.empty += not jobs
            return jobs

        async def get_waiting_jobtypes(**more: Any) -> Any:
            self.calls["look"] += 1
            return await look(**more)

        monkeypatch.setattr(store, "claim_jobs", claim_jobs)
        monkeypatch.setattr(store, "get_waiting_jobtypes", get_waiting_jobtypes)


async def ended(daemon: Daemon, count: int) -> bool:
    rows = await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
    return sum(row.ok for row in rows) == count


async def test_a_look_does_not_count_what_a_claim_is_taking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_daemon(tmp_path, straight="off") as daemon:
        await register(daemon, "acme-x", "print(payload)")
        spy = Spy(daemon.store, monkeypatch)
        spy.may_claim.clear()
        await daemon.intake.write("acme-x", [b"1"])
        await spy.is_claiming.wait()
        looks = spy.calls["look"]
        daemon.wake()

        async def has_looked() -> bool:
            return spy.calls["look"] > looks

        await until(has_looked)
        await asyncio.sleep(0)
        assert spy.calls["claim"] == 1, "the job that waits is the one that is being claimed"
        spy.may_claim.set()
        await until(lambda: ended(daemon, 1))
        assert spy.empty == 0


async def test_a_type_that_rests_is_woken_by_new_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functory.execution.outlook, "pause_s", lambda *_, **__: 3600.0)
    async with running_daemon(tmp_path, straight="off") as daemon:
        await register(daemon, "acme-x", "print(payload)")
        daemon.executor._rest("acme-x")
        await daemon.intake.write("acme-x", [b"1"])
        await until(lambda: ended(daemon, 1))


@pytest.mark.parametrize("change", ["raised", "deleted"])
async def test_a_changed_rate_holds_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    monkeypatch.setattr(functory.execution.outlook, "pause_s", lambda *_, **__: 3600.0)
    async with running_daemon(tmp_path, straight="off") as daemon:
        service: Any = SimpleNamespace(store=daemon.store, control=daemon, now_ms=daemon.clock.now_ms)
        await register(daemon, "acme-x", "print(payload)")
        await set_rate(service, "", "acme", "api", rate_per_s=0.001, burst=1)
        await daemon.intake.write("acme-x", [b"1", b"2"], PLAIN._replace(domain="api"))
        await until(lambda: ended(daemon, 1))
        if change == "raised":
            await set_rate(service, "", "acme", "api", rate_per_s=1000.0, burst=1)
        else:
            await delete_rate(service, "", "acme", "api")
        await until(lambda: ended(daemon, 2))


async def test_a_handler_that_cannot_be_read_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_daemon(tmp_path, straight="off") as daemon:
        outlook = daemon.executor._outlook
        await register(daemon, "acme-x", "print(payload)", made_up=1)

        async def have_looked(number: int) -> bool:
            daemon.executor.wake()
            return outlook.looks > number and not daemon.executor._slots

        told = []
        for _ in range(3):
            await daemon.intake.write("acme-x", [b"1"])
            await daemon.intake.flush()
            await until(partial(have_looked, outlook.looks + 1))
            told.append([record.msg for record in caplog.records].count("execute.handler_unreadable"))
        assert 0 < told[0] == told[1] == told[2], "slots that were filled at the same time may each have told of it"
        assert "made_up" in daemon.unreadable("acme-x")
        assert daemon.unreadable("acme-y") == ""
        await register(daemon, "acme-x", "print(payload)")
        await until(lambda: ended(daemon, 3))
        assert daemon.unreadable("acme-x") == ""


async def test_under_load_the_store_is_not_looked_at_before_every_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And everything is run all the same."""
    monkeypatch.setattr(functory.execution.executor, "_LOOK_PART", 1e6)
    async with running_daemon(tmp_path, straight="off") as daemon:
        daemon.pause()
        monkeypatch.setattr(daemon.executor._policy.costs, "batch_size", lambda *_: 1)
        await register(daemon, "acme-x", "print(payload)")
        await daemon.intake.write("acme-x", [b"1"] * 200)
        await daemon.intake.flush()
        spy = Spy(daemon.store, monkeypatch)
        daemon.resume()
        await until(lambda: ended(daemon, 200))
        assert spy.calls["claim"] >= 200
        assert spy.calls["look"] < 50


@pytest.mark.parametrize("straight", ["on", "off"])
async def test_the_policy_hears_of_the_jobs_apart_from_the_start_of_their_context(
    straight: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a type whose first job needed a new context is not taken to be slow."""
    async with running_daemon(tmp_path, straight=straight) as daemon:
        await register(daemon, "acme-x", "print(payload)")
        policy, heard = daemon.executor._policy, []
        tell = policy.jobs_stopped

        def jobs_stopped(jobtype: str, count: int, runner_s: float, worked_s: float | None = None) -> None:
            heard.append((count, runner_s, worked_s))
            tell(jobtype, count, runner_s, worked_s)

        monkeypatch.setattr(policy, "jobs_stopped", jobs_stopped)
        await daemon.intake.write("acme-x", [b"1"])
        await until(lambda: ended(daemon, 1))
        await daemon.outbox.empty()
    ((count, runner_s, worked_s),) = heard
    assert count == 1
    assert worked_s is not None
    assert 0 < worked_s < runner_s
