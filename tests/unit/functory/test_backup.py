"""Backups that are damaged, unfinished or in the way are refused by name; what is restored is what was backed up."""

import asyncio
import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from functory.config import Settings, load_config
from functory.daemon.daemon import Daemon
from functory.errors import InvalidBackup, InvalidConfig, InvalidInput, NotEmpty, StillRunning
from functory.transfer import restore
from functory.transfer.backup import make_backup
from functory.transfer.backup_layout import RESTORING
from functory.transfer.manifest import Manifest, encode_manifest, read_manifest
from functory.transfer.restore import restore_backup
from journal import Journal, JournalLocked, OsDisk
from store.base import Tenant
from store.errors import NotFound, SchemaTooNew, StoreCorrupt
from store.url import open_store
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, new_jobs
from tests.support.store_audit import check_counters


def settings_of(data_dir: Path, **more: str) -> Settings:
    return load_config({"data_dir": str(data_dir), **more}, environ={}).settings


@pytest.fixture
async def settings(tmp_path: Path) -> Settings:
    """Of a data directory with a journal that has unread lines, jobs that wait and have ended, and a key."""
    settings = settings_of(tmp_path / "data")
    async with Journal(settings.journal_dir, "a1") as journal:
        await journal.write("acme-thumb", ["one", "two"])
    await asyncio.to_thread((settings.journal_dir / "identity").write_text, "reader")
    await asyncio.to_thread((settings.data_dir / "operator.key").write_text, "fk_secret\n")
    async with open_store(settings.store_url) as store:
        await store.create_tenant(Tenant(TENANT, T0))
        await store.add_jobs(new_jobs(5), now_ms=T0)
        (job, *_) = await claim(store)
        await store.release_jobs(OWNER, [archive(job, result=b"r" * 9000)], now_ms=T0)
        await store.reserve_sysid(info="", lease_ms=60_000, now_ms=T0)
    return settings


@pytest.fixture
async def backup(settings: Settings, tmp_path: Path) -> Path:
    await make_backup(settings, tmp_path / "backup", now_ms=T0)
    return tmp_path / "backup"


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def read(folder: Path) -> dict[str, bytes]:
    return await asyncio.to_thread(content_of, folder)


async def test_what_is_restored_is_what_was_backed_up(settings: Settings, backup: Path, tmp_path: Path) -> None:
    manifest = await asyncio.to_thread(read_manifest, backup)
    assert (manifest.began_ms, [j.lines for j in manifest.journals]) == (T0, [2])
    assert manifest.store is not None
    assert manifest.store.records["jobs"] == 5
    elsewhere = settings_of(tmp_path / "elsewhere" / "data")
    assert await restore_backup(backup, elsewhere, now_ms=T0 + 1) == manifest
    old, new = await read(settings.data_dir), await read(elsewhere.data_dir)
    assert new.keys() == old.keys() - {"journal/lock"}
    assert {name for name in new if new[name] != old[name]} == {"functory.db"}, "it has left sysids out"
    async with open_store(elsewhere.store_url) as store:
        assert len(await check_counters(store, TENANT, T0)) == 5
        assert await store.list_daemons(now_ms=T0) == []
        sysid = (await store.reserve_sysid(info="", lease_ms=1, now_ms=T0)).sysid
        assert int(sysid, 36) > 2
    modes = await asyncio.to_thread(lambda: {path.stat().st_mode & 0o077 for path in [backup, *backup.rglob("*")]})
    assert modes == {0}, "payloads and keys are their owner's business"


async def test_a_backup_says_that_a_segment_is_lost(settings: Settings, tmp_path: Path) -> None:
    async with Journal(settings.journal_dir, "a1") as journal:  # a start begins a segment
        await journal.write("acme-thumb", ["three"])
    await asyncio.to_thread((settings.journal_dir / "0000000001.journal").unlink)
    manifest = await make_backup(settings, tmp_path / "backup", now_ms=T0)
    (entry,) = manifest.journals
    assert (entry.segments, entry.lines, entry.damages) == (1, 1, 1)
    assert await restore_backup(tmp_path / "backup", settings_of(tmp_path / "elsewhere"), now_ms=T0) == manifest


async def test_a_journal_may_be_a_volume_of_its_own(settings: Settings, tmp_path: Path) -> None:
    await asyncio.to_thread((settings.journal_dir / "lost+found").mkdir)
    manifest = await make_backup(settings, tmp_path / "backup", now_ms=T0)
    assert [entry.lines for entry in manifest.journals] == [2]
    assert [file.path for file in manifest.files if "lost" in file.path] == []


