"""Where a restore puts things: what is not its own stays, what is in use is not moved, a failure changes nothing."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from functory.config import Settings, load_config
from functory.errors import NotEmpty, StillRunning, TransferFailed
from functory.transfer.backup import make_backup
from functory.transfer.backup_layout import RESTORING, require_whole
from functory.transfer.restore import restore_backup
from journal import Journal
from store.base import Tenant
from store.url import open_store
from tests.support.jobs import T0, TENANT, new_jobs
from tests.support.store_audit import check_counters


def settings_of(data_dir: Path, **more: str) -> Settings:
    return load_config({"data_dir": str(data_dir), **more}, environ={}).settings


async def fill(settings: Settings) -> None:
    async with Journal(settings.journal_dir, "a1") as journal:
        await journal.write("acme-thumb", ["one", "two"])
    await write(settings.journal_dir / "identity", "reader")
    await write(settings.data_dir / "operator.key", "fk_secret\n")
    async with open_store(settings.store_url) as store:
        await store.create_tenant(Tenant(TENANT, T0))
        await store.add_jobs(new_jobs(5), now_ms=T0)


async def write(path: Path, text: str) -> None:
    await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
    await asyncio.to_thread(path.write_text, text)


async def read(folder: Path) -> dict[str, bytes]:
    def contents() -> dict[str, bytes]:
        files = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}

    return await asyncio.to_thread(contents)


@pytest.fixture
async def settings(tmp_path: Path) -> Settings:
    settings = settings_of(tmp_path / "data")
    await fill(settings)
    return settings


@pytest.fixture
async def backup(settings: Settings, tmp_path: Path) -> Path:
    await make_backup(settings, tmp_path / "backup", now_ms=T0)
    return tmp_path / "backup"


async def test_a_store_that_a_daemon_elsewhere_uses_is_not_moved_away(backup: Path, tmp_path: Path) -> None:
    """Its data directory is another one, so nothing in this one is locked."""
    settings = settings_of(tmp_path / "other", store=f"sqlite://{tmp_path}/shared.db")
    await restore_backup(backup, settings, now_ms=T0)
    before = await read(tmp_path)
    async with open_store(settings.store_url) as store:
        await store.list_daemons(now_ms=T0)
        with pytest.raises(StillRunning, match=r"shared\.db is in use by process"):
            await restore_backup(backup, settings, now_ms=T0, replace=True)
    assert await read(tmp_path) == before
    await restore_backup(backup, settings, now_ms=T0, replace=True)


async def test_nobody_moves_the_embedded_store_of_a_service_away(settings: Settings, backup: Path) -> None:
    async with open_store(settings.store_url) as store:
        await store.list_daemons(now_ms=T0)
        with pytest.raises(StillRunning, match=r"functory\.db is in use"):
            await restore_backup(backup, settings, now_ms=T0, replace=True)


async def test_journals_alone_leave_the_store_as_it_is(settings: Settings, tmp_path: Path) -> None:
    """It is moved away for another only, and daemons of other data directories may use it meanwhile."""
    await make_backup(settings, tmp_path / "journals", now_ms=T0, journals_only=True)
    async with open_store(settings.store_url) as store:
        await store.add_jobs(new_jobs(3, 100), now_ms=T0)
        await restore_backup(tmp_path / "journals", settings, now_ms=T0, replace=True)
    async with open_store(settings.store_url) as store:
        assert len(await check_counters(store, TENANT, T0)) == 8
    after = await read(settings.data_dir)
    assert {name.split("/")[1] for name in after if name.startswith("replaced-")} == {"journal", "operator.key"}


async def test_journals_alone_do_not_end_a_restore_of_a_store(
    settings: Settings, backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed when the old store was moved away and the new one had not come."""
    await make_backup(settings, tmp_path / "journals", now_ms=T0, journals_only=True)
    rename = Path.rename

    def cut(path: Path, target: Path) -> Path:
        if path.name == "functory.db.restoring":
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", cut)
        with pytest.raises(KeyboardInterrupt):
            await restore_backup(backup, settings, now_ms=T0, replace=True)
    with pytest.raises(NotEmpty, match="that backup again"):
        await restore_backup(tmp_path / "journals", settings, now_ms=T0, replace=True)
    await restore_backup(backup, settings, now_ms=T0 + 1000, replace=True)
    async with open_store(settings.store_url) as store:
        assert len(await check_counters(store, TENANT, T0)) == 5


async def test_what_lies_beside_a_journal_goes_with_it_also_after_an_interruption(
    settings: Settings, backup: Path
) -> None:
    """A sysid and keys of the life before are not those of the restored store."""
    for suffix in (".spare", ".keys"):
        await write(settings.data_dir / f"journal{suffix}", "of the life before")
    # Killed after its first move.
    for name in (RESTORING, "replaced-1"):
        await asyncio.to_thread((settings.data_dir / name).mkdir)
    await asyncio.to_thread(settings.journal_dir.rename, settings.data_dir / "replaced-1" / "journal")
    await restore_backup(backup, settings, now_ms=T0, replace=True)
    after = await read(settings.data_dir)
    assert not {"journal.spare", "journal.keys"} & after.keys()


