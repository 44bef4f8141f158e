"""Journals that no daemon uses any more: another number of processes, or a restore. Their lines reach the store."""

import asyncio
import errno
import shutil
from pathlib import Path

import pytest

from functory.config import Settings, load_config
from functory.daemon.daemon import Daemon
from functory.daemon.joining import Joining
from functory.transfer.backup import make_backup
from functory.transfer.restore import restore_backup
from journal import Journal, Position
from store.base import Code
from store.errors import InvalidValue, StoreUnavailable
from store.sqlite import SqliteStore
from tests.support.jobs import T0
from tests.support.service import QUICK, ended, register, running_daemon, until

ALL = "journal,journal-0,journal-1,journal-2"


async def leave_lines(data_dir: Path, journal: str, payloads: list[bytes]) -> list[str]:
    """A daemon accepts lines, and is gone before the store has them. Returns their ids."""
    async with running_daemon(data_dir, journal=journal, role="api", other_journals=ALL) as daemon:
        await register(daemon, "acme-x", "return payload")
        await daemon.intake.flush()
        sysid = daemon.sysid
    async with Journal(data_dir / journal, sysid) as left:
        return await left.write("acme-x", payloads)


class Died(Exception):
    pass


async def results(daemon: Daemon, ids: list[str]) -> list[bytes | None]:
    records = [await ended(daemon, id_) for id_ in ids]
    assert [(record.outcome.code, record.job.attempts) for record in records if record.outcome] == [
        (Code.OK, 1) for _ in ids
    ]
    return [record.outcome.result for record in records if record.outcome]


async def test_with_another_number_of_processes_nothing_is_left_behind(tmp_path: Path) -> None:
    """From one to two: the first of the two has a journal of another name."""
    ids = await leave_lines(tmp_path, "journal", [b"1", b"2"])
    async with running_daemon(tmp_path, journal="journal-0", other_journals="journal-0,journal-1") as daemon:
        assert await results(daemon, ids) == [b'"1"', b'"2"']
        assert "left_journals" not in daemon.health().problems
    async with running_daemon(tmp_path) as daemon:  # and back: it knows how far its journal was read
        await daemon.intake.flush()
        (row,) = await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
        assert row.ok == 2


async def test_what_is_left_there_again_is_moved_by_the_same_daemon(tmp_path: Path) -> None:
    ids = await leave_lines(tmp_path, "journal-1", [b"1"])
    async with running_daemon(tmp_path) as daemon:
        assert await results(daemon, ids) == [b'"1"']
        await daemon.left_journals.look()
        async with Journal(tmp_path / "journal-1", "zz") as again:  # another came, and was killed
            ids = await again.write("acme-x", [b"2"])
        await daemon.left_journals.look()
        assert await results(daemon, ids) == [b'"2"']


async def test_a_backup_of_two_restored_for_one_daemon(tmp_path: Path) -> None:
    ids = await leave_lines(tmp_path / "data", "journal-0", [b"1"])
    ids += await leave_lines(tmp_path / "data", "journal-1", [b"2"])
    await make_backup(settings_of(tmp_path / "data"), tmp_path / "backup", now_ms=T0)
    await restore_backup(tmp_path / "backup", settings_of(tmp_path / "copy"), now_ms=T0)
    async with running_daemon(tmp_path / "copy") as daemon:
        assert await results(daemon, ids) == [b'"1"', b'"2"']


async def test_a_journal_of_another_daemon_is_not_touched(tmp_path: Path) -> None:
    """One that is locked, or named: its daemon may only be about to start."""
    (named,) = await leave_lines(tmp_path, "journal-1", [b"1"])
    (locked,) = await leave_lines(tmp_path, "journal-2", [b"2"])
    async with (
        Journal(tmp_path / "journal-2", "zz"),
        running_daemon(tmp_path, other_journals="journal-1") as daemon,
    ):
        await daemon.left_journals.look()
        for job_id in (named, locked):
            assert await daemon.store.get_job("acme", job_id, now_ms=daemon.clock.now_ms()) is None
        assert not daemon.left_journals.trouble
    async with running_daemon(tmp_path) as daemon:
        assert await results(daemon, [named, locked]) == [b'"1"', b'"2"']


