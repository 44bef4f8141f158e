"""What others may expect beside a flood that runs from the journal: who flushes, who is urgent, who posts little."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.execution.straight import reader_pause, waiting_jobs
from functory.intake import journal_reader
from functory.intake.job_options import JobOptions
from functory.operations.figures import counters_of, read_metrics
from store.base import JobRecord, NewJob
from tests.support.intake import FLOOD, Straight, an_intake, stop
from tests.support.service import ended, register, running_daemon, until
from tests.support.store_audit import check_states, read_all
from tests.support.straight import looked, ready, until_there_is
from tests.support.straight_times import LONG_S, set_straight_times

URGENT = JobOptions(priority=1000)


async def post(daemon: Daemon, count: int, jobtype: str = "acme-x") -> list[str]:
    ids: list[str] = []
    for _ in range(0, count, 500):
        ids += await daemon.intake.write(jobtype, [b"x"] * 500)
    return ids


async def nothing_in_line(daemon: Daemon) -> bool:
    return not daemon.intake.in_line("acme")


async def something_runs(daemon: Daemon) -> bool:
    return daemon.executor.free_slots == 0


async def stored(daemon: Daemon, tenant: str = "acme") -> dict[str, JobRecord]:
    return await read_all(daemon.store, tenant, daemon.clock.now_ms())


async def test_what_a_flush_takes_from_memory_is_not_put_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it has the store show what runs, the reader comes to the lines that wait."""
    set_straight_times(monkeypatch)
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path, poll="10 s", slots="1") as daemon:
        await ready(daemon, until_there_is(gate))
        ids = await daemon.intake.write("acme-x", [b"0"])
        await until(partial(something_runs, daemon))
        add_running = daemon.store.add_running_jobs

        async def add_late(*args: Any, **more: Any) -> Any:
            await until(partial(nothing_in_line, daemon))
            return await add_running(*args, **more)

        monkeypatch.setattr(daemon.store, "add_running_jobs", add_late)
        ids += await daemon.intake.write("acme-x", [b"x"] * 300)
        await daemon.intake.flush("acme")
        assert (await stored(daemon)).keys() == set(ids)
        gate.touch()
        await ended(daemon, ids[-1])


async def test_a_flush_does_not_wait_for_the_flood_of_another_tenant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_straight_times(monkeypatch)
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path, poll="10 s", slots="1") as daemon:
        await ready(daemon, until_there_is(gate))
        await post(daemon, 3000)
        await until(partial(nothing_in_line, daemon))
        (other,) = await daemon.intake.write("quiet-numbered", [b"1"], JobOptions(indexed=True))
        async with asyncio.timeout(20):
            await daemon.intake.flush("quiet")
        assert (await stored(daemon, "quiet")).keys() == {other}
        assert daemon.intake.unstored("acme").lines > 2000, "they wait where they were"
        gate.touch()
        await daemon.intake.flush()
        assert daemon.journal.read_point == daemon.journal.write_point


