"""Lines that wait to be read, up to their limit."""

from contextlib import suppress
from pathlib import Path

import pytest

from journal import BacklogFull, Journal, JournalOptions


async def read_some(journal: Journal, max_lines: int) -> bool:
    """Whether there were any."""
    reservation = await journal.read_reserve(max_lines, 60)
    if reservation is None:
        return False
    await journal.read(reservation)
    await journal.rsync(reservation)
    return True


async def read_up(journal: Journal) -> None:
    while await read_some(journal, 1000):
        pass


async def test_a_full_backlog_refuses_and_resumes(tmp_path: Path) -> None:
    async with Journal(tmp_path, "a7", JournalOptions(max_backlog_bytes=1000)) as journal:
        await journal.write("a-b", ["x" * 1000])
        with pytest.raises(BacklogFull, match="max_backlog_bytes=1000"):
            await journal.write("a-b", ["y"])
        assert "max_backlog_bytes=1000" in journal.stats().trouble
        await read_up(journal)
        assert journal.stats().trouble == ""
        await journal.write("a-b", ["z"])


async def test_a_backlog_near_its_limit_is_one_event(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with Journal(tmp_path, "a7", JournalOptions(max_backlog_bytes=10_000)) as journal:
        with suppress(BacklogFull):
            while True:
                await journal.write("a-b", ["x" * 1000])
        for _ in range(5):
            assert await read_some(journal, 1)
            with suppress(BacklogFull):
                await journal.write("a-b", ["x" * 1000])
        assert [record.message for record in caplog.records] == ["journal.intake_stopped"]
        await read_up(journal)
    assert [record.message for record in caplog.records] == ["journal.intake_stopped", "journal.intake_resumed"]
