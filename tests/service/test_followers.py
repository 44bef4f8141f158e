"""Jobs that come while others of their tenant are on the long way follow these, and come back to the straight way."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import functory.execution.straight.waiting_jobs
from functory.daemon.daemon import Daemon
from functory.execution.straight.followers import FEW, MOST, TIRED_S, Followers
from functory.intake.job_options import JobOptions
from store.base import Job, JobState, NewJob
from tests.support.clocks import FakeClock
from tests.support.service import ended, running_daemon, until
from tests.support.straight import Calls, added, has_left, ready
from tests.support.straight_times import set_straight_times

UNUSUAL = JobOptions(priority=1000)
"""Takes the long way."""


class Barrier:
    """A verb of the store that waits until it may go on."""

    def __init__(self, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        work = getattr(daemon.store, verb)

        async def call(*args: Any, **more: Any) -> Any:
            if verb != "add_jobs" or args[0]:
                self.begun.set()
                await self.go.wait()
            return await work(*args, **more)

        monkeypatch.setattr(daemon.store, verb, call)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    set_straight_times(monkeypatch)


@pytest.mark.parametrize("verb", ["add_jobs", "claim_jobs"])
async def test_a_job_follows_those_before_it_and_is_written_once(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_daemon(tmp_path, slots="1", poll="10 s") as daemon:
        await ready(daemon, "return payload")
        calls, barrier = Calls(daemon, monkeypatch, "add_jobs"), Barrier(daemon, monkeypatch, verb)
        (first,) = await daemon.intake.write("acme-x", [b"1"], UNUSUAL)
        await barrier.begun.wait()
        later = [(await daemon.intake.write("acme-x", [b"%d" % number]))[0] for number in (2, 3)]
        assert all(map(daemon.straight.is_here, later))
        if verb == "add_jobs":  # the store has nothing, and a look sees nothing
            looked_s = daemon.executor._outlook.looked_s
            daemon.executor.wake()
            await until(lambda: has_looked(daemon, looked_s))
        assert daemon.straight.count("acme-x") == 0, "one is before them"
        barrier.go.set()
        await until(lambda: has_left(daemon, later[-1]))  # a look before its end would bring it into the store
        ends = [await ended(daemon, job_id) for job_id in (first, *later)]
        assert calls.of["add_jobs"] == 1, "only the first was on the long way"
        starts = [record.outcome.started_ms for record in ends if record.outcome]
        assert starts == sorted(starts)
        assert [record.job.data for record in ends] == [b"1", b"2", b"3"]


async def has_looked(daemon: Daemon, before_s: float) -> bool:
    return daemon.executor._outlook.looked_s > before_s


async def test_who_follows_starts_when_the_others_are_taken_up_and_not_when_they_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    async with running_daemon(tmp_path / "data", slots="2", poll="1000 s") as daemon:
        await ready(
            daemon, f"import os, time\nwhile payload == '1' and not os.path.exists({str(go)!r}): time.sleep(0.01)"
        )
        barrier = Barrier(daemon, monkeypatch, "claim_jobs")
        (first,) = await daemon.intake.write("acme-x", [b"1"], UNUSUAL)
        await barrier.begun.wait()
        (second,) = await daemon.intake.write("acme-x", [b"2"])
        assert daemon.straight.is_here(second)
        barrier.go.set()
        await until(lambda: has_left(daemon, second))
        go.touch()
        await ended(daemon, first)


async def test_who_waits_in_vain_takes_the_long_way_and_the_next_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functory.execution.straight.waiting_jobs, "RETURN_AFTER_S", 0.03)
    async with running_daemon(tmp_path, poll="10 s") as daemon:
        await ready(daemon)
        calls, barrier = Calls(daemon, monkeypatch, "add_jobs"), Barrier(daemon, monkeypatch, "claim_jobs")
        ids = await daemon.intake.write("acme-x", [b"1"], UNUSUAL)
        await barrier.begun.wait()
        ids += await daemon.intake.write("acme-x", [b"2"])
        assert daemon.straight.is_here(ids[1])
        await until(lambda: has_left(daemon, ids[1]))
        ids += await daemon.intake.write("acme-x", [b"3"])
        assert not daemon.straight.is_here(ids[2])
        await daemon.intake.flush()
        assert await added(calls) >= 2
        barrier.go.set()
        assert [(await ended(daemon, job_id)).job.data for job_id in ids] == [b"1", b"2", b"3"]


async def test_a_flush_brings_those_that_follow_into_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_daemon(tmp_path, poll="10 s") as daemon:
        await ready(daemon)
        barrier = Barrier(daemon, monkeypatch, "claim_jobs")
        ids = await daemon.intake.write("acme-x", [b"1"], UNUSUAL)
        await barrier.begun.wait()
        ids += await daemon.intake.write("acme-x", [b"2"])
        await daemon.intake.flush("acme")
        record = await daemon.store.get_job("acme", ids[1], now_ms=daemon.clock.now_ms())
        assert record is not None
        assert record.state is JobState.WAITING
        barrier.go.set()
        for job_id in ids:
            await ended(daemon, job_id)


async def test_a_flood_does_not_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_daemon(tmp_path, poll="10 s") as daemon:
        await ready(daemon)
        barrier = Barrier(daemon, monkeypatch, "add_jobs")
        many = await daemon.intake.write("acme-x", [b"1"] * (FEW + 1), UNUSUAL)
        await barrier.begun.wait()
        (one,) = await daemon.intake.write("acme-x", [b"2"])
        assert not daemon.straight.is_here(one), "too many are before it"
        barrier.go.set()
        for job_id in (*many, one):
            await ended(daemon, job_id)


async def test_what_nobody_runs_is_no_reason_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such lines are in no hurry, unless somebody follows them."""
    monkeypatch.setattr("functory.intake.journal_reader._PASS_BY_S", 3600.0)
    async with running_daemon(tmp_path, poll="10 s") as daemon:
        await ready(daemon)
        await until(lambda: is_unable(daemon, "acme-y"))
        await daemon.intake.write("acme-y", [b"1"])
        assert daemon.intake.in_line("acme") == 1
        (job_id,) = await daemon.intake.write("acme-x", [b"2"])
        assert daemon.straight.is_here(job_id)
        await until(lambda: has_left(daemon, job_id))
        assert (await ended(daemon, job_id)).job.data == b"2"