async def test_keys_of_somebody_are_no_journal(settings: Settings, tmp_path: Path) -> None:
    """A backup does not copy them, and a restore does not move them away."""
    for name in (".age", "keys"):
        await asyncio.to_thread((settings.data_dir / name).mkdir)
        await asyncio.to_thread((settings.data_dir / name / "identity").write_text, "AGE-SECRET-KEY-1")
    manifest = await make_backup(settings, tmp_path / "backup", now_ms=T0)
    assert [entry.name for entry in manifest.journals] == ["journal"]
    await restore_backup(tmp_path / "backup", settings, now_ms=T0, replace=True)
    there = await read(settings.data_dir)
    assert {name for name in there if name.endswith("/identity") and not name.startswith("replaced")} == {
        ".age/identity",
        "keys/identity",
        "journal/identity",
    }


async def test_a_journal_whose_identity_is_damaged_is_in_the_backup(settings: Settings, tmp_path: Path) -> None:
    await asyncio.to_thread((settings.journal_dir / "identity").write_bytes, b"")
    manifest = await make_backup(settings, tmp_path / "backup", now_ms=T0)
    assert [entry.lines for entry in manifest.journals] == [2]


async def test_two_copies_of_one_backup_give_different_sysids(backup: Path, tmp_path: Path) -> None:
    sysids = set()
    for name in ("one", "two"):
        settings = settings_of(tmp_path / name)
        await restore_backup(backup, settings, now_ms=T0)
        async with open_store(settings.store_url) as store:
            sysids.add((await store.reserve_sysid(info="", lease_ms=1, now_ms=T0)).sysid)
    assert len(sysids) == 2


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("spoil", [flip, cut, Path.unlink])
@pytest.mark.parametrize(
    "name",
    [
        "store.db",
        "journals/journal/0000000001.journal",
        "journals/journal/identity",
        "data/operator.key",
        "manifest.json",
    ],
)
async def test_a_damaged_backup_is_refused_by_the_name_of_the_file(
    backup: Path, tmp_path: Path, name: str, spoil: Callable[[Path], None]
) -> None:
    await asyncio.to_thread(spoil, backup / name)
    with pytest.raises(InvalidBackup, match=name):
        await restore_backup(backup, settings_of(tmp_path / "elsewhere"), now_ms=T0)
    assert not await asyncio.to_thread((tmp_path / "elsewhere").exists), "nothing is touched before all is verified"


async def test_a_manifest_may_name_only_files_of_the_backup(backup: Path, tmp_path: Path) -> None:
    manifest = await asyncio.to_thread(read_manifest, backup)
    for path in ("../../etc/passwd", "/etc/passwd", "journals/../../x", "data/.ssh", "a/b/c/d", ""):
        entry = manifest.files[0]
        forged = replace(manifest, files=[replace(entry, path=path)])
        with pytest.raises(InvalidBackup, match="no file of a backup"):
            encode_manifest(forged)
        body = msgspec.json.encode(forged)
        sealed = b'{"sha256": "%b", "manifest": %b}' % (hashlib.sha256(body).hexdigest().encode(), body)
        await asyncio.to_thread((backup / "manifest.json").write_bytes, sealed)
        with pytest.raises(InvalidBackup, match="no file of a backup"):
            await restore_backup(backup, settings_of(tmp_path / "elsewhere"), now_ms=T0)


async def test_a_backup_of_a_later_format_is_refused(backup: Path, tmp_path: Path) -> None:
    manifest = await asyncio.to_thread(read_manifest, backup)
    later = replace(manifest, format=99)
    await asyncio.to_thread((backup / "manifest.json").write_bytes, encode_manifest(later))
    with pytest.raises(InvalidBackup, match="format 99"):
        await restore_backup(backup, settings_of(tmp_path / "elsewhere"), now_ms=T0)


async def test_an_interrupted_backup_is_none_and_the_next_begins_again(settings: Settings, tmp_path: Path) -> None:
    steps: list[str] = []

    def stop_at_the_last(step: str) -> None:
        steps.append(step)
        if step == "reading everything back":
            raise KeyboardInterrupt

    target = tmp_path / "backup"
    with pytest.raises(KeyboardInterrupt):
        await make_backup(settings, target, now_ms=T0, say=stop_at_the_last)
    unfinished = tmp_path / "backup.unfinished"
    with pytest.raises(InvalidBackup, match="not finished"):
        await restore_backup(unfinished, settings_of(tmp_path / "elsewhere"), now_ms=T0)
    assert not await asyncio.to_thread(target.exists)
    await make_backup(settings, target, now_ms=T0)
    assert not await asyncio.to_thread(unfinished.exists)
    await restore_backup(target, settings_of(tmp_path / "elsewhere"), now_ms=T0)


