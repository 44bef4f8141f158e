"""Lines are written, taken in by the store and removed from the journal between any two steps of a backup."""

import asyncio
import random
from pathlib import Path

import pytest
from blockbuster import BlockBuster

from functory.config import Settings, load_config
from functory.intake.job_options import to_new_job
from functory.transfer.backup import make_backup
from functory.transfer.restore import restore_backup
from journal import Journal, JournalOptions, Position
from store.base import JournalPosition, Store
from store.url import open_store
from tests.support.clocks import FakeClock
from tests.support.jobs import T0
from tests.support.store_audit import check_counters

OPTIONS = JournalOptions(segment_bytes=3000, min_free_bytes=0, sync_cursor=False)
READER = "reader"


class Life:
    """A journal whose lines go into a store, and what its clients were told."""

    def __init__(self, journal: Journal, store: Store, seed: int) -> None:
        self._journal = journal
        self._store = store
        self._dice = random.Random(seed)
        self.acknowledged: set[str] = set()

    async def write(self) -> None:
        lines = [f"{n}" * 100 for n in range(self._dice.choice((1, 3, 30)))]
        self.acknowledged.update(await self._journal.write("acme-x", lines))

    async def take_in(self, max_lines: int) -> bool:
        reservation = await self._journal.read_reserve(max_lines, 60)
        if reservation is None:
            return False
        jobs = [to_new_job(record, T0) for record in await self._journal.read(reservation)]
        end = reservation.span.end
        await self._store.add_jobs(
            jobs, now_ms=T0, position=JournalPosition(READER, str(end.segment), end.offset, end.line)
        )
        await self._journal.rsync(reservation)
        return True

    async def step(self) -> None:
        await self.write()
        while self._dice.random() < 0.7 and await self.take_in(self._dice.choice((1, 20, 1000))):
            await self.write()


async def position_of(store: Store) -> Position | None:
    place = await store.get_journal_position(READER)
    return None if place is None else Position(int(place.segment), place.offset, place.line)


def settings_of(data_dir: Path) -> Settings:
    return load_config({"data_dir": str(data_dir)}, environ={}).settings


@pytest.mark.parametrize("seed", range(8))
async def test_nothing_acknowledged_before_the_backup_is_lost(
    tmp_path: Path, seed: int, blockbuster: BlockBuster
) -> None:
    blockbuster.functions["threading.Lock.acquire"].can_block_in(__file__, "meddle")
    loop = asyncio.get_running_loop()
    settings, elsewhere = settings_of(tmp_path / "data"), settings_of(tmp_path / "elsewhere")
    clock = FakeClock(tick_ms=1)
    await asyncio.to_thread(settings.data_dir.mkdir)
    async with (
        open_store(settings.store_url) as store,
        Journal(settings.journal_dir, "a1", OPTIONS, clock=clock) as journal,
    ):
        await asyncio.to_thread((settings.journal_dir / "identity").write_text, READER)
        life = Life(journal, store, seed)
        for _ in range(10):
            await life.step()
        before = set(life.acknowledged)

        def meddle(_: str) -> None:
            asyncio.run_coroutine_threadsafe(life.step(), loop).result()

        backup = make_backup(settings, tmp_path / "backup", now_ms=T0, say=meddle)
        await asyncio.to_thread(asyncio.run, backup)
    assert len(life.acknowledged) > len(before)

    await restore_backup(tmp_path / "backup", elsewhere, now_ms=T0)
    async with (
        open_store(elsewhere.store_url) as store,
        Journal(elsewhere.journal_dir, "b2", OPTIONS, clock=clock, read_from=await position_of(store)) as journal,
    ):
        again = Life(journal, store, seed)
        await again.write()
        while await again.take_in(1000):
            pass
        jobs = await check_counters(store, "acme", T0)
    assert before | again.acknowledged <= jobs.keys() <= life.acknowledged | again.acknowledged
