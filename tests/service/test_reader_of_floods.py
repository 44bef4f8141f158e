"""What the reader does with the lines of a flood: without anything that runs."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import functory.intake.journal_reader
import functory.loops.courtesy
from functory.intake.job_options import JobOptions
from journal import Journal
from tests.support.intake import FLOOD, Straight, an_intake, stop
from tests.support.service import until


async def test_the_reader_hands_on_lines_in_their_order(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake, asyncio.timeout(30):
        straight = Straight(follows=True)
        intake.backlog.use(straight)
        ids: list[str] = []
        for _ in range(5):
            ids += await intake.backlog.write("busy-mail", FLOOD)
        reader = asyncio.create_task(intake.reader.run())
        await until(lambda: counts(straight, len(ids)))
        assert [job.id for job in straight.jobs] == ids
        assert intake.added == []
        assert intake.backlog.unstored("busy").lines == len(ids)
        assert intake.journal.read_point < intake.journal.write_point, "the journal keeps them"
        await intake.reader.arrived(ids)
        await until(lambda: reached_the_end(intake.journal))
        assert intake.backlog.unstored("busy") == (0, 0)
        await stop(reader)


async def test_what_comes_back_is_read_again_and_added_once(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake, asyncio.timeout(30):
        straight = Straight(follows=True)
        intake.backlog.use(straight)
        ids = await intake.backlog.write("busy-mail", FLOOD)
        reader = asyncio.create_task(intake.reader.run())
        await until(lambda: counts(straight, len(ids)))
        straight.follows = False
        await intake.reader.arrived(ids[:300])
        intake.reader.return_to_line(straight.jobs[300:])
        await intake.reader.flush()
        assert intake.added == ids[300:]
        assert intake.backlog.unstored("busy") == (0, 0)
        await stop(reader)


@pytest.mark.parametrize(
    ("jobtype", "options", "notes"),
    [
        ("busy-other", JobOptions(), ()),
        ("other-mail", JobOptions(), ()),
        ("busy-mail", JobOptions(priority=0), ()),
        ("busy-mail", JobOptions(), ["j1 a ok"] * 1000),
    ],
    ids=["another type", "another tenant", "options", "what they follow"],
)
async def test_other_lines_beside_them_go_to_the_store_with_all_that_wait(
    jobtype: str, options: JobOptions, notes: list[str], tmp_path: Path
) -> None:
    async with an_intake(tmp_path) as intake, asyncio.timeout(30):
        straight = Straight(follows=True)
        intake.backlog.use(straight)
        ids = await intake.backlog.write("busy-mail", FLOOD)
        ids += await intake.backlog.write(jobtype, FLOOD, options, notes)
        reader = asyncio.create_task(intake.reader.run())
        await until(lambda: counts_all(straight, intake.added, len(ids)))
        assert set(ids[1000:]) <= set(intake.added)
        await stop(reader)


@pytest.mark.parametrize("jobtype", ["busy-other", "other-mail"], ids=["another type", "another tenant"])
async def test_a_flood_before_lines_of_another_type_goes_to_the_store_from_its_first_line(
    jobtype: str, tmp_path: Path
) -> None:
    """Also those that the reader has in hand without the others: these would wait until they have run."""
    async with an_intake(tmp_path) as intake, asyncio.timeout(30):
        straight = Straight(follows=True)
        intake.backlog.use(straight)
        ids: list[str] = []
        for _ in range(5):  # more than the reader takes in one step
            ids += await intake.backlog.write("busy-mail", FLOOD)
        ids += await intake.backlog.write(jobtype, [*FLOOD, b"y"])  # too many to go past
        reader = asyncio.create_task(intake.reader.run())
        await until(lambda: counts_all(straight, intake.added, len(ids)))
        assert {job.jobtype for job in straight.jobs} <= {jobtype}
        await stop(reader)


async def test_lines_of_an_earlier_life_go_to_the_store(tmp_path: Path) -> None:
    """Whether or not somebody wants them there: one of them may have ended the daemon before."""
    async with an_intake(tmp_path) as before:
        await before.journal.write("busy-mail", ["x"] * 1000)
    async with an_intake(tmp_path) as intake, asyncio.timeout(30):
        straight = Straight(follows=True)
        intake.backlog.use(straight)
        reader = asyncio.create_task(intake.reader.run())
        await until(lambda: counts_all(straight, intake.added, 1000))
        assert straight.jobs == []
        await stop(reader)


@pytest.mark.parametrize("reason", ["old", "of an earlier life", "somebody waits for the store"])
async def test_lines_that_are_too_old_or_wanted_in_the_store_go_there(
    reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason == "of an earlier life":
        async with an_intake(tmp_path) as before:
            await before.journal.write("busy-mail", ["x"] * 1000)
    async with an_intake(tmp_path) as intake, asyncio.timeout(30):
        straight = Straight(follows=True)
        intake.backlog.use(straight)
        if reason == "old":
            monkeypatch.setattr(functory.intake.journal_reader, "_FOLLOW_MS", -1)
        if reason != "of an earlier life":
            await intake.backlog.write("busy-mail", FLOOD)
        flushed = asyncio.create_task(intake.reader.flush())
        await asyncio.sleep(0)
        reader = asyncio.create_task(intake.reader.run())
        await flushed
        assert len(intake.added) == 1000
        assert straight.jobs == []
        await stop(reader)


async def counts(straight: Straight, count: int) -> bool:
    return len(straight.jobs) == count


async def counts_all(straight: Straight, added: list[str], count: int) -> bool:
    return len(straight.jobs) + len(added) == count


async def reached_the_end(journal: Journal) -> bool:
    return journal.read_point == journal.write_point


async def test_the_age_of_what_waits_for_room_is_known(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake, asyncio.timeout(30):
        full = asyncio.Event()

        class Full(Straight):
            async def room(self, _next_type: Callable[[], str | None]) -> None:
                full.set()
                await asyncio.Event().wait()

        intake.backlog.use(Full(follows=True))
        await intake.backlog.write("busy-mail", FLOOD)
        reader = asyncio.create_task(intake.reader.run())
        await full.wait()
        assert intake.reader.lag_ms(intake.journal._clock.now_ms() + 5000) >= 5000
        await stop(reader)


async def test_what_comes_back_is_counted_with_its_type(tmp_path: Path) -> None:
    """As what waits, by the scoreboard."""
    async with an_intake(tmp_path) as intake, asyncio.timeout(30):
        straight = Straight(follows=True)
        intake.backlog.use(straight)
        await intake.backlog.write("busy-mail", FLOOD)
        reader = asyncio.create_task(intake.reader.run())
        await until(lambda: counts(straight, len(FLOOD)))
        intake.reader.return_to_line(straight.jobs[300:])
        assert intake.backlog.may_follow() == {"busy-mail": len(FLOOD) - 300}
        await stop(reader)
