"""Many jobs of one type at once, on the straight way: which of them take it, and that what holds for few holds for
many."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import functory.intake.journal_reader
import functory.loops.courtesy
from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.intake.job_options import JobOptions
from functory.loops.courtesy import LONG_STEP, SHORT_STEP
from functory.operations import unseen
from functory.operations.figures import counters_of
from functory.operations.jobs import list_jobs
from functory.operations.service import OperationSettings
from store.base import Code, JobFilter, JobState, NewJob, TypeCounters
from tests.support.intake import stop
from tests.support.service import ended, register, running_daemon, until
from tests.support.store_audit import check_states, read_all
from tests.support.straight import Calls, ready, until_there_is
from tests.support.straight_times import LONG_S, set_straight_times

LONG_WAY = ("add_jobs", "claim_jobs", "release_jobs", "add_running_jobs")


async def post(daemon: Daemon, count: int, jobtype: str = "acme-x", *, each: int = 1000) -> list[str]:
    """Requests one after the other, faster than their jobs run."""
    ids: list[str] = []
    for start in range(0, count, each):
        lines = [b"%d" % number for number in range(start, min(start + each, count))]
        ids += await daemon.intake.write(jobtype, lines)
    return ids


async def knows_another(daemon: Daemon) -> bool:
    return daemon.gauges()["peers"] == 1


async def has_recorded(daemon: Daemon, count: int) -> bool:
    return sum(row.ok for row in await stored_rows(daemon)) == count


async def stored_rows(daemon: Daemon) -> list[TypeCounters]:
    return await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())


async def test_a_flood_of_one_type_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job once, with its end, and never as waiting or running."""
    set_straight_times(monkeypatch)
    async with running_daemon(tmp_path, poll="10 s") as daemon:
        await ready(daemon)
        calls = Calls(daemon, monkeypatch, *LONG_WAY, "add_ended_jobs")
        ids = await post(daemon, 12_000)
        await until(partial(has_recorded, daemon, len(ids)))
        assert calls.of.keys() == {"add_ended_jobs"}
        await daemon.intake.flush()
        assert daemon.journal.read_point == daemon.journal.write_point
        assert daemon.intake.unstored("acme") == (0, 0)
        stored = await read_all(daemon.store, "acme", daemon.clock.now_ms())
        assert stored.keys() == set(ids)
        assert {(job.outcome.code, job.job.attempts) for job in stored.values() if job.outcome} == {(Code.OK, 1)}
        assert len(await check_states(daemon.store, "acme", daemon.clock.now_ms())) == len(ids)


async def test_a_flood_goes_on_when_what_is_known_of_its_type_grows_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its gate holds for a poll. None of those that wait comes back by waiting long."""
    set_straight_times(monkeypatch)
    async with running_daemon(tmp_path, poll="50ms") as daemon:
        await ready(daemon)
        ids = await post(daemon, 12_000)
        await until(partial(has_recorded, daemon, len(ids)))


async def test_what_waits_starts_although_what_was_known_of_its_type_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All slots are taken meanwhile, so nobody has asked. The next look does."""
    set_straight_times(monkeypatch)
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path, poll="10 s", slots="1") as daemon:
        await ready(daemon, until_there_is(gate))
        ids = await daemon.intake.write("acme-x", [b"0"])
        await until(partial(has_no_slot, daemon))
        ids += await daemon.intake.write("acme-x", [b"x"] * 300)
        assert daemon.straight.count("acme-x") == 300
        daemon.straight._gates.forget()
        daemon.executor.wake()
        gate.touch()
        await until(partial(has_recorded, daemon, len(ids)))


async def has_no_slot(daemon: Daemon) -> bool:
    return daemon.executor.free_slots == 0


async def enough_wait_here(daemon: Daemon) -> bool:
    return daemon.straight.count("acme-x") > 2 * LONG_STEP


