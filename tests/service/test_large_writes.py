"""A request of many lines is looked at in short steps. Others write meanwhile, and its caller may leave."""

import asyncio
from pathlib import Path

import pytest

from journal import LimitExceeded
from journal.payloads import PART_LINES
from tests.support.intake import Straight, an_intake

MANY = [b"x"] * (4 * PART_LINES)


async def test_who_leaves_while_lines_are_looked_at_leaves_nothing(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake:
        before = intake.journal.write_point
        writing = asyncio.create_task(intake.backlog.write("loud-x", MANY))
        await asyncio.sleep(0)
        assert intake.backlog.unstored("loud") == (len(MANY), len(MANY)), "a quota counts them meanwhile"
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await intake.journal.wsync()
        assert intake.journal.write_point == before
        assert intake.backlog.unstored("loud") == (0, 0)


async def test_lines_that_are_refused_do_not_count(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake:
        with pytest.raises(LimitExceeded, match="max_payload_bytes"):
            await intake.backlog.write("loud-x", [*MANY, b"x" * ((1 << 20) + 1)])
        assert intake.backlog.unstored("loud") == (0, 0)


async def test_who_comes_meanwhile_is_first_in_the_journal_and_has_the_smaller_id(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake:
        writing = asyncio.create_task(intake.backlog.write("loud-x", MANY))
        await asyncio.sleep(0)
        (short,) = await intake.backlog.write("loud-x", [b"me"])
        assert not writing.done()
        ids = await writing
        await intake.read_all()
        assert intake.added == [short, *ids] == sorted(intake.added)


async def test_the_lines_of_a_large_write_keep_their_order(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake:
        lines = [b"%d" % number for number in range(len(MANY))]
        ids = await intake.journal.write("loud-x", lines)
        assert ids == sorted(set(ids))
        found: list[tuple[str, bytes]] = []
        while reservation := await intake.journal.read_reserve(3000, 60):
            found += [(record.id, record.payload) for record in await intake.journal.read(reservation)]
            await intake.journal.rsync(reservation)
        assert found == list(zip(ids, lines, strict=True))


@pytest.mark.parametrize("tenant", ["loud", "quiet"])
async def test_lines_are_looked_after_whatever_becomes_of_who_wrote_them(tmp_path: Path, tenant: str) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)

    def cannot(_: Exception | None) -> None:
        raise RuntimeError("it cannot")

    async with an_intake(tmp_path) as intake:
        intake.backlog.use(straight := Straight())
        (job_id,) = intake.backlog.begin(f"{tenant}-x", [b"me"], cannot)
        await intake.journal.wsync()
        assert [job.id for job in straight.jobs] == [job_id] * (tenant == "quiet")
        if tenant == "loud":
            await intake.read_all()
            assert intake.added == [job_id]
            assert intake.backlog.unstored("loud") == (0, 0)
