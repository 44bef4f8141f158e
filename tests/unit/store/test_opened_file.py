"""A store writes to no file that its path does not name."""

import asyncio
from pathlib import Path

import pytest

from store.errors import StoreLost
from store.sqlite import SqliteStore
from store.sqlite.file import opened_file
from tests.support.jobs import T0, new_jobs


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_nothing_is_written_to_a_file_that_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_replaced: bool
) -> None:
    monkeypatch.setattr(opened_file, "_EVERY_S", 0.0)
    path, moved = tmp_path / "store.db", tmp_path / "moved.db"
    async with SqliteStore(path) as store:
        await asyncio.to_thread(path.rename, moved)
        if is_replaced:
            await asyncio.to_thread(path.touch)
        with pytest.raises(StoreLost, match="was removed or replaced"):
            await store.add_jobs(new_jobs(1), now_ms=T0)
        await asyncio.to_thread(moved.replace, path)
        assert (await store.add_jobs(new_jobs(1), now_ms=T0)).added == 1
    async with SqliteStore(path) as store:
        assert (await store.get_usage("acme")).jobs == 1


async def test_a_folder_that_is_gone_is_a_store_that_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_file, "_EVERY_S", 0.0)
    folder = tmp_path / "db"
    await asyncio.to_thread(folder.mkdir)
    async with SqliteStore(folder / "store.db") as store:
        await asyncio.to_thread(folder.rename, tmp_path / "moved")
        await asyncio.to_thread(folder.touch)
        with pytest.raises(StoreLost, match="was removed or replaced"):
            await store.add_jobs(new_jobs(1), now_ms=T0)
        await asyncio.to_thread(folder.unlink)
        await asyncio.to_thread((tmp_path / "moved").rename, folder)
        assert (await store.add_jobs(new_jobs(1), now_ms=T0)).added == 1


async def test_a_path_that_cannot_be_looked_at_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with SqliteStore(tmp_path / "store.db") as store:
        monkeypatch.setattr(opened_file, "_EVERY_S", 0.0)

        def refused(_: Path) -> tuple[int, int]:
            raise PermissionError(13, "not allowed")

        monkeypatch.setattr(opened_file, "_identity", refused)
        assert (await store.add_jobs(new_jobs(1), now_ms=T0)).added == 1