async def test_a_flood_comes_back_from_the_long_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever sent it there: here lines that must go there are among it, and a handler that was changed."""
    set_straight_times(monkeypatch)
    async with running_daemon(tmp_path, poll="10 s") as daemon:
        await ready(daemon)
        added: list[NewJob] = []
        add_jobs = daemon.store.add_jobs

        async def add(jobs: Sequence[NewJob], **more: Any) -> Any:
            added.extend(jobs)
            return await add_jobs(jobs, **more)

        monkeypatch.setattr(daemon.store, "add_jobs", add)
        ids = await post(daemon, 4000)
        ids += await daemon.intake.write("acme-x", [b"x"] * 600, JobOptions(priority=0))
        ids += await post(daemon, 4000)
        daemon.types_changed("acme")
        ids += await post(daemon, 8000)
        await until(partial(has_recorded, daemon, len(ids)))
        assert 600 <= len(added) <= 600 + 2 * LONG_STEP


async def test_beside_another_daemon_a_flood_goes_to_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could run some of the jobs, if it can see them."""
    set_straight_times(monkeypatch, return_after_s=0.03)
    store = f"sqlite://{tmp_path}/shared.db"
    async with (
        running_daemon(tmp_path / "one", poll="10 s", store=store) as daemon,
        running_daemon(tmp_path / "two", poll="10 s", store=store, role="api"),
    ):
        await until(partial(knows_another, daemon))
        await ready(daemon)
        calls = Calls(daemon, monkeypatch, *LONG_WAY)
        ids = await post(daemon, 6000)
        await until(partial(has_recorded, daemon, len(ids)))
        assert calls.of["add_jobs"]
        assert calls.of["claim_jobs"]


async def test_who_asks_for_one_of_them_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_straight_times(monkeypatch)
    async with running_daemon(tmp_path, poll="10 s") as daemon:
        await ready(daemon)
        ids = await post(daemon, 8000)
        assert (await ended(daemon, ids[-1])).job.data == b"7999"
        await until(partial(has_recorded, daemon, len(ids)))
        assert len(await check_states(daemon.store, "acme", daemon.clock.now_ms())) == len(ids)


async def test_the_scoreboard_counts_those_that_the_store_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_straight_times(monkeypatch)
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path, poll="10 s", slots="1") as daemon:
        await ready(daemon, until_there_is(gate))
        calls = Calls(daemon, monkeypatch, *LONG_WAY)
        ids = await post(daemon, 7000)
        service = service_of(daemon)

        async def all_are_seen() -> bool:
            rows = await counters_of(service, "acme")
            everywhere = await counters_of(service, None)
            assert everywhere == rows
            return [row.waiting + row.running for row in rows] == [len(ids)] and rows[0].running > 0

        await until(all_are_seen)
        assert not calls.of, "nobody has written them into the store for that"
        gate.touch()
        await until(partial(has_recorded, daemon, len(ids)))
        assert [(row.waiting, row.running) for row in await counters_of(service, "acme")] == [(0, 0)]


async def test_what_waits_for_too_long_goes_to_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its type has no slot, say."""
    set_straight_times(monkeypatch, return_after_s=0.001)
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path, poll="10 s", slots="1") as daemon:
        await ready(daemon, until_there_is(gate))
        ids = await post(daemon, 7000)

        async def is_in_the_store() -> bool:
            return sum(row.waiting for row in await stored_rows(daemon)) > 5000

        await until(is_in_the_store)
        gate.touch()
        await until(partial(has_recorded, daemon, len(ids)))
        assert len(await check_states(daemon.store, "acme", daemon.clock.now_ms())) == len(ids)


async def test_a_flood_does_not_keep_another_type_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader would come to its lines when the flood has run. So it brings all of them into the store, and does not
    wait for room any more."""
    set_straight_times(monkeypatch)
    monkeypatch.setattr(functory.intake.journal_reader, "_FOLLOW_MS", 3_600_000)
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path, poll="10 s", slots="2") as daemon:
        await register(daemon, "acme-other", "return None")
        await ready(daemon, until_there_is(gate))
        ids = await post(daemon, 20_000)
        await until(partial(enough_wait_here, daemon))
        others = await post(daemon, 1500, "acme-other", each=1500)

        async def others_are_in_the_store() -> bool:
            rows = {row.jobtype: row for row in await stored_rows(daemon)}
            other = rows.get("acme-other")
            return other is not None and other.waiting + other.running + other.ok == len(others)

        await until(others_are_in_the_store)
        gate.touch()
        assert {(await ended(daemon, job_id)).job.id for job_id in (ids[0], ids[-1], others[-1])}


