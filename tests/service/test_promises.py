"""What a daemon promises of jobs over its own life: its stop, its start, its leases, its purge, and its limits."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from functory.daemon.daemon import Daemon
from store.base import Code, JobState, NewJob, Tenant
from store.url import open_store
from tests.support.clocks import LeapingClock
from tests.support.service import ended, register, running_daemon, until

GATED = """
import os, time
with open(payload + "-ran", "a") as file: file.write("x")
while not os.path.exists(payload): time.sleep(0.01)
"""


async def state_of(daemon: Daemon, job_id: str) -> JobState | None:
    record = await daemon.store.get_job("acme", job_id, now_ms=daemon.clock.now_ms())
    return record.state if record else None


async def purge_until(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, begun_ms: int, hours: float) -> None:
    """As the daemon would do it all the time, until so long after the beginning."""
    for step in range(round(hours * 10) + 1):
        with monkeypatch.context() as patch:
            patch.setattr(daemon.clock, "now_ms", lambda step=step: begun_ms + step * 360_000)
            await daemon.upkeep.purge()


def hold_until(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, verb: str, go: asyncio.Event) -> asyncio.Event:
    """Make a verb of the store wait; the event says that somebody waits for it."""
    real = getattr(daemon.store, verb)
    is_called = asyncio.Event()

    async def held(*args: Any, **more: Any) -> Any:
        is_called.set()
        await go.wait()
        return await real(*args, **more)

    monkeypatch.setattr(daemon.store, verb, held)
    return is_called


async def test_a_stop_waits_for_outcomes_on_their_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = asyncio.Event()
    async with running_daemon(tmp_path, straight="off") as daemon:
        await register(daemon, "acme-x", "return 'done'")
        is_called = hold_until(daemon, monkeypatch, "release_jobs", go)
        (id_,) = await daemon.journal.write("acme-x", ["a"])
        await is_called.wait()
        letting_go = asyncio.create_task(let_go(daemon, go))
    await letting_go
    async with open_store(daemon.settings.store_url) as store:
        record = await store.get_job("acme", id_, now_ms=daemon.clock.now_ms())
    assert record
    assert record.state == JobState.ARCHIVED


async def test_a_stop_waits_for_lines_on_their_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = asyncio.Event()
    async with running_daemon(tmp_path, role="api") as daemon:
        is_called = hold_until(daemon, monkeypatch, "add_jobs", go)
        (id_,) = await daemon.journal.write("acme-x", ["a"])
        await is_called.wait()
        letting_go = asyncio.create_task(let_go(daemon, go))
    await letting_go
    async with open_store(daemon.settings.store_url) as store:
        assert await store.get_states("acme", [id_], now_ms=daemon.clock.now_ms())


async def let_go(daemon: Daemon, go: asyncio.Event) -> None:
    """Once the daemon stops, and a little later: a stop that does not wait is over by then."""
    await until_stopping(daemon)
    asyncio.get_running_loop().call_later(0.2, go.set)


async def until_stopping(daemon: Daemon) -> None:
    async def look() -> bool:
        await asyncio.sleep(0)
        return daemon.vitals.is_stopping

    await until(look)


async def test_new_jobs_are_in_the_journal_before_the_outcome_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def note(owner: Any, verb: str, is_ours: Callable[..., bool]) -> None:
        real = getattr(owner, verb)

        async def noted(*args: Any, **more: Any) -> Any:
            result = await real(*args, **more)
            if is_ours(*args):
                order.append(verb)
            return result

        monkeypatch.setattr(owner, verb, noted)

    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-x", "print('J: y|more')")
        note(daemon.intake, "write", lambda jobtype, *_: jobtype == "acme-y")
        note(daemon.store, "release_jobs", lambda _, releases: any(release.id == id_ for release in releases))
        (id_,) = await daemon.journal.write("acme-x", ["a"])
        await ended(daemon, id_)
    assert order == ["write", "release_jobs"]


async def test_a_job_may_run_longer_than_its_lease(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path / "data", lease="4s") as daemon:
        await register(daemon, "acme-x", GATED)
        (id_,) = await daemon.journal.write("acme-x", [str(gate)])
        leases: set[int] = set()

        async def is_renewed_often() -> bool:
            record = await daemon.store.get_job("acme", id_, now_ms=daemon.clock.now_ms())
            if record is not None and record.state == JobState.RUNNING:
                leases.add(record.job.dt_ms)
            return len(leases) > 4 or (record is not None and record.job.attempts > 1)

        await until(is_renewed_often)
        await asyncio.to_thread(gate.touch)
        record = await ended(daemon, id_)
        assert daemon.vitals.seen.expired_leases == 0
    assert (record.job.attempts, record.job.token) == (1, 1)
    assert await asyncio.to_thread((tmp_path / "gate-ran").read_text) == "x"


async def test_a_job_that_takes_every_daemon_down_is_given_up(tmp_path: Path) -> None:
    """Daemons that claimed it and were never heard of again: each has cost it an attempt."""
    ran = tmp_path / "ran"
    async with running_daemon(tmp_path / "data", max_attempts="3") as daemon:
        daemon.pause()
        await register(daemon, "acme-x", "open(payload, 'w').close()")
        now_ms = daemon.clock.now_ms()
        (id_,) = daemon.journal.take_ids(1)
        await daemon.store.add_jobs([NewJob(id_, "acme-x", str(ran).encode(), now_ms, now_ms)], now_ms=now_ms)
        for attempt in range(1, 4):
            (job,) = await daemon.store.claim_jobs("acme-x", 1, owner="zz", lease_ms=1, now_ms=now_ms)
            await daemon.store.expire_locks(now_ms=now_ms + 1)  # unless the daemon itself was quicker
            assert job.attempts == attempt
        daemon.resume()
        record = await ended(daemon, id_)
    assert record.outcome
    assert record.outcome.code == Code.ABANDONED
    assert "lost" in record.outcome.message
    assert not await asyncio.to_thread(ran.exists)


async def test_a_start_reads_on_where_the_store_says(tmp_path: Path) -> None:
    """The journal's own note of its position may be lost or old; the store's was committed with the jobs."""
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-x", "return None")
        (id_,) = await daemon.journal.write("acme-x", ["once"])
        await ended(daemon, id_)
        later_ms = daemon.clock.now_ms() + 1000
        await daemon.store.expire_jobs(now_ms=later_ms, done_before_ms=later_ms, waiting_before_ms=0)
        assert await state_of(daemon, id_) is None, "or its id would be recognised"
    await asyncio.to_thread((tmp_path / "journal" / "cursor").unlink)
    async with running_daemon(tmp_path) as daemon:
        (other,) = await daemon.journal.write("acme-x", ["another"])
        await ended(daemon, other)
        assert await state_of(daemon, id_) is None
        assert daemon.executor.claimed == 1


async def test_a_purge_takes_what_is_old_enough_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_daemon(tmp_path, keep_done="1h", keep_waiting="2h", keep_failed="3h") as daemon:
        await register(daemon, "acme-x", "ctx.fail() if payload == 'bad' else None")
        (done,) = await daemon.journal.write("acme-x", ["a"])
        (bad,) = await daemon.journal.write("acme-x", ["bad"])
        (waits,) = await daemon.journal.write("acme-nobody", ["b"])
        await ended(daemon, done)
        await ended(daemon, bad)
        begun_ms = daemon.clock.now_ms()

        async def states_after(hours: float) -> list[JobState | None]:
            await purge_until(daemon, monkeypatch, begun_ms, hours)
            return [await state_of(daemon, id_) for id_ in (done, waits, bad)]

        assert await states_after(0) == [JobState.ARCHIVED, JobState.WAITING, JobState.ARCHIVED]
        assert await states_after(0.9) == [JobState.ARCHIVED, JobState.WAITING, JobState.ARCHIVED]
        assert await states_after(1.5) == [None, JobState.WAITING, JobState.ARCHIVED]
        assert await states_after(2.5) == [None, JobState.ARCHIVED, JobState.ARCHIVED]
        assert await states_after(3.5) == [None, JobState.ARCHIVED, None], "what failed is kept for longer"


async def test_a_job_whose_time_lies_far_back_is_given_up_only_after_it_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_daemon(tmp_path, keep_waiting="2h") as daemon:
        begun_ms = daemon.clock.now_ms()
        job = NewJob("past", "acme-nobody", b"", begun_ms - 30 * 86_400_000, begun_ms)
        await daemon.store.create_job(job, now_ms=begun_ms)
        for hours, state in ((0.5, JobState.WAITING), (1.9, JobState.WAITING), (2.5, JobState.ARCHIVED)):
            await purge_until(daemon, monkeypatch, begun_ms, hours)
            assert await state_of(daemon, job.id) is state, hours


async def test_jobs_are_given_up_also_after_the_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_daemon(tmp_path, keep_waiting="2h") as daemon:
        begun_ms = daemon.clock.now_ms()
        job = NewJob("old", "acme-nobody", b"", begun_ms - 3 * 3_600_000, begun_ms - 3 * 3_600_000)
        for hours in (1000, 0):
            with monkeypatch.context() as patch:
                patch.setattr(daemon.clock, "now_ms", lambda hours=hours: begun_ms + hours * 3_600_000)
                await daemon.upkeep.purge()
                if hours:
                    await daemon.store.create_job(job, now_ms=job.create_ms)
        await purge_until(daemon, monkeypatch, begun_ms, 2.1)
        assert await state_of(daemon, job.id) is JobState.ARCHIVED


@pytest.mark.parametrize("noted", [True, False], ids=["a gap", "a store of an earlier version"])
async def test_time_in_which_no_daemon_had_the_store_is_no_reason_to_give_jobs_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: bool
) -> None:
    clock = LeapingClock()
    begun_ms = clock.now_ms()
    async with running_daemon(tmp_path, clock, keep_waiting="2h") as daemon:
        job = NewJob("waits", "acme-nobody", b"", begun_ms, begun_ms)
        repeats = job._replace(id="repeats", dt_ms=begun_ms + 1000, repeat="SCHEDULED, +1 HOUR")
        for new in (job, repeats):
            await daemon.store.create_job(new, now_ms=begun_ms)
        if noted:
            await purge_until(daemon, monkeypatch, begun_ms, 0.5)
    clock.ahead_ms = 30 * 86_400_000
    begun_ms += clock.ahead_ms
    for start in range(2):  # what is known of a gap outlasts the next start
        async with running_daemon(tmp_path, clock, keep_waiting="2h") as daemon:
            await purge_until(daemon, monkeypatch, begun_ms, 0.1 + start)
            assert [await state_of(daemon, id_) for id_ in ("waits", "repeats")] == [JobState.WAITING] * 2
            if start:
                await purge_until(daemon, monkeypatch, begun_ms, 2.3)
                assert await state_of(daemon, "waits") is JobState.ARCHIVED
                assert await state_of(daemon, "repeats") is JobState.WAITING, "a schedule goes on"


async def test_failed_jobs_are_kept_for_ever_until_most_of_the_quota_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_daemon(tmp_path, keep_done="1h") as daemon:
        await register(daemon, "acme-x", "ctx.fail()")
        now_ms = daemon.clock.now_ms()
        await daemon.store.create_tenant(Tenant("acme", now_ms, limits='{"max_jobs": 10}'))
        first = [await daemon.journal.write("acme-x", [str(n)]) for n in range(8)]
        for (id_,) in first:
            await ended(daemon, id_)
        later_ms = daemon.clock.now_ms() + 1000 * 86_400_000
        monkeypatch.setattr(daemon.clock, "now_ms", lambda: later_ms)
        await daemon.upkeep.purge()
        assert (await daemon.store.get_usage("acme")).jobs == 8
        (last,) = await daemon.journal.write("acme-x", ["8"])
        await ended(daemon, last)
        await daemon.upkeep.purge()
        assert (await daemon.store.get_usage("acme")).jobs == 1, "what failed just now is kept as long as others"


async def test_a_handler_is_stopped_at_its_time_limit(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, max_attempts="1") as daemon:
        await register(daemon, "acme-x", "while True: pass", timeout_s=0.5)
        (id_,) = await daemon.journal.write("acme-x", ["a"])
        record = await ended(daemon, id_)
    assert record.outcome
    assert record.outcome.message == "timed out after 0.5 s"


async def test_after_a_graceful_stop_nothing_runs_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One job was running and is finished, the others of its batch and of the queue were not begun."""
    gates = [tmp_path / f"gate-{number}" for number in range(5)]

    async def open_gates() -> None:
        for gate in gates:
            await asyncio.to_thread(gate.touch)

    async with running_daemon(tmp_path / "data", slots="1") as daemon:
        await register(daemon, "acme-x", GATED)
        ids = await daemon.journal.write("acme-x", [str(gate) for gate in gates])
        await until(lambda: asyncio.to_thread(Path(f"{gates[0]}-ran").exists))
        stop = daemon.executor.stop

        async def open_and_stop(grace_s: float) -> None:
            """What runs can end only in the time that it is given."""
            if grace_s:
                await open_gates()
            await stop(grace_s)

        monkeypatch.setattr(daemon.executor, "stop", open_and_stop)
    await open_gates()
    async with running_daemon(tmp_path / "data") as daemon:
        records = [await ended(daemon, id_) for id_ in ids]
    assert [record.job.attempts for record in records] == [1] * 5
    assert [await asyncio.to_thread(Path(f"{gate}-ran").read_text) for gate in gates] == ["x"] * 5
