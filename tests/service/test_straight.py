"""The straight way: when it is taken, and that what holds on the long way holds on it, too."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import functory.execution.straight.gathering
import functory.execution.straight.showing
import functory.execution.straight.waiting_jobs
import functory.intake.journal_reader
from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.execution.executor import Executor
from functory.intake.job_options import JobOptions
from functory.operations.jobs import cancel_job, get_job, wait_for_job
from store.base import Code, JobRecord, JobState
from store.errors import StoreUnavailable
from tests.support.service import ended, register, running_daemon, until
from tests.support.straight import SLOW, Calls, added, has_left, looked, ready, until_there_is
from tests.support.straight_times import set_straight_times


async def is_full(daemon: Daemon) -> bool:
    return daemon.executor.free_slots == 0


async def test_a_job_that_can_start_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_straight_times(monkeypatch)
    monkeypatch.setattr(functory.intake.journal_reader, "_KEEP_AFTER_S", 3600.0)
    async with running_daemon(tmp_path, poll="10 s") as daemon:
        await ready(daemon)
        calls = Calls(daemon, monkeypatch, "add_jobs", "claim_jobs", "release_jobs", "add_ended_jobs")
        (id_,) = await daemon.intake.write("acme-x", [b"1"])
        assert daemon.straight.is_here(id_)
        service = service_of(daemon)
        service.accepted.note([id_], "acme-x", JobOptions())  # as a request would: it may not have been started yet
        record = await wait_for_job(service, "acme", id_, 10)
        assert isinstance(record, JobRecord)
        stored = await daemon.store.get_job("acme", id_, now_ms=daemon.clock.now_ms())
        brief = await daemon.store.get_job("acme", id_, now_ms=daemon.clock.now_ms(), max_bytes=0)
        assert record in {stored, brief}, "who waits gets what the store has; if it just ended, without asking it"
        assert calls.of == {"add_ended_jobs": 1}
        assert (record.outcome and record.outcome.code, record.job.attempts, record.job.token) == (Code.OK, 1, 1)
        await daemon.intake.flush()
        assert daemon.journal.read_point == daemon.journal.write_point
        assert await daemon.store.get_journal_position(await identity(tmp_path)) is not None


async def identity(folder: Path) -> str:
    return await asyncio.to_thread((folder / "journal" / "identity").read_text)


@pytest.mark.parametrize("options", [JobOptions(priority=1000), JobOptions(domain="d"), JobOptions(indexed=True)])
async def test_what_is_out_of_the_ordinary_takes_the_long_way(
    options: JobOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_daemon(tmp_path) as daemon:
        await ready(daemon)
        calls = Calls(daemon, monkeypatch, "add_ended_jobs")
        (id_,) = await daemon.intake.write("acme-x", [b"1"], options)
        await ended(daemon, id_)
        assert not calls.of


async def test_a_daemon_that_stops_starts_nothing_of_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functory.execution.straight.waiting_jobs, "RETURN_AFTER_S", 3600.0)
    async with running_daemon(tmp_path, slots="1", poll="10 s") as daemon:
        await ready(daemon, SLOW)
        await daemon.intake.write("acme-x", [b"1"])
        await until(lambda: is_full(daemon))
        (waiting,) = await daemon.intake.write("acme-x", [b"2"])
        await daemon.executor.stop(30)
        assert daemon.executor.free_slots == 1
        daemon.executor.offer("acme-x", 1)
        assert daemon.straight.count("acme-x") == 1, "it waits, though there is a slot for it"
    async with running_daemon(tmp_path) as daemon:
        assert (await ended(daemon, waiting)).job.attempts == 1


@pytest.mark.parametrize("options", [JobOptions(), JobOptions(priority=1000)])
async def test_what_waits_for_a_slot_starts_as_soon_as_one_comes_free(
    options: JobOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it waits. Nothing else wakes the executor here."""
    set_straight_times(monkeypatch)
    monkeypatch.setattr(Executor, "note_long_batches", lambda _: None)
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path, slots="1", poll="100 s") as daemon:
        await ready(daemon, until_there_is(gate))
        await daemon.intake.write("acme-x", [b"1"])
        await until(lambda: is_full(daemon))
        (waiting,) = await daemon.intake.write("acme-x", [b"2"], options)
        await until(lambda: has_come(daemon, waiting))
        gate.touch()
        await until(lambda: is_archived(daemon, waiting))


async def is_archived(daemon: Daemon, job_id: str) -> bool:
    record = await daemon.store.get_job("acme", job_id, now_ms=daemon.clock.now_ms())
    return record is not None and record.state is JobState.ARCHIVED


async def has_come(daemon: Daemon, job_id: str) -> bool:
    """To where it waits for a slot."""
    is_there = await daemon.store.get_job("acme", job_id, now_ms=daemon.clock.now_ms()) is not None
    return is_there or daemon.straight.count("acme-x") == 1