async def test_lines_of_others_do_not_wait_behind_a_flood_that_has_no_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enough of the flood wait to be started, and none of it waits for the reader."""
    set_straight_times(monkeypatch)
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path, poll="10 s", slots="2") as daemon:
        await ready(daemon, until_there_is(gate))
        ids = await post(daemon, 4000, each=500)
        await until(lambda: nothing_in_line(daemon))
        ids += await post(daemon, 1500, each=1500)
        await until(lambda: nothing_in_line(daemon))
        (other,) = await daemon.intake.write("quiet-numbered", [b"1"], JobOptions(indexed=True))
        await until(lambda: is_stored(daemon, "quiet", other))
        assert daemon.intake.unstored("acme").lines == len(ids), "they wait where they were"
        gate.touch()
        await until(partial(has_recorded, daemon, len(ids)))


async def test_beside_a_quiet_tenant_one_batch_starts_in_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job takes some ten turns of the event loop: none of them has the work of several batches, of whatever size.
    A flood that is spread over the slots comes in many."""
    set_straight_times(monkeypatch)
    monkeypatch.setattr(functory.loops.courtesy, "_MOMENT_S", 3600.0)
    async with running_daemon(tmp_path, poll="10 s", slots="4") as daemon:
        await ready(daemon)
        turn, begun = 0, list[tuple[int, int]]()

        async def count_turns() -> None:
            nonlocal turn
            while True:
                turn += 1
                await asyncio.sleep(0)

        start = daemon.straight.start

        def note_start(jobtype: str, most: int) -> Any:
            jobs, version = start(jobtype, most)
            begun.append((turn, len(jobs)))
            return jobs, version

        monkeypatch.setattr(daemon.straight, "start", note_start)
        daemon._parts.shared.courtesy.seen("quiet", 1)
        turns = asyncio.create_task(count_turns())
        ids = await post(daemon, 16_000)
        await until(partial(has_recorded, daemon, len(ids)))
        in_turn = Counter[int]()
        for when, jobs in begun:
            in_turn[when] += jobs
        assert in_turn.total() == len(ids)
        assert max(in_turn.values()) <= SHORT_STEP
        await stop(turns)


async def test_lines_that_wait_for_room_for_too_long_go_to_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a flood that runs slowly would fill the journal, in which everybody's lines must find room."""
    set_straight_times(monkeypatch)
    monkeypatch.setattr(functory.intake.journal_reader, "_FOLLOW_MS", 100)
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path, poll="10 s", slots="1") as daemon:
        await ready(daemon, until_there_is(gate))
        ids = await post(daemon, 20_000)
        await until(lambda: nothing_in_line(daemon))
        gate.touch()
        await until(partial(has_recorded, daemon, len(ids)))


@pytest.mark.parametrize("for_a_list_s", [LONG_S, 0.0], ids=["a quick store", "a slow store"])
async def test_who_lists_what_waits_sees_a_flood(
    for_a_list_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_straight_times(monkeypatch)
    monkeypatch.setattr(unseen, "_FOR_A_LIST_S", for_a_list_s)
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path, poll="10 s", slots="1") as daemon:
        await ready(daemon, until_there_is(gate))
        ids = await post(daemon, 9000)
        service = replace(service_of(daemon), settings=OperationSettings(flush_timeout_s=LONG_S))
        page = await list_jobs(service, "acme", JobFilter(JobState.WAITING), cursor=None, limit=100)
        assert len(page.records) == 100
        gate.touch()
        await until(partial(has_recorded, daemon, len(ids)))


async def nothing_in_line(daemon: Daemon) -> bool:
    return not daemon.intake.in_line("acme")


async def is_stored(daemon: Daemon, tenant: str, job_id: str) -> bool:
    return await daemon.store.get_job(tenant, job_id, now_ms=daemon.clock.now_ms()) is not None