async def is_unable(daemon: Daemon, jobtype: str) -> bool:
    return not daemon.straight.may_run(jobtype)


async def test_lines_on_their_way_past_others_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functory.intake.backlog._WORTH_IT", 1)
    async with running_daemon(tmp_path, slots="1", poll="10 s") as daemon:
        await ready(daemon)
        barrier = Barrier(daemon, monkeypatch, "add_jobs")
        await daemon.intake.write("flood-x", [b"0"] * 3)
        await barrier.begun.wait()
        (first,) = await daemon.intake.write("acme-x", [b"1"], UNUSUAL)
        (second,) = await daemon.intake.write("acme-x", [b"2"])
        assert not daemon.intake._backlog.waits("acme"), "it goes past"
        assert daemon.straight.is_here(second)
        assert daemon.straight.count("acme-x") == 0
        barrier.go.set()
        await until(lambda: has_left(daemon, second))
        ends = [await ended(daemon, job_id) for job_id in (first, second)]
        starts = [record.outcome.started_ms for record in ends if record.outcome]
        assert len(starts) == 2
        assert starts == sorted(starts)


async def test_nobody_follows_jobs_that_cannot_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_daemon(tmp_path, poll="10 s") as daemon:
        await ready(daemon)
        claimed = asyncio.Event()

        async def nothing(*_: Any, **__: Any) -> list[Job]:
            claimed.set()
            return []

        with monkeypatch.context() as patch:
            patch.setattr(daemon.store, "claim_jobs", nothing)
            (first,) = await daemon.intake.write("acme-x", [b"1"], UNUSUAL)
            await claimed.wait()
            await until(lambda: has_rest(daemon, "acme-x"))
            (second,) = await daemon.intake.write("acme-x", [b"2"])
            assert not daemon.straight.is_here(second)
        for job_id in (first, second):
            await ended(daemon, job_id)


async def has_rest(daemon: Daemon, jobtype: str) -> bool:
    return daemon.executor.ahead(jobtype) is None