async def test_an_urgent_job_does_not_wait_behind_the_flood_of_its_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither behind the lines in the journal nor behind the jobs in memory."""
    set_straight_times(monkeypatch)
    gate, order = tmp_path / "gate", tmp_path / "order"
    body = f"{until_there_is(gate)}\nwith open({str(order)!r}, 'a') as file: file.write(payload + chr(10))"
    async with running_daemon(tmp_path, poll="10 s", slots="1") as daemon:
        await ready(daemon, body)
        ids = await post(daemon, 10_000)
        await until(partial(something_runs, daemon))
        (urgent,) = await daemon.intake.write("acme-x", [b"urgent"], URGENT)

        async def all_wait_in_the_store() -> bool:
            rows = await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
            return sum(row.waiting for row in rows) > 8000 and await nothing_in_line(daemon)

        await until(all_wait_in_the_store)
        gate.touch()
        await ended(daemon, urgent)
        await ended(daemon, ids[-1])
        ran = (await asyncio.to_thread(order.read_text)).split()
        assert len(ran) == len(ids) + 1
        assert ran.index("urgent") <= 2000, "behind the batch that ran already, and no other"


async def test_lines_that_are_old_leave_memory_although_their_type_has_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_straight_times(monkeypatch)
    monkeypatch.setattr(reader_pause, "_PROGRESS_WITHIN_S", 0.001)
    monkeypatch.setattr(waiting_jobs, "RETURN_AFTER_S", 0.001)  # it is looked for them all the time
    monkeypatch.setattr(waiting_jobs, "_LONGEST_S", 0.01, raising=False)
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path, poll="10 s", slots="1") as daemon:
        await ready(daemon, until_there_is(gate))
        ids = await post(daemon, 3000)

        async def they_are_stored() -> bool:
            return len(await stored(daemon)) >= 1000

        await until(they_are_stored)
        gate.touch()
        await ended(daemon, ids[-1])
        assert len(await check_states(daemon.store, "acme", daemon.clock.now_ms())) == len(ids)


async def test_a_slow_flood_does_not_fill_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nobody could post any more."""
    set_straight_times(monkeypatch, show_after_s=0.001)
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path, poll="10 s", slots="1", journal_backlog="4MiB") as daemon:
        await ready(daemon, until_there_is(gate))
        ids: list[str] = []
        for _ in range(40):
            ids += await daemon.intake.write("acme-x", [b"x" * 400] * 500)
            await until(partial(has_room, daemon))
        gate.touch()
        await ended(daemon, ids[-1])


async def has_room(daemon: Daemon) -> bool:
    return daemon.journal.stats().backlog_bytes < 3 << 20


async def test_jobs_that_others_run_reach_the_store_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever claims them there must not wait for the reader, which waits for what could start here."""
    monkeypatch.setattr(reader_pause, "_PROGRESS_WITHIN_S", LONG_S)
    monkeypatch.setattr(journal_reader, "_FOLLOW_MS", 3_600_000)
    async with running_daemon(tmp_path, poll="10 s") as daemon:
        await register(daemon, "acme-x", "", lang="worker")
        await until(partial(looked, daemon))
        monkeypatch.setattr(daemon.executor, "wake", lambda: None)
        await daemon.intake.write("acme-x", [b"first"])
        await daemon.intake.flush()
        assert not daemon.executor.is_clear("acme-x"), "no look knows of it"
        assert daemon.executor.ahead("acme-x") is not None
        added: list[NewJob] = []
        add_jobs, begun, go = daemon.store.add_jobs, asyncio.Event(), asyncio.Event()

        async def add(jobs: Sequence[NewJob], **more: Any) -> Any:
            begun.set()
            await go.wait()
            added.extend(jobs)
            return await add_jobs(jobs, **more)

        monkeypatch.setattr(daemon.store, "add_jobs", add)

        async def all_are_added() -> bool:
            return len(added) == 101

        await daemon.intake.write("acme-x", [b"x"])
        await begun.wait()
        await daemon.intake.write("acme-x", [b"x"] * 100)  # which the reader finds when it has added that one
        go.set()
        await until(all_are_added)


async def test_single_jobs_reach_the_store_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where their type has no slot: whoever looks for one finds it there."""
    set_straight_times(monkeypatch, return_after_s=0.001)
    monkeypatch.setattr(reader_pause, "_PROGRESS_WITHIN_S", LONG_S)
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path, poll="10 s", slots="1") as daemon:
        await ready(daemon, until_there_is(gate))
        ids: list[str] = []

        async def all_are_stored() -> bool:
            return len(await stored(daemon)) >= len(ids) - 1

        for _ in range(10):
            ids += await daemon.intake.write("acme-x", [b"x"])
            await until(all_are_stored)
        gate.touch()
        await ended(daemon, ids[-1])