async def test_a_job_that_takes_long_is_shown_as_running(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await ready(daemon, "import time; time.sleep(3); return payload")
        (id_,) = await daemon.intake.write("acme-x", [b"1"])

        async def is_shown() -> bool:
            record = await daemon.store.get_job("acme", id_, now_ms=daemon.clock.now_ms())
            is_running = record is not None and record.state is JobState.RUNNING
            return is_running and [lease.id for lease in daemon.executor.leases.all()] == [id_]

        await until(is_shown)
        record = await ended(daemon, id_)
        assert (record.outcome and record.outcome.code, record.job.token) == (Code.OK, 1)
        await until(lambda: asyncio.sleep(0, not daemon.executor.leases.all()))


async def test_a_flush_brings_running_jobs_into_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_straight_times(monkeypatch)
    async with running_daemon(tmp_path, poll="10 s") as daemon:
        await ready(daemon, "import time; time.sleep(60)")
        service = service_of(daemon)
        (id_,) = await daemon.intake.write("acme-x", [b"1"])
        await until(partial(runs_here, daemon, id_))
        looked_at = await get_job(service, "acme", id_)
        assert not isinstance(looked_at, JobRecord) or looked_at.state is JobState.RUNNING
        await daemon.intake.flush("acme")
        record = await daemon.store.get_job("acme", id_, now_ms=daemon.clock.now_ms())
        assert record is not None
        await cancel_job(service, "acme", id_)
        record = await ended(daemon, id_)
        assert record.outcome
        assert record.outcome.code is Code.CANCELLED


async def runs_here(daemon: Daemon, job_id: str) -> bool:
    return daemon.straight.look("acme", job_id, daemon.clock.now_ms()) is not None


async def test_the_journal_keeps_lines_that_still_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_straight_times(monkeypatch)
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path / "d", poll="10 s") as daemon:
        await ready(daemon, until_there_is(gate))
        (runs,) = await daemon.intake.write("acme-x", [b"1"])

        async def is_read() -> bool:
            return bool(daemon.intake._reader._open_of)

        await until(is_read)
        (later,) = await daemon.intake.write("acme-y", [b"2"])  # without a handler: the long way

        async def is_stored() -> bool:
            return await daemon.store.get_job("acme", later, now_ms=daemon.clock.now_ms()) is not None

        await until(is_stored)
        assert daemon.journal.read_point < daemon.journal.write_point
        assert await daemon.store.get_job("acme", runs, now_ms=daemon.clock.now_ms()) is None, "only the journal has it"
        await asyncio.to_thread(gate.touch)
        await ended(daemon, runs)

        async def is_let_go() -> bool:
            return daemon.journal.read_point == daemon.journal.write_point

        await until(is_let_go)