async def test_a_backup_never_replaces_anything(settings: Settings, backup: Path, tmp_path: Path) -> None:
    with pytest.raises(NotEmpty):
        await make_backup(settings, backup, now_ms=T0)
    with pytest.raises(InvalidInput, match="data directory"):
        await make_backup(settings_of(tmp_path / "nowhere"), tmp_path / "new", now_ms=T0)
    await asyncio.to_thread((tmp_path / "empty").mkdir)
    with pytest.raises(NotFound, match="no store"):
        await make_backup(settings_of(tmp_path / "empty"), tmp_path / "new", now_ms=T0)


async def test_a_store_that_is_damaged_makes_no_backup(settings: Settings, tmp_path: Path) -> None:
    def damage() -> None:
        path = settings.data_dir / "functory.db"
        content = bytearray(path.read_bytes())
        content[8192:12288] = bytes(4096)
        path.write_bytes(content)

    await asyncio.to_thread(damage)
    with pytest.raises(StoreCorrupt):
        await make_backup(settings, tmp_path / "backup", now_ms=T0)
    left = await asyncio.to_thread(lambda: [path.name for path in tmp_path.glob("backup*")])
    assert left == [], "what is of no use takes no room"


async def test_a_full_data_directory_is_left_alone_unless_told(settings: Settings, backup: Path) -> None:
    async with open_store(settings.store_url) as store:
        await store.add_jobs(new_jobs(3, 100), now_ms=T0)
    before = await read(settings.data_dir)
    with pytest.raises(NotEmpty, match="--replace"):
        await restore_backup(backup, settings, now_ms=T0)
    assert await read(settings.data_dir) == before
    await restore_backup(backup, settings, now_ms=T0, replace=True)
    after = await read(settings.data_dir)
    aside = {name.partition("/")[2]: content for name, content in after.items() if name.startswith("replaced-")}
    assert aside == before
    async with open_store(settings.store_url) as store:
        assert len(await check_counters(store, TENANT, T0)) == 5


async def test_nothing_is_restored_under_a_running_daemon(settings: Settings, backup: Path) -> None:
    async with Journal(settings.journal_dir, "a1"):
        with pytest.raises(StillRunning, match="pid"):
            await restore_backup(backup, settings, now_ms=T0, replace=True)


async def test_no_daemon_starts_on_half_a_restore(settings: Settings, backup: Path, tmp_path: Path) -> None:
    """Killed while things are moved into place: the mark is still there."""
    elsewhere = settings_of(tmp_path / "elsewhere")
    await restore_backup(backup, elsewhere, now_ms=T0)
    await asyncio.to_thread((elsewhere.data_dir / RESTORING).mkdir)
    with pytest.raises(InvalidConfig, match="restore"):
        await Daemon(elsewhere).open()
    with pytest.raises(InvalidConfig, match="restore"):
        await make_backup(elsewhere, tmp_path / "another", now_ms=T0)
    with pytest.raises(NotEmpty, match="--replace"):
        await restore_backup(backup, elsewhere, now_ms=T0)

    def fail(step: str) -> None:
        if step == "copying":
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        await restore_backup(backup, elsewhere, now_ms=T0, replace=True, say=fail)
    assert await asyncio.to_thread((elsewhere.data_dir / RESTORING).exists), "it is half a restore as before"
    await restore_backup(backup, elsewhere, now_ms=T0, replace=True)
    assert not await asyncio.to_thread((elsewhere.data_dir / RESTORING).exists)


