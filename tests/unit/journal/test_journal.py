"""What a user of the journal sees: writing, reserving, reading, giving back, syncing, restarting."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from journal import (
    InvalidWrite,
    Journal,
    JournalClosed,
    JournalOptions,
    LimitExceeded,
    Position,
    Record,
    ReservationLapsed,
    ReservationUnread,
)
from tests.support.clocks import FakeClock

SMALL = JournalOptions(segment_bytes=4096, max_payload_bytes=4096, read_bytes=2000)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def journal(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Journal]:
    async with Journal(tmp_path / "journal", "a7", SMALL, clock=clock) as opened:
        yield opened


Reopen = Callable[[], Journal]


@pytest.fixture
def reopen(tmp_path: Path, clock: FakeClock) -> Reopen:
    return lambda: Journal(tmp_path / "journal", "a7", SMALL, clock=clock)


async def take(journal: Journal, max_lines: int = 1000, *, sync: bool = True) -> list[Record]:
    """All lines that can be had, in order."""
    records = []
    while reservation := await journal.read_reserve(max_lines, 60):
        records += await journal.read(reservation)
        if sync:
            await journal.rsync(reservation)
    return records


async def test_notes_are_there_after_a_restart(journal: Journal, reopen: Reopen) -> None:
    await journal.write("a-b", [b"x", b"|"], notes=["note of x", "another"])
    await journal.close()
    async with reopen() as again:
        assert [(record.note, record.payload) for record in await take(again)] == [
            ("note of x", b"x"),
            ("another", b"|"),
        ]


async def files_of(directory: Path) -> list[Path]:
    return await asyncio.to_thread(lambda: list(directory.iterdir()))


def payloads(records: list[Record]) -> list[bytes]:
    return [record.payload for record in records]


async def test_lines_come_out_as_they_went_in(journal: Journal) -> None:
    ids = await journal.write("acme-resize", ["one", "zwei|2", ""], {"priority": "1000"})
    more = await journal.write("other-x", [b"\xff\n\0"])
    records = await take(journal)
    assert [record.id for record in records] == ids + more
    assert [record.jobtype for record in records] == ["acme-resize"] * 3 + ["other-x"]
    assert payloads(records) == [b"one", b"zwei|2", b"", b"\xff\n\0"]
    assert [dict(record.attributes) for record in records] == [{"priority": "1000"}] * 3 + [{}]
    assert records[1].text == "zwei|2"


async def test_ids_sort_as_they_were_written(journal: Journal, clock: FakeClock) -> None:
    ids = await journal.write("a-b", ["x"] * 100)
    clock.wall_ms -= 60_000
    ids += await journal.write("a-b", ["x"])
    clock.wall_ms += 120_000
    ids += await journal.write("a-b", ["x"])
    assert ids == sorted(set(ids))


async def test_concurrent_writers_all_get_through_in_order(journal: Journal) -> None:
    written = await asyncio.gather(*[journal.write("a-b", [f"{n}:{m}" for m in range(3)]) for n in range(50)])
    records = await take(journal)
    assert [record.id for record in records] == [id_ for ids in written for id_ in ids]


async def test_a_reservation_is_nobody_elses(journal: Journal) -> None:
    await journal.write("a-b", [str(n) for n in range(10)])
    first = await journal.read_reserve(4, 60)
    second = await journal.read_reserve(4, 60)
    assert first
    assert second
    assert payloads(await journal.read(first)) == [b"0", b"1", b"2", b"3"]
    assert payloads(await journal.read(second)) == [b"4", b"5", b"6", b"7"]
    assert payloads(await journal.read(first)) == [b"0", b"1", b"2", b"3"], "a second look shows the same"


async def test_nothing_to_read_is_none(journal: Journal) -> None:
    assert await journal.read_reserve(10, 60) is None


async def test_cancelled_lines_go_to_the_next_reader_first_and_in_order(journal: Journal) -> None:
    await journal.write("a-b", [str(n) for n in range(9)])
    reservations = [await journal.read_reserve(3, 60) for _ in range(2)]
    for reservation in reversed(reservations):
        assert reservation
        await journal.read_cancel(reservation)
        await journal.read_cancel(reservation)
    assert payloads(await take(journal, 2)) == [b"%d" % n for n in range(9)]


async def test_lines_that_are_not_synced_in_time_come_back(journal: Journal, clock: FakeClock) -> None:
    await journal.write("a-b", ["0", "1", "2"])
    late = await journal.read_reserve(2, 60)
    assert late
    await journal.read(late)
    clock.advance(59)
    assert payloads(await take(journal)) == [b"2"]
    clock.advance(1)
    with pytest.raises(ReservationLapsed):
        await journal.rsync(late)
    with pytest.raises(ReservationLapsed):
        await journal.read(late)
    assert payloads(await take(journal)) == [b"0", b"1"]


async def test_lines_that_nobody_read_are_not_dropped(journal: Journal) -> None:
    await journal.write("a-b", ["0", "1"])
    unread = await journal.read_reserve(2, 60)
    assert unread
    with pytest.raises(ReservationUnread, match="2 lines were never read"):
        await journal.rsync(unread)
    assert payloads(await journal.read(unread)) == [b"0", b"1"]
    await journal.rsync(unread)
    assert await take(journal) == []


async def test_the_read_point_waits_for_the_gap_to_close(journal: Journal) -> None:
    await journal.write("a-b", [str(n) for n in range(6)])
    start = journal.read_point
    first, second, third = [await journal.read_reserve(2, 60) for _ in range(3)]
    assert first
    assert second
    assert third
    for reservation in (first, second, third):
        await journal.read(reservation)
    await journal.rsync(third)
    await journal.rsync(second)
    assert journal.read_point <= first.span.start
    assert journal.read_point >= start
    await journal.rsync(first)
    assert journal.read_point == third.span.end


async def test_what_was_not_synced_is_read_again_after_a_restart(reopen: Reopen) -> None:
    async with reopen() as journal:
        await journal.write("a-b", [str(n) for n in range(10)])
        first = await journal.read_reserve(3, 60)
        second = await journal.read_reserve(3, 60)
        assert first
        assert second
        await journal.read(first)
        await journal.rsync(first)
    async with reopen() as journal:
        assert payloads(await take(journal)) == [b"%d" % n for n in range(3, 10)]
    async with reopen() as journal:
        assert await take(journal) == []


async def test_a_store_that_keeps_the_position_overrides_the_journals_own(tmp_path: Path) -> None:
    async with Journal(tmp_path, "a7") as journal:
        await journal.write("a-b", ["0", "1", "2"])
        reservation = await journal.read_reserve(1, 60)
        assert reservation
        committed = reservation.span.end
        await take(journal)
    async with Journal(tmp_path, "a7", read_from=committed) as journal:
        assert payloads(await take(journal)) == [b"1", b"2"]


async def test_a_position_can_be_learned_after_lines_were_written(journal: Journal, reopen: Reopen) -> None:
    """By a daemon whose store was away when it started: the journal's own position is too old."""
    await journal.write("acme-x", ["a", "b"])
    reservation = await journal.read_reserve(1, 60)
    assert reservation is not None
    learned = reservation.span.end
    await journal.close()
    async with reopen() as again:
        await again.write("acme-x", ["c"])
        again.read_on_from(learned)
        assert payloads(await take(again)) == [b"b", b"c"]


