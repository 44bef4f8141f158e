"""Uids of contexts: never two at a time, the one just released comes last."""

import errno
from pathlib import Path

import pytest

from runner.errors import IsolationError, LaunchError
from runner.sandbox.room import Room
from runner.sandbox.uids import DEFAULT_BASE, UidRange, Uids, are_mapped
from tests.support.contexts import LIMITS


def test_no_uid_is_given_twice_while_it_is_taken() -> None:
    uids = Uids(base=1000, count=3)
    assert [uids.take(), uids.take(), uids.take()] == [1000, 1001, 1002]
    with pytest.raises(LaunchError, match="all 3 uids"):
        uids.take()
    uids.release(1001)
    assert uids.take() == 1001


def test_a_released_uid_is_the_last_to_come_again() -> None:
    uids = Uids(base=1000, count=3)
    uids.release(uids.take())
    assert [uids.take(), uids.take(), uids.take()] == [1001, 1002, 1000]


def test_two_launchers_never_use_the_same_range(tmp_path: Path) -> None:
    """One kills its contexts by their uids, and must not reach those of the other."""
    first, second = UidRange.reserve(directory=tmp_path), UidRange.reserve(directory=tmp_path)
    assert first.base == DEFAULT_BASE
    assert second.base >= first.base + 4096
    first.release()
    third = UidRange.reserve(directory=tmp_path)
    assert third.base == first.base
    second.release()
    third.release()


def test_when_all_ranges_are_in_use_it_says_where_the_locks_are(tmp_path: Path) -> None:
    held = [UidRange.reserve(directory=tmp_path) for _ in range(64)]
    assert len({one.base for one in held}) == 64
    with pytest.raises(IsolationError, match=tmp_path.name):
        UidRange.reserve(directory=tmp_path)
    for one in held:
        one.release()


def test_a_scratch_space_that_cannot_be_given_away_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr("os.chown", refuse)
    uids = Uids(base=1000, count=1)
    room = Room(uids, uids.take())
    with pytest.raises(LaunchError, match="Invalid argument; nothing was started"):
        room.prepare(None, "1", LIMITS, own_directory=True)
    room.give_back()
    assert not Path(room.scratch).exists()
    assert uids.take() == 1000


@pytest.mark.parametrize(
    ("id_map", "has_all"),
    [
        ("         0          0 4294967295\n", True),
        ("0 100000 65536\n", False),
        ("0 1000 1\n1 100000 65536\n", False),
        ("0 1000 1\n1879048192 1879048192 262144\n", True),
        ("0 1000 1\n1879048192 1879048192 262143\n", False),
        ("", False),
    ],
)
def test_uids_are_given_away_only_where_all_are_mapped(tmp_path: Path, id_map: str, has_all: bool) -> None:
    for of_uids, of_gids in [(id_map, "0 0 4294967295"), ("0 0 4294967295", id_map)]:
        (tmp_path / "uid_map").write_text(of_uids)
        (tmp_path / "gid_map").write_text(of_gids)
        assert are_mapped(folder=tmp_path) is has_all
