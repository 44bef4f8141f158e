"""`functory backup` and `functory restore` as an operator sees them: what they say and how they end."""

import asyncio
import json
from pathlib import Path

import pytest

from functory.cli import main
from functory.config import load_config
from functory.daemon.last_owner import mark_of_place
from journal import Journal
from store.base import Secret
from store.url import open_store
from tests.support.jobs import T0, new_jobs

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Of a daemon that was stopped."""
    settings = load_config({"data_dir": str(tmp_path / "data")}, environ={}).settings

    async def live() -> None:
        async with Journal(settings.journal_dir, "a1") as journal, open_store(settings.store_url) as store:
            await journal.write("acme-thumb", ["one", "two"])
            await store.add_jobs(new_jobs(5), now_ms=T0)

    asyncio.run(live())
    (settings.journal_dir / "identity").write_text("reader")
    return settings.data_dir


def run(capsys: Capture, *arguments: str | Path) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_backup_says_what_it_holds(data_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    status, out, _ = run(capsys, "backup", tmp_path / "backup", "--data-dir", data_dir)
    assert status == 0
    assert "journal: 2 lines in 1 segments, the last of sysid a1" in out
    assert "5 jobs, schema " in out
    status, out, _ = run(capsys, "backup", tmp_path / "other", "--data-dir", data_dir, "--json")
    assert [file["path"] for file in json.loads(out)["files"] if "/" not in file["path"]] == ["store.db"]
    status, _, err = run(capsys, "backup", tmp_path / "backup", "--data-dir", data_dir)
    assert (status, "already exists" in err) == (5, True)


def test_a_backup_into_the_folder_in_which_one_is(
    data_dir: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert run(capsys, "backup", ".", "--data-dir", data_dir)[0] == 0
    assert (tmp_path / "here" / "manifest.json").exists()


def test_a_backup_without_a_journal_says_so(data_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    """The journal is elsewhere, or the folder is the wrong one."""
    (data_dir / "journal" / "identity").unlink()
    status, out, _ = run(capsys, "backup", tmp_path / "backup", "--data-dir", data_dir)
    assert (status, "WARNING: there is no journal in" in out) == (0, True)


def test_a_backup_of_the_store_before_the_move_to_a_server_says_so(
    data_dir: Path, tmp_path: Path, capsys: Capture
) -> None:
    """The file is still there, and who makes the backup has not the settings of the service."""
    journal = data_dir / "journal"
    for url, told in ((f"sqlite:///{data_dir}/functory.db", False), ("mongodb://127.0.0.1:1/x", True)):
        (journal / "owner").write_text(f"a1 {mark_of_place(journal, url)}")
        status, out, _ = run(capsys, "backup", tmp_path / f"backup-{told}", "--data-dir", data_dir)
        assert (status, "WARNING: the daemon of journal journal used another store" in out) == (0, told), out
    status, out, _ = run(capsys, "backup", tmp_path / "journals", "--data-dir", data_dir, "--journals-only")
    assert (status, "WARNING" in out) == (0, False)


def test_a_store_of_which_nothing_is_left_makes_no_backup(data_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    (data_dir / "functory.db").write_bytes(b"")
    status, _, err = run(capsys, "backup", tmp_path / "backup", "--data-dir", data_dir)
    assert (status, f"{data_dir}/functory.db: the file is empty" in err) == (4, True), err
    assert not (tmp_path / "backup").exists()


def test_a_backup_that_could_not_be_restored_is_none(data_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    (data_dir / "journal").rename(data_dir / "my journal")
    status, _, err = run(capsys, "backup", tmp_path / "backup", "--data-dir", data_dir)
    assert (status, "journals/my journal" in err) == (2, True)
    assert not (tmp_path / "backup").exists()


def test_a_restore_says_what_runs_again(data_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    backup = tmp_path / "backup"
    run(capsys, "backup", backup, "--data-dir", data_dir)
    status, out, _ = run(capsys, "restore", backup, "--data-dir", tmp_path / "elsewhere")
    assert (status, "is restored and checked" in out, "run again" in out) == (0, True, True)
    status, _, err = run(capsys, "restore", backup, "--data-dir", data_dir)
    assert (status, "--replace" in err) == (5, True)
    status, _, _ = run(capsys, "restore", backup, "--data-dir", data_dir, "--replace")
    assert status == 0
    (backup / "store.db").write_bytes(b"")
    status, _, err = run(capsys, "restore", backup, "--data-dir", tmp_path / "third")
    assert (status, "store.db has 0 bytes" in err) == (2, True)


def test_a_restore_of_journals_alone_says_so(data_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    backup = tmp_path / "backup"
    run(capsys, "backup", backup, "--data-dir", data_dir, "--journals-only")
    status, out, _ = run(capsys, "restore", backup, "--data-dir", data_dir, "--replace")
    assert (status, "run again" in out, "The backup has no store" in out) == (0, False, True)
    assert (data_dir / "functory.db").exists()


def test_sealed_secrets_are_nothing_without_their_key(data_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    async def seal() -> None:
        async with open_store(f"sqlite://{data_dir}/functory.db") as store:
            await store.put_secret(Secret("acme", "TOKEN", 1, T0, "key1", "k1", b"sealed"))

    backup, elsewhere = tmp_path / "backup", tmp_path / "elsewhere"
    asyncio.run(seal())
    _, out, _ = run(capsys, "backup", backup, "--data-dir", data_dir)
    assert f"keep a copy of {data_dir}/secrets.key" in out
    _, out, _ = run(capsys, "restore", backup, "--data-dir", elsewhere)
    assert f"WARNING: tenants' secrets are sealed, and there is no key in {elsewhere}/secrets.key" in out
    (elsewhere / "secrets.key").write_text("key")
    _, out, _ = run(capsys, "restore", backup, "--data-dir", elsewhere, "--replace")
    assert "WARNING" not in out


def test_a_store_on_a_server_is_left_to_the_server(data_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    server = ("--store", "mongodb://127.0.0.1:1/x")
    status, out, _ = run(capsys, "backup", tmp_path / "backup", "--data-dir", data_dir, *server)
    assert (status, "take its dump or snapshot now" in out) == (0, True)