async def test_a_position_beyond_what_was_there_is_not_believed(journal: Journal, reopen: Reopen) -> None:
    """The folder is older than the store: what is written now must not look as if it were read."""
    await journal.write("acme-x", ["a"])
    await journal.close()
    async with reopen() as again:
        await again.write("acme-x", ["b"])
        again.read_on_from(again.write_point)
        assert payloads(await take(again)) == [b"a", b"b"]


async def test_segments_rotate_by_size_and_go_when_they_are_read_up(journal: Journal, tmp_path: Path) -> None:
    for n in range(20):
        await journal.write("a-b", [f"{n}" * 300])
    assert journal.stats().segments > 3
    assert len(await take(journal)) == 20
    assert journal.stats().segments == 1
    assert journal.stats().backlog_bytes == 0
    assert sum(path.suffix == ".journal" for path in await files_of(tmp_path / "journal")) == 1


async def test_segments_rotate_by_age(journal: Journal, clock: FakeClock) -> None:
    await journal.write("a-b", ["0"])
    clock.advance(SMALL.segment_age_s + 1)
    await journal.write("a-b", ["1"])
    assert journal.stats().segments == 2


async def test_a_reservation_is_bounded_in_bytes(journal: Journal) -> None:
    await journal.write("a-b", ["x" * 900] * 4)
    await journal.write("a-b", ["y" * 4000])
    sizes = []
    while reservation := await journal.read_reserve(1000, 60):
        sizes.append(reservation.span.lines)
    assert sizes == [3, 2], "2,000 bytes are passed by the third line, then by the fifth"


async def test_a_batch_larger_than_a_segment_is_kept_whole(journal: Journal) -> None:
    await journal.write("a-b", [f"{n}".ljust(1000) for n in range(12)])
    assert len(await take(journal, 5)) == 12


async def test_bad_input_writes_nothing(journal: Journal) -> None:
    with pytest.raises(InvalidWrite):
        await journal.write("not a jobtype", ["x"])
    with pytest.raises(LimitExceeded):
        await journal.write("a-b", ["fine", "x" * 5000])
    assert await take(journal) == []


