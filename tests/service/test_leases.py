"""Leases that were taken away while their job runs: each is counted once, and a release under way is none."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from functory.execution.leases import HeldLeases
from store.base import Archive, Code, Job, JobState, Lease, Outcome
from tests.support.clocks import LeapingClock
from tests.support.service import ended, register, running_daemon, until
from vocabulary.clock import SystemClock

GATED = """
import os, time
while not os.path.exists(payload): time.sleep(0.01)
"""
GATED_AND_NOTED = """
import os, time
gate, number = payload.split()
with open(f"{gate}-{number}", "a") as file: file.write("x")
while not os.path.exists(gate): time.sleep(0.01)
"""
LEASE_MS = 3_600_000


async def test_a_lost_lease_is_counted_once_and_not_at_the_first_doubt(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path / "data", lease="1h") as daemon:
        await register(daemon, "acme-x", GATED)
        (id_,) = await daemon.journal.write("acme-x", [str(gate)])

        async def is_running() -> bool:
            record = await daemon.store.get_job("acme", id_, now_ms=daemon.clock.now_ms())
            is_held = bool(daemon.executor.leases.all())  # the store knows of it a moment earlier
            return is_held and record is not None and record.state == JobState.RUNNING

        await until(is_running)
        daemon.pause()  # or it would claim the job again
        assert await daemon.store.expire_locks(now_ms=daemon.clock.now_ms() + LEASE_MS + 1) == 1
        counts = []
        for _ in range(4):
            await daemon.upkeep.renew_leases()
            counts.append(daemon.gauges()["leases_lost_total"])
        await asyncio.to_thread(gate.touch)
    assert counts == [0, 1, 1, 1]


def test_a_late_release_leaves_the_lease_of_a_new_delivery() -> None:
    leases = HeldLeases(SystemClock(), LEASE_MS)
    first = Job("id1", "acme-x", b"", 0, "a7", 1, 1, 500, 0, 0)
    second = first._replace(token=2, attempts=2)
    leases.claimed([first], 0)
    leases.claimed([second], 0)
    leases.released([first])
    assert leases.all() == [Lease("id1", 2)]
    leases.released([second])
    assert leases.all() == []


async def test_what_lapsed_while_the_daemon_stood_still_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped right after a claim; another daemon has run and ended the jobs meanwhile."""
    clock, ran = LeapingClock(), tmp_path / "ran"
    async with running_daemon(tmp_path / "data", clock=clock, lease="1h") as daemon:
        real = daemon.store.claim_jobs

        async def claim_and_stand_still(*args: Any, **more: Any) -> list[Job]:
            jobs = await real(*args, **more)
            if jobs and not clock.ahead_ms:
                clock.ahead_ms = LEASE_MS + 1
                await daemon.store.expire_locks(now_ms=clock.now_ms())
                again = await real(jobs[0].jobtype, 10, owner="zz", lease_ms=LEASE_MS, now_ms=clock.now_ms())
                ended_ok = [Archive(job.id, job.token, Outcome(Code.OK, 200, 0, result=b"1")) for job in again]
                await daemon.store.release_jobs("zz", ended_ok, now_ms=clock.now_ms())
            return jobs

        monkeypatch.setattr(daemon.store, "claim_jobs", claim_and_stand_still)
        await register(daemon, "acme-x", "open(payload, 'w').close()")
        (id_,) = await daemon.journal.write("acme-x", [str(ran)])
        await ended(daemon, id_)
        await daemon.outbox.empty()
        assert daemon.executor.leases.all() == []
    assert not await asyncio.to_thread(ran.exists)


async def test_what_is_still_to_start_under_a_lapsed_lease_is_given_back(tmp_path: Path) -> None:
    """It stands still in the middle of a batch; nobody else takes the jobs, so it claims them itself, once."""
    clock, gate = LeapingClock(), tmp_path / "gate"
    async with running_daemon(tmp_path / "data", clock=clock, lease="1h", slots="1") as daemon:
        daemon.pause()
        await register(daemon, "acme-x", GATED_AND_NOTED, options={"max_batch": 1})
        ids = await daemon.journal.write("acme-x", [f"{gate} {number}" for number in range(3)])
        await daemon.intake.flush()
        daemon.executor._policy.jobs_started("acme-x", 100)
        daemon.executor._policy.jobs_stopped("acme-x", 100, 0.001)  # so short that they are claimed together
        daemon.resume()
        await until(lambda: asyncio.to_thread(Path(f"{gate}-0").exists))
        is_batch = len(daemon.executor.leases) > 1
        clock.ahead_ms = LEASE_MS + 1
        await asyncio.to_thread(gate.touch)
        records = [await ended(daemon, each) for each in ids]
    assert is_batch
    assert [record.job.token for record in records[1:]] == [2, 2], "those that had not started went back"
    assert [await asyncio.to_thread(Path(f"{gate}-{number}").read_text) for number in (1, 2)] == ["x", "x"]


def test_a_renewal_counts_for_what_it_knew_and_did_not_lose() -> None:
    clock = FixedClock()
    leases = HeldLeases(clock, lease_ms=1000)
    one, two = held_job("1"), held_job("2")
    may_start = leases.claimed([one, two], clock.time_ms)
    clock.time_ms += 900
    assert may_start([one, two])
    leases.renewed(clock.time_ms, [])
    clock.time_ms += 900
    assert may_start([one, two])
    leases.renewed(clock.time_ms, [Lease("2", 1)])
    assert may_start([one])
    assert not may_start([one, two])
    clock.time_ms += 1000
    assert not may_start([one])


def test_a_renewal_under_way_does_not_count_for_a_new_claim() -> None:
    clock = FixedClock()
    leases = HeldLeases(clock, lease_ms=1000)
    began_ms = clock.time_ms
    claimed_ms = clock.time_ms - 500
    clock.time_ms += 1
    may_start = leases.claimed([held_job("1")], claimed_ms)
    leases.renewed(began_ms, [])
    clock.time_ms = claimed_ms + 1000
    assert not may_start([])


def test_a_fixed_lease_is_not_renewed() -> None:
    clock = FixedClock()
    leases = HeldLeases(clock, lease_ms=1000)
    job = held_job("1")._replace(retry_after_ms=300, dt_ms=clock.time_ms + 300)
    may_start = leases.claimed([job], clock.time_ms)
    leases.renewed(clock.time_ms, [])
    clock.time_ms += 300
    assert not may_start([job])


class FixedClock(SystemClock):
    def __init__(self) -> None:
        self.time_ms = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.time_ms


def held_job(job_id: str) -> Job:
    return Job(job_id, "acme-x", b"", 0, "a1", token=1, attempts=1, priority=0, due_ms=0, create_ms=0)
