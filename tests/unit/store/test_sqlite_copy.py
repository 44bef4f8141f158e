"""A copy of a store that is written to meanwhile is of one moment: the one at which it began."""

import asyncio
from pathlib import Path

import apsw
import pytest

from store.sqlite import SqliteStore
from store.sqlite.file import maintenance
from tests.support.jobs import T0, TENANT, ids, new_jobs


async def test_a_copy_has_nothing_that_came_after_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, meanwhile = new_jobs(50), new_jobs(50, 100)
    copy_pages = maintenance._copy_pages
    loop = asyncio.get_running_loop()

    async with SqliteStore(tmp_path / "store.db") as store:

        def add_first(source: apsw.Connection, target: Path) -> None:
            """On the thread that copies, which has opened its view of the store."""
            asyncio.run_coroutine_threadsafe(store.add_jobs(meanwhile, now_ms=T0), loop).result()
            copy_pages(source, target)

        monkeypatch.setattr(maintenance, "_copy_pages", add_first)
        await store.add_jobs(before, now_ms=T0)
        await store.copy_to(tmp_path / "copy.db")
    async with SqliteStore(tmp_path / "copy.db") as copy:
        states = await copy.get_states(TENANT, ids(before + meanwhile), now_ms=T0)
    assert sorted(states) == ids(before)
