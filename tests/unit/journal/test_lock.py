"""One process at a time writes to a journal."""

import asyncio
import errno
import fcntl
import os
import stat
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from journal import Journal, JournalLocked, OsDisk


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    async with Journal(tmp_path / "journal", "a7") as opened:
        yield opened


async def test_one_writer_per_directory(journal: Journal, tmp_path: Path) -> None:
    with pytest.raises(JournalLocked, match=r"another process \(pid \d+\)"):
        await Journal(tmp_path / "journal", "b8").open()


async def test_a_lock_file_that_was_removed_lets_nobody_in(journal: Journal, tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "journal" / "lock").unlink)
    for _ in range(2):
        with pytest.raises(JournalLocked, match="another process"):
            await Journal(tmp_path / "journal", "b8").open()
    await journal.close()
    async with Journal(tmp_path / "journal", "b8"):
        with pytest.raises(JournalLocked, match=r"\(pid \d+\)"):
            await Journal(tmp_path / "journal", "c9").open()


async def test_a_folder_that_cannot_be_locked_has_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On NFS, say."""
    flock = fcntl.flock

    def only_files(fd: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", only_files)
    async with Journal(tmp_path, "a7") as first:
        await first.write("a-b", ["x"])
        with pytest.raises(JournalLocked):
            await Journal(tmp_path, "b8").open()


async def test_who_is_cancelled_while_it_opens_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread goes on, and has the lock in the end."""
    is_locked, may_go_on = threading.Event(), threading.Event()
    lock = OsDisk.lock

    def lock_slowly(disk: OsDisk) -> None:
        lock(disk)
        is_locked.set()
        may_go_on.wait()

    first = Journal(tmp_path, "a7")
    with monkeypatch.context() as patched:
        patched.setattr(OsDisk, "lock", lock_slowly)
        opening = asyncio.ensure_future(first.open())
        await asyncio.to_thread(is_locked.wait)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        may_go_on.set()
        await asyncio.to_thread(first._read_executor.shutdown)
    async with Journal(tmp_path, "b8") as second:
        await second.write("a-b", ["x"])
