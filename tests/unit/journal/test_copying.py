"""A copy of a journal that is written to, read from and emptied between any two steps of the copying."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from journal import Journal, JournalOptions, OsDisk, Position
from journal.copying import copy_journal
from journal.disk import OsFile
from tests.support.clocks import FakeClock

OPTIONS = JournalOptions(segment_bytes=3000, min_free_bytes=0, sync_cursor=False)


class Meddled(OsDisk):
    """Something happens to the journal before every look that the copying takes."""

    def __init__(self, directory: Path, meddle: Callable[[], None]) -> None:
        super().__init__(directory)
        self._meddle = meddle

    def names(self) -> list[str]:
        self._meddle()
        return super().names()

    def open(self, name: str, *, writable: bool = False) -> OsFile:
        self._meddle()
        file = super().open(name, writable=writable)
        self._meddle()
        return file


class Life:
    """A journal in use: what its writers were told, and what its reader made durable elsewhere."""

    def __init__(self, journal: Journal, seed: int) -> None:
        self._journal = journal
        self._dice = random.Random(seed)
        self.acknowledged: set[str] = set()
        self.stored: set[str] = set()
        self.position: Position | None = None

    async def step(self) -> None:
        if self._dice.random() < 0.6:
            lines = [self._dice.randbytes(self._dice.choice((1, 300))) for _ in range(self._dice.choice((1, 2, 12)))]
            self.acknowledged.update(await self._journal.write("acme-x", lines))
        elif reservation := await self._journal.read_reserve(self._dice.choice((1, 5, 100)), 60):
            self.stored.update(record.id for record in await self._journal.read(reservation))
            self.position = reservation.span.end
            await self._journal.rsync(reservation)


async def lines_of(journal: Journal) -> set[str]:
    found: set[str] = set()
    while reservation := await journal.read_reserve(1000, 60):
        found.update(record.id for record in await journal.read(reservation))
    return found


@pytest.mark.parametrize("seed", range(12))
async def test_every_line_is_in_the_copy_or_was_durable_elsewhere(tmp_path: Path, seed: int) -> None:
    loop = asyncio.get_running_loop()
    async with Journal(tmp_path / "live", "a7", OPTIONS, clock=FakeClock(tick_ms=1)) as journal:
        life = Life(journal, seed)
        for _ in range(30):
            await life.step()
        before = set(life.acknowledged)

        def meddle() -> None:
            asyncio.run_coroutine_threadsafe(life.step(), loop).result()

        await asyncio.to_thread((tmp_path / "copy").mkdir)
        source, target = Meddled(tmp_path / "live", meddle), OsDisk(tmp_path / "copy")
        names = await asyncio.to_thread(copy_journal, source, target)
    assert names == await asyncio.to_thread(target.names)
    assert len(life.acknowledged) > len(before)
    async with Journal(tmp_path / "copy", "b8", OPTIONS, clock=FakeClock(tick_ms=1)) as copy:
        assert [finding.text for finding in copy.findings if finding.is_damage] == []
        assert before <= await lines_of(copy) | life.stored
    # As a store that was copied afterwards has it: its position may lie beyond the end of the copy.
    async with Journal(tmp_path / "copy", "c9", OPTIONS, clock=FakeClock(tick_ms=1), read_from=life.position) as copy:
        if before <= life.stored:
            assert copy.stats().backlog_bytes == 0, "what the store has is not waiting, whether it is there or not"
        later = set(await copy.write("acme-x", ["later"]))
        assert (before - life.stored) | later <= await lines_of(copy)


async def test_the_copy_of_a_journal_at_rest_is_the_journal(tmp_path: Path) -> None:
    async with Journal(tmp_path / "live", "a7", OPTIONS, clock=FakeClock()) as journal:
        for _ in range(5):
            await journal.write("acme-x", ["x" * 900])

    def copy_all() -> tuple[dict[str, bytes], dict[str, bytes]]:
        (tmp_path / "live" / "0000000001.torn").write_bytes(b"for people")
        (tmp_path / "live" / "identity").write_bytes(b"of a daemon")
        (tmp_path / "copy").mkdir()
        copy_journal(OsDisk(tmp_path / "live"), OsDisk(tmp_path / "copy"), also=("identity", "owner"))
        live, copy = (
            {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("live", "copy")
        )
        return live, copy

    live, copy = await asyncio.to_thread(copy_all)
    del live["lock"]
    assert live == copy