async def test_a_daemon_that_dies_meanwhile_leaves_the_rest_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies after the store has taken some, and before the journal knows."""
    ids = await leave_lines(tmp_path, "journal-1", [str(number).encode() for number in range(5)])

    async def die(self: Journal, reservation: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr("functory.intake.journal_reader.LONG_STEP", 2)
        patched.setattr(Journal, "rsync", die)
        dying = Daemon(settings_of(tmp_path, role="api"))
        await dying.open()
        with pytest.raises(Died):
            await dying.left_journals.look()
        await dying.close()
    async with running_daemon(tmp_path) as daemon:
        assert await results(daemon, ids) == [f'"{number}"'.encode() for number in range(5)]
        (row,) = await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
        assert row.ok == 5


async def test_what_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = await leave_lines(tmp_path, "journal-1", [b"1"])

    async def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailable("it is away")

    daemon = Daemon(settings_of(tmp_path, role="api"))
    await daemon.open()
    with monkeypatch.context() as patched:
        patched.setattr(SqliteStore, "add_jobs", refuse)
        await daemon.left_journals.look()
        assert daemon.health().problems["left_journals"] == "journal-1: it is away"
    await daemon.left_journals.look()
    assert "left_journals" not in daemon.health().problems
    assert await daemon.store.get_job("acme", ids[0], now_ms=daemon.clock.now_ms())
    await daemon.close()


async def test_after_a_moment_of_full_disk_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = await leave_lines(tmp_path, "journal-1", [b"1"])
    daemon = Daemon(settings_of(tmp_path, role="api"))
    await daemon.open()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("journal.disk.os.pwrite", full)
        await daemon.left_journals.look()
        assert "No space left" in daemon.health().problems["left_journals"]
    await daemon.left_journals.look()
    assert await daemon.store.get_job("acme", ids[0], now_ms=daemon.clock.now_ms())
    assert "left_journals" not in daemon.health().problems
    await daemon.close()


async def test_one_that_is_gone_is_no_trouble_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await leave_lines(tmp_path, "journal-1", [b"1"])

    async def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailable("it is away")

    daemon = Daemon(settings_of(tmp_path, role="api"))
    await daemon.open()
    monkeypatch.setattr(SqliteStore, "add_jobs", refuse)
    await daemon.left_journals.look()
    assert "left_journals" in daemon.health().problems
    await asyncio.to_thread(shutil.rmtree, tmp_path / "journal-1")
    await daemon.left_journals.look()
    assert "left_journals" not in daemon.health().problems
    await daemon.close()


async def test_a_line_that_another_daemon_has_read_meanwhile_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job has run and is not kept, so only the position in the store tells."""
    await leave_lines(tmp_path, "journal-2", [b"1"])
    used = "journal,journal-0,journal-1"
    slow = Daemon(settings_of(tmp_path, journal="journal-0", other_journals=used, role="api"))
    quick = Daemon(settings_of(tmp_path, journal="journal-1", other_journals=used, role="api"))
    async with running_daemon(tmp_path, other_journals=ALL) as running:
        await register(running, "acme-x", "return payload", keep="none")

        async def runs() -> int:
            """So many once nothing is left to run."""
            (row,) = await running.store.get_counters("acme", now_ms=running.clock.now_ms())
            return 0 if row.waiting or row.running else row.ok

        ask = Joining.position

        async def ask_while_another_reads(self: Joining, reader: str) -> Position | None:
            monkeypatch.undo()
            position = await ask(self, reader)
            await quick.left_journals.look()
            running.wake()
            assert await until(runs) == 1
            return position

        await slow.open()
        await quick.open()
        monkeypatch.setattr(Joining, "position", ask_while_another_reads)
        await slow.left_journals.look()
        running.wake()
        assert await until(runs) == 1
        await slow.close()
        await quick.close()