def test_how_many_may_follow_and_how_soon_again() -> None:
    clock, before = FakeClock(), {"acme-x": 0, "acme": 0}
    followers = Followers(clock, lambda name: not before[name], before.get, before.__getitem__)
    job = NewJob("1", "acme-x", b"", 0, 0)
    assert followers.has_none_before("acme-x")
    for name in before:
        before[name] = FEW
        assert not followers.has_none_before("acme-x")
        assert followers.may_join("acme-x", FEW)
        assert not followers.may_join("acme-x", FEW + 1)
        before[name] = FEW + 1
        assert not followers.may_join("acme-x", 1), "too many are before it"
        before[name] = 0
    followers.join("acme-x", [job] * (MOST - 1))
    assert followers.may_join("acme-x", 1)
    assert not followers.may_join("acme-x", 2)
    assert not followers.has_none_before("acme-x"), "others follow already"
    assert followers.free() == ["acme-x"]
    assert followers.free(["acme-x"]) == ["acme-x"]
    assert followers.free(["acme-y"]) == []
    before["acme"] = 1
    assert followers.free() == []
    clock.advance(0.5)
    assert followers.waited(0.5) == ["acme-x"]
    assert followers.waited(0.6) == []
    followers.tire("acme-x")
    jobs, since_s = followers.leave("acme-x")
    assert (len(jobs), since_s) == (MOST - 1, 0.0)
    assert not followers.may_join("acme-x", 1)
    clock.advance(TIRED_S)
    assert followers.may_join("acme-x", 1)
    assert not Followers(clock, lambda _: False, lambda _: None, lambda _: 0).may_join("acme-x", 1)


async def test_who_follows_is_not_overtaken_by_later_ones_on_the_long_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_daemon(tmp_path, slots="1", poll="10 s") as daemon:
        await ready(daemon)
        barrier = Barrier(daemon, monkeypatch, "add_jobs")
        ids = await daemon.intake.write("acme-x", [b"1"], UNUSUAL)
        await barrier.begun.wait()
        ids += await daemon.intake.write("acme-x", [b"2"])
        assert daemon.straight.is_here(ids[1])
        ids += await daemon.intake.write("acme-x", [b"3"] * (FEW + 1))
        assert not daemon.straight.is_here(ids[1]), "it goes before these, on their way"
        barrier.go.set()
        ends = [await ended(daemon, job_id) for job_id in ids]
        starts = [record.outcome.started_ms for record in ends if record.outcome]
        assert len(starts) == len(ids)
        assert starts[1] <= min(starts[2:])


async def test_a_look_that_saw_half_a_claim_clears_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have taken a new job for one of those that the claim was taking."""
    async with running_daemon(tmp_path, slots="2", poll="10 s") as daemon:
        await ready(daemon)
        claim_jobs, begun, go = daemon.store.claim_jobs, asyncio.Event(), asyncio.Event()

        async def slow_answer(*args: Any, **more: Any) -> list[Job]:
            jobs = await claim_jobs(*args, **more)
            if not begun.is_set():
                begun.set()
                await go.wait()
            return jobs

        monkeypatch.setattr(daemon.store, "claim_jobs", slow_answer)
        ids = await daemon.intake.write("acme-x", [b"1"], UNUSUAL)
        await begun.wait()
        looked_s = daemon.executor._outlook.looked_s
        ids += await daemon.intake.write("acme-x", [b"2"], UNUSUAL)
        await until(lambda: has_looked(daemon, looked_s))
        ids += await daemon.intake.write("acme-x", [b"3"])
        began = list[bytes]()
        log_started = daemon.executor._log_started

        def note_start(jobs: Any, now_ms: int) -> None:
            began.extend(job.data for job in jobs)
            log_started(jobs, now_ms)

        monkeypatch.setattr(daemon.executor, "_log_started", note_start)
        go.set()
        for job_id in ids:
            await until(partial(is_over, daemon, job_id))
        assert began == [b"1", b"2", b"3"]


async def is_over(daemon: Daemon, job_id: str) -> bool:
    record = await daemon.store.get_job("acme", job_id, now_ms=daemon.clock.now_ms())
    return record is not None and record.state is JobState.ARCHIVED
