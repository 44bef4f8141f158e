"""Small guards of the journal: a lock on a full disk, a close that waits, a failed write, a torn cursor, and so on."""

import asyncio
import errno
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from journal import Journal, JournalError, JournalUnavailable, Position, ReservationLapsed
from journal.cursor import CURSOR_NAME, Cursor, read_slots
from journal.disk import OsDisk, OsFile
from journal.ledger import Ledger, Span
from journal.writer import Appended, SegmentWriter
from journal.writes import Write


async def test_a_close_waits_for_the_writes_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, "a7")
    await journal.open()
    append, may_end = SegmentWriter.append, threading.Event()
    close_files, is_closing = Journal._close_files, threading.Event()

    def close(journal: Journal) -> None:
        is_closing.set()
        close_files(journal)

    def slow(writer: SegmentWriter, writes: Sequence[Write]) -> Appended:
        may_end.wait(30)
        return append(writer, writes)

    monkeypatch.setattr(SegmentWriter, "append", slow)
    monkeypatch.setattr(Journal, "_close_files", close)
    writing = asyncio.create_task(journal.write("acme-x", [b"one"]))
    await asyncio.sleep(0)
    closing = asyncio.create_task(journal.close())
    for _ in range(50):
        await asyncio.to_thread(int)
    assert not is_closing.is_set()
    may_end.set()
    await closing
    assert len(await writing) == 1
    async with Journal(tmp_path, "a7") as again:
        reservation = await again.read_reserve(10, 60)
        assert reservation is not None
        assert [record.payload for record in await again.read(reservation)] == [b"one"]


async def test_a_write_that_failed_is_not_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_file: OsFile) -> None:
        raise OSError(errno.EIO, "injected")

    async with Journal(tmp_path, "a7") as journal:
        with monkeypatch.context() as broken:
            broken.setattr(OsFile, "sync", fail)
            with pytest.raises(JournalError):
                await journal.write("acme-x", [b"lost"])
        await journal.write("acme-x", [b"kept"])


async def test_a_journal_opens_only_with_the_thread_that_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it could not be started at the first write, all writes waited for ever."""
    start = threading.Thread.start

    def starved(thread: threading.Thread) -> None:
        if thread.name.startswith("journal-write"):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", starved)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await Journal(tmp_path, "a7").open()
    async with asyncio.timeout(30), Journal(tmp_path, "a7") as journal:
        assert await journal.write("acme-x", ["a"])


def test_a_torn_slot_of_the_cursor_is_not_believed(tmp_path: Path) -> None:
    disk = OsDisk(tmp_path)
    cursor = Cursor.open(disk)
    cursor.save(Position(1, 2, 3), sync=True)
    cursor.save(Position(4, 5, 6), sync=True)
    cursor.close()
    data = bytearray((tmp_path / CURSOR_NAME).read_bytes())
    assert read_slots(bytes(data))[1] == Position(4, 5, 6)
    at = data.index(b"segment=4") + len("segment=")
    data[at : at + 1] = b"9"  # half of a newer line over an older one
    assert read_slots(bytes(data))[1] == Position(1, 2, 3)


def test_a_reservation_is_finished_once() -> None:
    ledger = Ledger(Position(1, 0, 0))
    ledger.begin()
    reservation = ledger.complete(Span(Position(1, 0, 0), Position(1, 1, 0), 1), 1e9)
    assert reservation is not None
    ledger.finish(reservation)
    with pytest.raises(ReservationLapsed):
        ledger.finish(reservation)


async def test_who_finds_the_disk_full_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("journal.disk.os.pwrite", full)
        with pytest.raises(JournalUnavailable, match="No space left"):
            await Journal(tmp_path, "a7").open()
    async with Journal(tmp_path, "b8") as journal:
        await journal.write("a-b", ["x"])