async def test_a_copy_of_a_journal_in_use_is_not_read(tmp_path: Path) -> None:
    ids = await leave_lines(tmp_path, "journal", [b"1"])
    ids += await leave_lines(tmp_path, "journal-1", [b"2"])
    for name in ("journal", "journal-1"):
        await asyncio.to_thread(shutil.copytree, tmp_path / name, tmp_path / f"{name}.bak")
    daemon = Daemon(settings_of(tmp_path, role="api", other_journals="journal-1"))
    await daemon.open()  # it does not read its own lines yet
    await daemon.left_journals.look()
    for job_id in ids:
        assert await daemon.store.get_job("acme", job_id, now_ms=daemon.clock.now_ms()) is None
    assert not daemon.left_journals.trouble
    await daemon.close()


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"# made in 2026\nSECRET-KEY-1ABC\n" * 20, b"0123456789abcdef\n"]
)
async def test_a_folder_with_another_file_of_that_name_is_left_alone(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "keys"
    await asyncio.to_thread(folder.mkdir)
    await asyncio.to_thread((folder / "identity").write_bytes, content)
    daemon = Daemon(settings_of(tmp_path, role="api"))
    await daemon.open()
    await daemon.left_journals.look()
    assert not daemon.left_journals.trouble
    await daemon.close()
    assert [path.name for path in await asyncio.to_thread(lambda: list(folder.iterdir()))] == ["identity"]


async def test_a_line_break_after_its_identity_changes_nothing(tmp_path: Path) -> None:
    ids = await leave_lines(tmp_path, "journal-1", [b"1"])
    await add_line_break(tmp_path / "journal-1")
    daemon = Daemon(settings_of(tmp_path, role="api"))
    await daemon.open()
    await daemon.left_journals.look()
    assert await daemon.store.get_job("acme", ids[0], now_ms=daemon.clock.now_ms())
    await daemon.close()


async def test_a_line_break_does_not_hide_whose_copy_it_is(tmp_path: Path) -> None:
    (job_id,) = await leave_lines(tmp_path, "journal", [b"1"])
    await asyncio.to_thread(shutil.copytree, tmp_path / "journal", tmp_path / "journal.bak")
    await add_line_break(tmp_path / "journal")
    daemon = Daemon(settings_of(tmp_path, role="api"))
    await daemon.open()  # it does not read its own lines yet
    await daemon.left_journals.look()
    assert await daemon.store.get_job("acme", job_id, now_ms=daemon.clock.now_ms()) is None
    await daemon.close()


async def test_one_whose_identity_was_damaged_is_told_and_is_read_once_that_is_put_right(tmp_path: Path) -> None:
    ids = await leave_lines(tmp_path, "journal-1", [b"1"])
    identity = tmp_path / "journal-1" / "identity"
    await asyncio.to_thread(identity.write_bytes, bytes(16))
    daemon = Daemon(settings_of(tmp_path, role="api"))
    await daemon.open()
    await daemon.left_journals.look()
    assert daemon.health().problems["left_journals"].startswith(f"journal-1: {identity} is damaged")
    await asyncio.to_thread(identity.write_bytes, b"0123456789abcdef")  # as the problem says
    await daemon.left_journals.look()
    assert "left_journals" not in daemon.health().problems
    assert await daemon.store.get_job("acme", ids[0], now_ms=daemon.clock.now_ms())
    await daemon.close()


async def test_a_value_that_makes_no_sense_is_told_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await leave_lines(tmp_path, "journal-1", [b"1"])
    daemon = Daemon(settings_of(tmp_path, role="api"))
    await daemon.open()

    async def refuse(*_: object, **__: object) -> None:
        raise InvalidValue("precious is no position")

    with monkeypatch.context() as patched:
        patched.setattr(SqliteStore, "get_journal_position", refuse)
        await daemon.left_journals.look()
    assert daemon.left_journals.trouble == "journal-1: it cannot be read as a journal (InvalidValue)"
    await daemon.close()


async def test_a_tenant_named_like_a_mark_is_no_journal(tmp_path: Path) -> None:
    """Folders of tenants lie beside the journals."""
    await asyncio.to_thread((tmp_path / "packages" / "identity").mkdir, parents=True)
    backup = tmp_path.parent / f"{tmp_path.name}-backup"
    manifest = await make_backup(settings_of(tmp_path), backup, now_ms=T0, journals_only=True)
    assert manifest.journals == []


async def add_line_break(journal: Path) -> None:
    identity = journal / "identity"
    await asyncio.to_thread(lambda: identity.write_bytes(identity.read_bytes() + b"\n"))


def settings_of(data_dir: Path, **settings: str) -> Settings:
    return load_config({"data_dir": str(data_dir), **QUICK, **settings}, {}).settings
