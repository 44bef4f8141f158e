"""A line is added once, whichever ways to the store are open to it. Its job may have run meanwhile; one that is not
kept would run again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.service.test_backlog import Intake, Straight, an_intake, stop
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