async def test_close_is_idempotent_and_legal_before_open(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "a7")
    await journal.close()
    await journal.open()
    await journal.close()
    await journal.close()
    with pytest.raises(JournalClosed):
        await journal.write("a-b", ["x"])


async def test_close_settles_the_writes_under_way(reopen: Reopen) -> None:
    journal = reopen()
    await journal.open()
    writes = [asyncio.ensure_future(journal.write("a-b", [str(n)])) for n in range(20)]
    await asyncio.sleep(0)
    await journal.close()
    ids = [id_ for write in writes for id_ in await write]
    async with reopen() as journal:
        assert [record.id for record in await take(journal)] == ids


async def test_wsync_waits_for_writes_in_progress(journal: Journal) -> None:
    writes = [asyncio.ensure_future(journal.write("a-b", [str(n)])) for n in range(5)]
    await asyncio.sleep(0)
    await journal.wsync()
    await asyncio.sleep(0)
    assert all(write.done() for write in writes)


async def test_readable_wakes_for_new_and_for_returned_lines(journal: Journal) -> None:
    waiting = asyncio.ensure_future(journal.readable())
    await asyncio.sleep(0)
    assert not waiting.done()
    await journal.write("a-b", ["x"])
    await waiting
    reservation = await journal.read_reserve(10, 60)
    assert reservation
    assert await journal.read_reserve(10, 60) is None
    waiting = asyncio.ensure_future(journal.readable())
    await asyncio.sleep(0)
    assert not waiting.done()
    await journal.read_cancel(reservation)
    await waiting


async def test_readable_wakes_when_a_reservation_lapses(tmp_path: Path) -> None:
    async with Journal(tmp_path, "a7") as journal:
        await journal.write("a-b", ["x"])
        assert await journal.read_reserve(10, 0.01)
        assert await journal.read_reserve(10, 60) is None
        await journal.readable()
        assert len(await take(journal)) == 1


async def test_a_lost_directory_does_not_make_new_lines_look_read(tmp_path: Path) -> None:
    """The store's position may be all that is left of an earlier directory."""
    position = Position(41, 123_456, 0)
    async with Journal(tmp_path, "a7", read_from=position) as journal:
        await journal.write("a-b", ["x"])
        assert payloads(await take(journal)) == [b"x"]


async def test_files_are_the_owners_alone(journal: Journal, tmp_path: Path) -> None:
    await journal.write("a-b", ["x"])
    for path in [tmp_path / "journal", *await files_of(tmp_path / "journal")]:
        assert (await asyncio.to_thread(path.stat)).st_mode & 0o077 == 0


async def test_ids_taken_for_elsewhere_are_never_those_of_lines(journal: Journal) -> None:
    before = await journal.write("a-b", ["x", "y"])
    taken = journal.take_ids(3)
    after = await journal.write("a-b", ["z"])
    ids = [*before, *taken, *after]
    assert sorted(set(ids)) == ids


@pytest.mark.parametrize(("segments_on", "offset"), [(0, 0), (0, 512), (2, 512)])
async def test_what_a_store_has_read_is_no_backlog_after_a_restart(
    journal: Journal, tmp_path: Path, segments_on: int, offset: int
) -> None:
    """A crash may leave segments behind, and a copy may end before the position that the store has."""
    for _ in range(3):
        await journal.write("acme-x", ["x" * 3000])
    assert journal.stats().backlog_bytes > 9000
    end = journal.write_point
    await journal.close()
    read_from = Position(end.segment + segments_on, end.offset + offset, 0)
    async with Journal(tmp_path / "journal", "b8", SMALL, read_from=read_from) as again:
        assert again.stats().backlog_bytes == 0
        await again.write("acme-x", ["later"])
        assert again.stats().backlog_bytes > 0
        assert payloads(await take(again)) == [b"later"]
        assert again.stats().backlog_bytes == 0


async def test_lines_of_an_earlier_life_are_readable_without_a_new_one(journal: Journal, reopen: Reopen) -> None:
    await journal.write("acme-x", ["left behind"])
    await journal.close()
    async with reopen() as again:
        async with asyncio.timeout(30):
            await again.readable()
        assert payloads(await take(again)) == [b"left behind"]


async def test_the_ids_that_a_writer_got_are_its_own(tmp_path: Path) -> None:
    """Whatever it does to them, a reader gets the lines under the ids that were acknowledged."""
    async with Journal(tmp_path, "a7") as journal:
        ids = await journal.write("a-b", ["x", "y"])
        first, second = ids
        ids.reverse()
        reservation = await journal.read_reserve(10, 60)
        assert reservation is not None
        assert [record.id for record in await journal.read(reservation)] == [first, second]