async def test_what_root_restores_belongs_to_the_owner_of_the_data_directory(
    settings: Settings, backup: Path, tmp_path: Path
) -> None:
    """The daemon runs as that user, and could not open its store otherwise."""
    if os.geteuid() != 0:
        pytest.skip("only root gives files to others")
    elsewhere = settings_of(tmp_path / "elsewhere", store=f"sqlite://{tmp_path}/stores/of/shared.db")
    await asyncio.to_thread(elsewhere.data_dir.mkdir)
    await asyncio.to_thread(os.chown, elsewhere.data_dir, 4711, 4712)
    await restore_backup(backup, elsewhere, now_ms=T0)
    with pytest.raises(NotEmpty):
        await restore_backup(backup, elsewhere, now_ms=T0)

    def owners() -> set[tuple[int, int]]:
        folders = (elsewhere.data_dir, tmp_path / "stores")
        found = [path.lstat() for folder in folders for path in (folder, *folder.rglob("*"))]
        return {(status.st_uid, status.st_gid) for status in found}

    assert await asyncio.to_thread(owners) == {(4711, 4712)}, "also after one that was refused"
    await restore_backup(backup, elsewhere, now_ms=T0 + 1000, replace=True)
    assert await asyncio.to_thread(owners) == {(4711, 4712)}


async def test_what_is_not_its_own_stays_where_it_is(settings: Settings, backup: Path) -> None:
    """Such as the data directory of `functory@other`, which is below that of `functory`."""
    below = settings_of(settings.data_dir / "other")
    await fill(below)
    for name in ("lost+found/0001", "secrets.key", "notes.txt"):
        await write(settings.data_dir / name, name)
    async with Journal(below.journal_dir, "b2"):
        before = await read(below.data_dir)
        await restore_backup(backup, settings, now_ms=T0, replace=True)
        assert await read(below.data_dir) == before
    after = await read(settings.data_dir)
    assert {"lost+found/0001", "secrets.key", "notes.txt"} <= after.keys()
    assert {name.split("/")[1] for name in after if name.startswith("replaced-")} == {
        "journal",
        "operator.key",
        "functory.db",
    }


async def test_a_journal_on_another_disk_is_not_moved_to_this_one(
    settings: Settings, backup: Path, tmp_path: Path
) -> None:
    journal, fast = settings.journal_dir, tmp_path / "fast"
    await asyncio.to_thread(journal.rename, fast)
    await asyncio.to_thread(journal.symlink_to, fast)
    before = await read(tmp_path)
    with pytest.raises(NotEmpty, match=r"journal is a symbolic link to .*fast"):
        await restore_backup(backup, settings, now_ms=T0, replace=True)
    assert await read(tmp_path) == before
    assert await asyncio.to_thread(journal.is_symlink)
    await asyncio.to_thread(require_whole, settings.data_dir)
    await asyncio.to_thread(journal.unlink)  # as the message says
    await restore_backup(backup, settings, now_ms=T0, replace=True)
    assert "identity" in await read(fast)


async def test_a_fresh_volume_counts_as_empty(backup: Path, tmp_path: Path) -> None:
    elsewhere = settings_of(tmp_path / "volume")
    await asyncio.to_thread((tmp_path / "volume" / "lost+found").mkdir, parents=True)
    await restore_backup(backup, elsewhere, now_ms=T0)
    assert "journal/identity" in await read(elsewhere.data_dir)
    await write(tmp_path / "full" / "notes.txt", "x")
    with pytest.raises(NotEmpty, match=r"notes\.txt"):
        await restore_backup(backup, settings_of(tmp_path / "full"), now_ms=T0)


async def test_the_folder_of_the_store_is_made(backup: Path, tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "elsewhere", store=f"sqlite://{tmp_path}/new/folder/shared.db")
    await restore_backup(backup, settings, now_ms=T0)
    assert await asyncio.to_thread((tmp_path / "new" / "folder" / "shared.db").exists)


@pytest.mark.parametrize("steps", range(6))
async def test_a_failure_while_things_are_moved_changes_nothing(
    settings: Settings, backup: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount point cannot be renamed, say. Daemons start as before."""
    before = await read(settings.data_dir)
    rename, done = Path.rename, 0

    def fail(path: Path, target: Path) -> Path:
        nonlocal done
        done += 1
        if done == steps + 1:
            raise OSError(errno.EBUSY, "Device or resource busy", str(path))
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", fail)
        with pytest.raises(OSError, match="busy"):
            await restore_backup(backup, settings, now_ms=T0, replace=True)
    assert await read(settings.data_dir) == before
    await asyncio.to_thread(require_whole, settings.data_dir)
    assert not await asyncio.to_thread(lambda: list(settings.data_dir.glob("replaced-*")))
    await restore_backup(backup, settings, now_ms=T0, replace=True)


async def test_what_cannot_be_put_back_stays_closed(
    settings: Settings, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, done = Path.rename, 0

    def fail(path: Path, target: Path) -> Path:
        nonlocal done
        done += 1
        if done > 2:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", fail)
        with pytest.raises(TransferFailed, match="--replace"):
            await restore_backup(backup, settings, now_ms=T0, replace=True)
    assert await asyncio.to_thread((settings.data_dir / RESTORING).exists)
    await restore_backup(backup, settings, now_ms=T0 + 1000, replace=True)