async def test_lines_before_an_urgent_one_go_to_the_store(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake, asyncio.timeout(30):
        straight = Straight(follows=True)
        intake.backlog.use(straight)
        ids: list[str] = []
        for _ in range(5):  # more than the reader takes in one step
            ids += await intake.backlog.write("busy-mail", FLOOD)
        ids += await intake.backlog.write("busy-mail", [b"urgent"], URGENT)
        reader = asyncio.create_task(intake.reader.run())
        await until(partial(counts, straight, intake.added, len(ids)))
        assert straight.jobs == []
        await stop(reader)


async def counts(straight: Straight, added: list[str], count: int) -> bool:
    return len(straight.jobs) + len(added) == count


async def test_metrics_count_what_the_scoreboard_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_straight_times(monkeypatch)
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path, poll="10 s", slots="1") as daemon:
        await ready(daemon, until_there_is(gate))
        ids = await post(daemon, 3000)
        service = service_of(daemon)

        async def all_are_seen() -> bool:
            rows = await counters_of(service, None)
            return sum(row.waiting + row.running for row in rows) == len(ids)

        await until(all_are_seen)
        metrics = await read_metrics(service)
        assert sum(row.waiting + row.running for row in metrics.counters) == len(ids)
        gate.touch()
        await ended(daemon, ids[-1])


async def test_an_urgent_job_that_comes_due_goes_before_the_flood_of_its_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited in the store, which the flood does not."""
    set_straight_times(monkeypatch)
    gate, order = tmp_path / "gate", tmp_path / "order"
    body = f"{until_there_is(gate)}\nwith open({str(order)!r}, 'a') as file: file.write(payload + chr(10))"
    async with running_daemon(tmp_path, poll="10 s", slots="1") as daemon:
        await ready(daemon, body)
        due_ms = daemon.clock.now_ms() + 1000
        ids = await daemon.intake.write("acme-x", [b"urgent"], JobOptions(priority=1000, dt_ms=due_ms))
        await daemon.intake.flush()
        daemon.executor.wake()
        await until(partial(looked, daemon))
        ids += await daemon.intake.write("acme-x", [b"x"])
        await until(partial(something_runs, daemon))
        ids += await post(daemon, 3000)
        await until(partial(nothing_in_line, daemon))
        assert daemon.straight.count("acme-x") == 3000

        async def is_due() -> bool:
            return daemon.clock.now_ms() > due_ms

        async def all_have_ended() -> bool:
            rows = await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
            return sum(row.ok for row in rows) == len(ids)

        await until(is_due)
        daemon.executor.wake()
        gate.touch()
        await until(all_have_ended)  # and nobody asks for one, which would bring all of them into the store
        ran = (await asyncio.to_thread(order.read_text)).split()
        assert len(ran) == len(ids)
        assert ran.index("urgent") <= 100


async def test_who_posts_thousands_in_many_types_leaves_room_for_the_jobs_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of which few wait: these go the straight way also then, and no other many do."""
    set_straight_times(monkeypatch)
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path, poll="10 s", slots="1") as daemon:
        types = [f"acme-x{number}" for number in range(9)]
        for jobtype in (*types, "quiet-y", "zeta-z"):
            await register(daemon, jobtype, until_there_is(gate))
        await ready(daemon, until_there_is(gate))
        ids = [(await daemon.intake.write(jobtype, [b"x"] * 1000))[0] for jobtype in types]
        here = [daemon.straight.is_here(job_id) for job_id in ids]
        assert here == sorted(here, reverse=True)
        assert 5 <= sum(here) < len(types), "as many as there is room for"
        few = await daemon.intake.write("quiet-y", [b"1"] * 32)
        assert all(map(daemon.straight.is_here, few))
        (one_more,) = await daemon.intake.write("quiet-y", [b"1"])
        assert not daemon.straight.is_here(one_more)
        many = await daemon.intake.write("zeta-z", [b"1"] * 33)
        assert not any(map(daemon.straight.is_here, many))
        gate.touch()
        for tenant, some in {"acme": ids, "quiet": [*few, one_more], "zeta": many}.items():
            assert [(await ended(daemon, job_id, tenant)).job.attempts for job_id in some] == [1] * len(some)
        await daemon.intake.flush()
        assert not daemon.straight._waiting._lines_of