@pytest.mark.parametrize("steps", range(9))
async def test_a_restore_that_is_cut_while_things_are_moved_can_be_repeated(
    settings: Settings, backup: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over an older state, cut after so many renames: no daemon starts on it, nothing is lost, the next succeeds."""
    before = await read(settings.data_dir)
    rename, done = Path.rename, 0

    def cut(path: Path, target: Path) -> Path:
        nonlocal done
        if done == steps:
            raise KeyboardInterrupt
        done += 1
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", cut)
        try:
            await restore_backup(backup, settings, now_ms=T0, replace=True)
            assert steps > 5
        except KeyboardInterrupt:
            with pytest.raises(InvalidConfig, match="restore"):
                await Daemon(settings).open()
    await restore_backup(backup, settings, now_ms=T0 + 1000, replace=True)
    after = await read(settings.data_dir)
    assert set(before.values()) <= set(after.values()), "what was there before is still there, aside"
    async with open_store(settings.store_url) as store:
        assert len(await check_counters(store, TENANT, T0)) == 5


class Pause:
    """Work of a thread that goes on when it is told to."""

    def __init__(self, work: Callable[..., None]) -> None:
        self._work = work
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()

    def __call__(self, *given: object) -> None:
        self.has_begun.set()
        self.may_go_on.wait()
        self._work(*given)


@contextmanager
def paused(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[Pause]:
    """A step of the restore, by its name. It goes on whatever happens."""
    pause = Pause(getattr(restore, name))
    monkeypatch.setattr(restore, name, pause)
    try:
        yield pause
    finally:
        pause.may_go_on.set()


async def interrupt(restoring: "asyncio.Task[Manifest]", pause: Pause) -> None:
    """More than once, and before the thread goes on."""
    await asyncio.to_thread(pause.has_begun.wait)
    for _ in range(2):
        restoring.cancel()
        await asyncio.wait([restoring], timeout=0)


async def test_a_restore_that_is_interrupted_while_things_are_moved_is_finished_and_says_so(
    settings: Settings, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    with paused(monkeypatch, "_put_in_place") as pause:
        restoring = asyncio.create_task(restore_backup(backup, settings, now_ms=T0, replace=True, warn=warnings.append))
        await interrupt(restoring, pause)
        with pytest.raises(JournalLocked):
            await asyncio.to_thread(OsDisk(settings.journal_dir).lock)
        assert warnings == []
    with pytest.raises(asyncio.CancelledError):
        await restoring
    assert warnings == [f"the interruption came too late: {settings.data_dir} is restored"]
    async with open_store(settings.store_url) as store:
        assert len(await check_counters(store, TENANT, T0)) == 5


async def test_a_restore_that_is_interrupted_while_it_copies_leaves_nothing(
    settings: Settings, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await read(settings.data_dir)
    warnings: list[str] = []
    with paused(monkeypatch, "_copy_all") as pause:
        restoring = asyncio.create_task(restore_backup(backup, settings, now_ms=T0, replace=True, warn=warnings.append))
        await interrupt(restoring, pause)
    with pytest.raises(asyncio.CancelledError):
        await restoring
    assert (warnings, await read(settings.data_dir)) == ([], before)
    assert not await asyncio.to_thread((settings.data_dir / RESTORING).exists)


async def test_a_store_outside_the_data_directory_goes_where_the_settings_say(backup: Path, tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "elsewhere", store=f"sqlite://{tmp_path}/shared.db")
    await restore_backup(backup, settings, now_ms=T0)
    async with open_store(settings.store_url) as store:
        assert len(await check_counters(store, TENANT, T0)) == 5
    other = settings_of(tmp_path / "other", store=settings.store)
    with pytest.raises(NotEmpty, match=r"shared\.db"):
        await restore_backup(backup, other, now_ms=T0)
    await restore_backup(backup, other, now_ms=T0, replace=True)
    assert await asyncio.to_thread(lambda: len(list(tmp_path.glob("shared.db.replaced-*")))) == 1


async def test_journals_alone_for_a_store_on_a_server(settings: Settings, backup: Path, tmp_path: Path) -> None:
    server = settings_of(settings.data_dir, store="mongodb://127.0.0.1:1/x")
    manifest = await make_backup(server, tmp_path / "journals", now_ms=T0)
    assert (manifest.store, [journal.lines for journal in manifest.journals]) == (None, [2])
    elsewhere = settings_of(tmp_path / "elsewhere", store=server.store)
    await restore_backup(tmp_path / "journals", elsewhere, now_ms=T0)
    assert "journal/identity" in await read(elsewhere.data_dir)
    with pytest.raises(InvalidConfig, match="migrate"):
        await restore_backup(backup, settings_of(tmp_path / "third", store=server.store), now_ms=T0)


async def test_a_backup_of_a_newer_schema_is_refused_before_anything_is_moved(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.sqlite.file.schema.MIGRATIONS", ())
    elsewhere = settings_of(tmp_path / "elsewhere")
    with pytest.raises(SchemaTooNew):
        await restore_backup(backup, elsewhere, now_ms=T0)
    assert await read(elsewhere.data_dir) == {}