async def test_a_pause_holds_from_its_answer_on(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await ready(daemon)
        await daemon.store.set_type_paused("acme", "acme-x", paused=True)
        daemon.types_changed("acme")
        (id_,) = await daemon.intake.write("acme-x", [b"1"])
        await daemon.intake.flush()
        record = await daemon.store.get_job("acme", id_, now_ms=daemon.clock.now_ms())
        assert record is not None
        assert (record.state, record.job.attempts) == (JobState.WAITING, 0)


async def test_a_pause_that_was_made_elsewhere_is_seen_before_the_job_starts(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await ready(daemon)
        await daemon.store.set_type_paused("acme", "acme-x", paused=True)
        daemon.straight._gates.forget()  # as after a while: what was known of a type does not hold for long
        (id_,) = await daemon.intake.write("acme-x", [b"1"])

        async def stored() -> JobRecord | None:
            return await daemon.store.get_job("acme", id_, now_ms=daemon.clock.now_ms())

        record = await until(stored)  # not by a flush, which would bring it there before it can start
        assert (record.state, record.job.attempts) == (JobState.WAITING, 0)


async def test_what_cannot_start_in_time_takes_the_long_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_daemon(tmp_path, slots="1") as daemon:
        await ready(daemon, SLOW)
        (first,) = await daemon.intake.write("acme-x", [b"1"])
        await until(lambda: is_full(daemon))
        calls = Calls(daemon, monkeypatch, "add_jobs")
        (second,) = await daemon.intake.write("acme-x", [b"2"])
        await until(lambda: added(calls))
        await until(lambda: has_left(daemon, second))
        for id_ in (first, second):
            await ended(daemon, id_)


async def test_a_retry_of_a_straight_job_is_counted(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await ready(daemon, "return payload if ctx.attempt >= 3 else ctx.retry(after_s=0.01)")
        (id_,) = await daemon.intake.write("acme-x", [b"1"])
        record = await ended(daemon, id_)
        assert (record.outcome and record.outcome.code, record.job.attempts) == (Code.OK, 3)


async def test_outcomes_wait_for_a_store_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_daemon(tmp_path) as daemon:
        await ready(daemon)
        add, release = daemon.store.add_ended_jobs, daemon.store.release_jobs
        is_away = True

        async def add_ended_jobs(*args: Any, **more: Any) -> Any:
            if is_away:
                raise StoreUnavailable("away")
            return await add(*args, **more)

        async def release_jobs(*args: Any, **more: Any) -> Any:  # on a busy machine it may take the long way
            if is_away:
                raise StoreUnavailable("away")
            return await release(*args, **more)

        monkeypatch.setattr(daemon.store, "add_ended_jobs", add_ended_jobs)
        monkeypatch.setattr(daemon.store, "release_jobs", release_jobs)
        (id_,) = await daemon.intake.write("acme-x", [b"1"])
        await until(lambda: has_stopped(daemon))
        record = await daemon.store.get_job("acme", id_, now_ms=daemon.clock.now_ms())
        assert record is None or record.state is JobState.RUNNING
        is_away = False
        await ended(daemon, id_)


async def has_stopped(daemon: Daemon) -> bool:
    return bool(daemon.outbox._lanes)


async def test_an_end_does_not_overtake_the_showing_of_its_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a job of which nothing is kept would come back, and run again."""
    set_straight_times(monkeypatch, show_after_s=0.0)
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-x", "return payload", keep="none")
        await until(lambda: looked(daemon))
        stopped, order = asyncio.Event(), list[str]()
        show, end, release, put = (
            daemon.store.add_running_jobs,
            daemon.store.add_ended_jobs,
            daemon.store.release_jobs,
            daemon.outbox.put,
        )

        async def slow(*given: Any, **named: Any) -> Any:
            await stopped.wait()
            for _ in range(20):  # turns, in which the end could come first
                await asyncio.sleep(0)
            report = await show(*given, **named)
            order.append("shown")
            return report

        def noted(verb: Any) -> Any:
            async def call(*given: Any, **named: Any) -> Any:
                order.append("ended")
                return await verb(*given, **named)

            return call

        def stop(endings: Any, *sizes: Any) -> None:
            if endings:
                stopped.set()
            put(endings, *sizes)

        monkeypatch.setattr(daemon.store, "add_running_jobs", slow)
        monkeypatch.setattr(daemon.store, "add_ended_jobs", noted(end))
        monkeypatch.setattr(daemon.store, "release_jobs", noted(release))
        monkeypatch.setattr(daemon.outbox, "put", stop)
        (id_,) = await daemon.intake.write("acme-x", [b"1"])
        await stopped.wait()
        await daemon.outbox.empty()
        await daemon.intake.flush()
        assert await daemon.store.get_job("acme", id_, now_ms=daemon.clock.now_ms()) is None
        assert order == ["shown", "ended"]


async def test_who_stops_waiting_for_a_flush_does_not_stop_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_straight_times(monkeypatch)
    async with running_daemon(tmp_path) as daemon:
        ids = []
        for jobtype in ("acme-x", "acme-y"):  # each in a reservation of its own
            await register(daemon, jobtype, SLOW)
            await until(partial(is_clear, daemon, jobtype))
            ids += await daemon.intake.write(jobtype, [b"1"])
            await until(partial(is_read, daemon, ids[-1]))
        rsync, begun, go = daemon.journal.rsync, asyncio.Event(), asyncio.Event()

        async def slow(reservation: Any) -> None:
            await rsync(reservation)
            begun.set()
            await go.wait()

        monkeypatch.setattr(daemon.journal, "rsync", slow)
        flushing = asyncio.create_task(daemon.intake.flush("acme"))
        await begun.wait()
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)
        go.set()
        for id_ in ids:
            await ended(daemon, id_)
        await daemon.intake.flush()
        assert daemon.journal.read_point == daemon.journal.write_point


async def is_clear(daemon: Daemon, jobtype: str) -> bool:
    return daemon.executor.is_clear(jobtype)


async def is_read(daemon: Daemon, job_id: str) -> bool:
    return job_id in daemon.intake._reader._open_of


async def test_jobs_that_come_faster_than_they_end_start_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_straight_times(monkeypatch)
    monkeypatch.setattr(functory.execution.straight.gathering, "MOMENT_S", 3600.0)
    async with running_daemon(tmp_path, poll="10 s") as daemon:
        await ready(daemon)
        may_record, batches = asyncio.Event(), list[int]()
        add_ended_jobs = daemon.store.add_ended_jobs

        async def record(owner: str, jobs: Any, *args: Any, **more: Any) -> Any:
            batches.append(len(jobs))
            await may_record.wait()
            return await add_ended_jobs(owner, jobs, *args, **more)

        monkeypatch.setattr(daemon.store, "add_ended_jobs", record)
        service = service_of(daemon)
        ids = []
        for number in range(6):
            ids += await daemon.intake.write("acme-x", [b"%d" % number])
            service.accepted.note(ids[-1:], "acme-x", JobOptions())
            if not number:
                await until(lambda: is_told(batches))
        assert daemon.straight.count("acme-x") == 5, "the first has not been recorded"
        await get_job(service, "acme", ids[3])
        assert daemon.straight.count("acme-x") == 0, "somebody asks for one of them: they start"
        may_record.set()
        for job_id in ids:
            assert isinstance(await wait_for_job(service, "acme", job_id, 10), JobRecord)
        assert sum(batches) == 6, "in as many runs as the scheduler thinks best"
        ids = await daemon.intake.write("acme-x", [b"alone"])
        assert daemon.straight.count("acme-x") == 0, "nothing of its type is under way"
        await ended(daemon, ids[0])


async def is_told(batches: list[int]) -> bool:
    return bool(batches)
