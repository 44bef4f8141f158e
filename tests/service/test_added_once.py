"""A line is added once, whichever ways to the store are open to it. Its job may have run meanwhile; one that is not
kept would run again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from store.base import Discard
from store.errors import StoreUnavailable
from tests.support.intake import FLOOD, Intake, Straight, an_intake, stop
from tests.support.jobs import outcome
from tests.support.service import until


@asynccontextmanager
async def reading(intake: Intake) -> AsyncIterator[None]:
    reader = asyncio.create_task(intake.reader.run())
    try:
        async with asyncio.timeout(30):
            yield
    finally:
        await stop(reader)


async def is_in_hand(intake: Intake, job_id: str) -> None:
    """The reader has passed the line by, and waits for it."""

    async def look() -> bool:
        open_ = intake.reader._open_of.get(job_id)
        return open_ is not None and open_.is_added

    await until(look)


async def test_what_arrived_is_left_out_when_a_line_beside_it_is_read_again(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake:
        straight = Straight()
        intake.backlog.use(straight)
        arrived, returned = await intake.backlog.write("quiet-x", [b"1", b"22"])
        async with reading(intake):
            await is_in_hand(intake, arrived)
            await intake.reader.arrived([arrived])
            intake.reader.return_to_line(straight.jobs[1:])
            assert intake.backlog.unstored("quiet") == (1, 2)
            await intake.reader.flush()
        assert intake.added == [returned]
        assert intake.backlog.unstored("quiet") == (0, 0)
        assert intake.journal.read_point == intake.journal.write_point


async def test_what_still_runs_is_left_out_when_a_line_beside_it_is_read_again(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake:
        straight = Straight()
        intake.backlog.use(straight)
        runs, returned = await intake.backlog.write("quiet-x", [b"1", b"22"])
        async with reading(intake):
            await is_in_hand(intake, runs)
            intake.reader.return_to_line(straight.jobs[1:])
            assert intake.backlog.unstored("quiet") == (2, 3)
            await intake.reader.arrived([runs])
            assert intake.backlog.unstored("quiet") == (1, 2)
            await intake.reader.flush()
        assert intake.added == [returned]
        assert intake.backlog.unstored("quiet") == (0, 0)
        assert intake.journal.read_point == intake.journal.write_point


async def test_what_is_given_back_one_by_one_counts_once(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake:
        straight = Straight()
        intake.backlog.use(straight)
        first, last = await intake.backlog.write("quiet-x", [b"1", b"22"])
        async with reading(intake):
            await is_in_hand(intake, last)
            for job in reversed(straight.jobs):
                intake.reader.return_to_line([job])
                assert intake.backlog.unstored("quiet") == (2, 3)
            await intake.reader.flush()
        assert intake.added == [first, last]
        assert intake.backlog.unstored("quiet") == (0, 0)


async def test_what_the_reader_has_added_is_left_out_when_a_line_beside_it_is_read_again(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake:
        straight = Straight()
        intake.backlog.use(straight)
        (returned,) = await intake.backlog.write("quiet-x", [b"me"])
        long_way = await intake.backlog.write("loud-x", [b"1", b"22"])
        async with reading(intake):
            await is_in_hand(intake, returned)
            assert intake.added == long_way
            intake.reader.return_to_line(straight.jobs)
            assert [intake.backlog.unstored(tenant) for tenant in ("loud", "quiet")] == [(0, 0), (1, 2)]
            await intake.reader.flush()
        assert intake.added == [*long_way, returned]
        assert [intake.backlog.unstored(tenant) for tenant in ("loud", "quiet")] == [(0, 0)] * 2


def when_read(intake: Intake, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when the reader has lines in hand."""
    read, is_read = intake.journal.read, asyncio.Event()

    async def noted(*given: Any) -> Any:
        records = await read(*given)
        is_read.set()
        return records

    monkeypatch.setattr(intake.journal, "read", noted)
    return is_read


async def test_what_is_on_its_way_past_is_not_added_by_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader's large write could come after the job was added, has run, and is gone."""
    async with an_intake(tmp_path) as intake:
        store, add, is_over = intake.store, intake.store.add_jobs, asyncio.Event()
        is_read = when_read(intake, monkeypatch)
        flood = await intake.backlog.write("loud-x", FLOOD)

        async def add_jobs(jobs: Any, **more: Any) -> Any:
            if len(jobs) > 1:
                if quiet in [job.id for job in jobs]:
                    await is_over.wait()
                return await add(jobs, **more)
            await is_read.wait()
            report = await add(jobs, **more)
            for job in await store.claim_jobs("quiet-x", 1, owner="a7", lease_ms=1000, now_ms=more["now_ms"]):
                await store.release_jobs("a7", [Discard(job.id, job.token, outcome())], now_ms=more["now_ms"])
            is_over.set()
            return report

        monkeypatch.setattr(store, "add_jobs", add_jobs)
        (quiet,) = await intake.backlog.write("quiet-x", [b"me"])
        async with reading(intake):
            await intake.reader.flush()
        assert intake.added == [quiet, *flood]
        assert intake.backlog.unstored("quiet") == (0, 0)


async def test_what_did_not_land_is_added_by_the_reader_that_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with an_intake(tmp_path) as intake:
        add, is_read = intake.store.add_jobs, when_read(intake, monkeypatch)
        flood = await intake.backlog.write("loud-x", FLOOD)

        async def add_jobs(jobs: Any, **more: Any) -> Any:
            if len(jobs) == 1:
                await is_read.wait()
                raise StoreUnavailable("away")
            return await add(jobs, **more)

        monkeypatch.setattr(intake.store, "add_jobs", add_jobs)
        (quiet,) = await intake.backlog.write("quiet-x", [b"me"])
        async with reading(intake):
            await intake.reader.flush()
        assert intake.added == [*flood, quiet]
        assert intake.backlog.unstored("quiet") == (0, 0)


async def test_what_the_reader_had_before_its_acknowledgement_does_not_go_past(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with an_intake(tmp_path) as intake:
        add, begin = intake.store.add_jobs, intake.journal.begin_write
        flood = await intake.backlog.write("loud-x", FLOOD)
        acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def acknowledge_late(*given: Any) -> Any:
            settled = given[-1]
            acknowledged.add_done_callback(lambda _: settled(None))
            journal_write: Any = begin
            return journal_write(*given[:-1], lambda _: None)

        monkeypatch.setattr(intake.journal, "begin_write", acknowledge_late)
        writing = asyncio.create_task(intake.backlog.write("quiet-x", [b"me"]))
        await asyncio.sleep(0)
        await intake.journal.wsync()

        async def add_jobs(jobs: Any, **more: Any) -> Any:
            if not acknowledged.done():
                acknowledged.set_result(None)
                await writing
                await intake.backlog.landed("quiet")
            return await add(jobs, **more)

        monkeypatch.setattr(intake.store, "add_jobs", add_jobs)
        async with reading(intake):
            await intake.reader.flush()
        assert intake.added == [*flood, *await writing]
        assert intake.backlog.unstored("quiet") == (0, 0)
