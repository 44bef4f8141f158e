"""Folders and small files that survive a power cut. That they are synced is shown in tests/crash/test_syscalls.py."""

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from journal.durable import append_durably, create_durably, make_folder, remove_leftovers, replace_durably


def test_folders_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    made = make_folder(tmp_path / "a" / "b")
    assert [oct(path.stat().st_mode & 0o777) for path in (made, made.parent)] == ["0o700", "0o700"]
    assert make_folder(made) == made
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")


def test_of_several_that_create_a_file_one_makes_it(tmp_path: Path) -> None:
    path = tmp_path / "identity"
    create_durably(path, b"first")
    with pytest.raises(FileExistsError):
        create_durably(path, b"second")
    assert path.read_bytes() == b"first"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [create_durably, replace_durably])
@pytest.mark.parametrize("step", ["fsync", "write"])
def test_what_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, bytes], None], step: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    if step == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    content = b"x" if step == "fsync" else b"x" * 10_000
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
    try:
        with pytest.raises(OSError, match=r"no room|too large"):
            write(tmp_path / "file", content)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_taken_by_a_folder_leaves_nothing(tmp_path: Path) -> None:
    path = make_folder(tmp_path / "name")
    with pytest.raises(IsADirectoryError):
        replace_durably(path, b"x")
    assert list(tmp_path.iterdir()) == [path]


def test_only_old_leftovers_of_the_file_are_removed(tmp_path: Path) -> None:
    names = [".key.a1b2c3d4", ".key.young123", ".other.a1b2c3d4", ".key.a", "key"]
    for name in names:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000, 2000 if "young" in name else 1000))
    remove_leftovers(tmp_path / "key", before_s=1500)
    assert {path.name for path in tmp_path.iterdir()} == {*names} - {".key.a1b2c3d4"}


def test_a_file_is_replaced_or_grows(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"one", b"two"):
        replace_durably(path, content)
    append_durably(path, b" three")
    append_durably(tmp_path / "new", b"four")
    assert path.read_bytes() == b"two three"
    assert (tmp_path / "new").read_bytes() == b"four"
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
