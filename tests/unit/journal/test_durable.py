"""Folders and small files that survive a power cut. That they are synced is shown in tests/crash/test_syscalls.py."""

from pathlib import Path

import pytest

from journal.durable import append_durably, create_durably, make_folder, replace_durably


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


def test_a_file_is_replaced_or_grows(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"one", b"two"):
        replace_durably(path, content)
    append_durably(path, b" three")
    append_durably(tmp_path / "new", b"four")
    assert path.read_bytes() == b"two three"
    assert (tmp_path / "new").read_bytes() == b"four"
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
