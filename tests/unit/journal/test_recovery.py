"""What a start makes of what it finds: torn ends, damage, leftovers."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import ParamSpec, TypeVar
from zlib import crc32

import pytest

from journal import Journal, JournalOptions, JournalUnavailable, OsDisk, Position, UnsupportedFormat
from journal.inspect import reports
from journal.recovery import Recovered, recover
from journal.segment import FIRST_FRAME

P = ParamSpec("P")
T = TypeVar("T")

FIRST = "0000000001.journal"
SECOND = "0000000002.journal"
ONE_A_SEGMENT = JournalOptions(segment_bytes=600)


class NextTurn(ThreadPoolExecutor):
    """A thread that waits until the event loop next turns: all writes of one turn are there then, and share a sync."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        turned = Event()

        def run() -> T:
            turned.wait()
            return fn(*args, **kwargs)

        asyncio.get_running_loop().call_soon(turned.set)
        return super().submit(run)


def fill(
    directory: Path,
    *groups: list[str],
    options: JournalOptions = JournalOptions(),  # noqa: B008
    read_from: Position | None = None,
) -> None:
    """A journal with these lines, each in a batch of its own; each group shares one sync."""

    async def scenario() -> None:
        async with Journal(
            directory, "a7", options, read_from=read_from, make_executor=lambda _: NextTurn(1)
        ) as journal:
            for group in groups:
                await asyncio.gather(*[journal.write(f"a-{n}", [line]) for n, line in enumerate(group)])

    asyncio.run(scenario())


def lines(directory: Path) -> tuple[list[bytes], int]:
    async def scenario() -> tuple[list[bytes], int]:
        async with Journal(directory, "a7") as journal:
            found = []
            while reservation := await journal.read_reserve(100, 60):
                found += [record.payload for record in await journal.read(reservation)]
            return found, journal.stats().damages

    return asyncio.run(scenario())


def recovered(directory: Path) -> Recovered:
    return recover(OsDisk(directory))


def change(path: Path, edit: Callable[[bytearray], object]) -> None:
    content = bytearray(path.read_bytes())
    edit(content)
    path.write_bytes(content)


def test_a_clean_directory_has_nothing_to_tell(tmp_path: Path) -> None:
    fill(tmp_path, ["0"], ["1"])
    found = recovered(tmp_path)
    assert found.findings == []
    assert list(found.segments) == [1]
    assert found.floor_ms > 0


def test_a_torn_end_is_cut_kept_and_is_no_damage(tmp_path: Path) -> None:
    fill(tmp_path, ["0"], ["1"])
    torn = b"#:Batch date=2026-11-14T23:59:59.123Z,bytes=99,lines=1,job"
    change(tmp_path / FIRST, lambda content: content.extend(torn))
    (finding,) = recovered(tmp_path).findings
    assert not finding.is_damage
    assert (tmp_path / f"{FIRST[:10]}.torn-{finding.offset}").read_bytes() == torn
    assert recovered(tmp_path).findings == []
    assert lines(tmp_path) == ([b"0", b"1"], 0)


def test_a_bad_frame_before_one_that_was_synced_later_is_damage(tmp_path: Path) -> None:
    fill(tmp_path, ["zero"], ["one"], ["two"])
    change(tmp_path / FIRST, lambda content: content.__setitem__(content.index(b"|one"), 0))
    assert recovered(tmp_path).findings == []
    assert lines(tmp_path) == ([b"zero", b"two"], 1)


def test_a_bad_frame_within_the_last_sync_is_a_torn_write(tmp_path: Path) -> None:
    """The disk wrote the end of the group before its beginning: none of it was acknowledged."""
    fill(tmp_path, ["zero"], ["x" * 10 for _ in range(20)])
    change(tmp_path / FIRST, lambda content: content.__setitem__(content.index(b"|xxx") + 300, 0))
    found, damages = lines(tmp_path)
    assert found in ([b"zero", b"x" * 10], [b"zero", b"x" * 10, b"x" * 10])
    assert damages == 0


def test_a_damaged_segment_is_kept_when_it_is_read_up(tmp_path: Path) -> None:
    fill(tmp_path, ["zero"], ["one"], ["two"])
    change(tmp_path / FIRST, lambda content: content.__setitem__(content.index(b"|one"), 0))

    async def read_up() -> None:
        async with Journal(tmp_path, "a7") as journal:
            await journal.write("a-b", ["next"])
            while reservation := await journal.read_reserve(100, 60):
                await journal.read(reservation)
                await journal.rsync(reservation)

    asyncio.run(read_up())
    assert {path.name for path in tmp_path.glob("0*")} == {"0000000001.damaged", SECOND}


def test_a_segment_with_a_damaged_header_is_set_aside_and_the_rest_goes_on(tmp_path: Path) -> None:
    fill(tmp_path, ["0" * 200], ["1" * 200], options=ONE_A_SEGMENT)
    change(tmp_path / FIRST, lambda content: content.__setitem__(30, 0))
    (finding,) = recovered(tmp_path).findings
    assert finding.is_damage
    assert (tmp_path / "0000000001.damaged").exists()
    assert lines(tmp_path)[0] == [b"1" * 200]


@pytest.mark.parametrize("size", [16, 1600])
@pytest.mark.parametrize(
    "name", ["9999999999.journal", "202611180442.tar", "999999999999.journal", "999999999999.damaged"]
)
def test_a_foreign_file_with_a_high_number_costs_no_line_and_stays(tmp_path: Path, name: str, size: int) -> None:
    (tmp_path / name).write_bytes(b"x" * size)
    fill(tmp_path, ["0" * 200], ["1" * 200], options=ONE_A_SEGMENT)
    fill(tmp_path, ["2" * 200], options=ONE_A_SEGMENT)
    assert lines(tmp_path) == ([b"0" * 200, b"1" * 200, b"2" * 200], 0)
    assert (tmp_path / name).exists()
    assert [report.number for report in reports(OsDisk(tmp_path))] == [1, 2, 3]


def test_lines_of_a_journal_that_a_foreign_file_lifted_are_found_again(tmp_path: Path) -> None:
    """Earlier versions counted on from it."""
    fill(tmp_path, ["0" * 200], options=ONE_A_SEGMENT, read_from=Position(10**10, 0, 0))
    assert (tmp_path / "10000000001.journal").exists()
    fill(tmp_path, ["1" * 200], options=ONE_A_SEGMENT)
    assert (tmp_path / "10000000002.journal").exists()
    assert lines(tmp_path)[0] == [b"0" * 200, b"1" * 200]


def test_a_segment_that_no_name_can_hold_is_not_begun(tmp_path: Path) -> None:
    fill(tmp_path, ["0"], read_from=Position(10**12 - 2, 0, 0))
    with pytest.raises(JournalUnavailable, match=r"999999999999\.journal"):
        fill(tmp_path, ["1"])
    assert lines(tmp_path)[0] == [b"0"]


def test_a_folder_with_the_name_of_a_segment_is_named(tmp_path: Path) -> None:
    (tmp_path / SECOND).mkdir()
    with pytest.raises(OSError, match=SECOND):
        recovered(tmp_path)


def test_a_segment_that_lost_its_end_is_noticed_by_its_successor(tmp_path: Path) -> None:
    fill(tmp_path, ["0" * 200], ["1" * 200], options=ONE_A_SEGMENT)
    change(tmp_path / FIRST, lambda content: content.__delitem__(slice(FIRST_FRAME, None)))
    (finding,) = recovered(tmp_path).findings
    assert finding.is_damage
    assert "missing" in finding.text
    assert lines(tmp_path)[0] == [b"1" * 200]


def read_up(directory: Path, count: int) -> None:
    """Read and rsync so many lines."""

    async def scenario() -> None:
        async with Journal(directory, "a7", JournalOptions(segment_bytes=600, sync_cursor=False)) as journal:
            for _ in range(count):
                reservation = await journal.read_reserve(1, 60)
                assert reservation
                await journal.read(reservation)
                await journal.rsync(reservation)

    asyncio.run(scenario())


def damage_at_start(directory: Path) -> list[tuple[int, str]]:
    async def scenario() -> list[tuple[int, str]]:
        async with Journal(directory, "a7") as journal:
            found = [(finding.segment, finding.text) for finding in journal.findings if finding.is_damage]
            assert journal.stats().damages == len(found)
            return found

    return asyncio.run(scenario())


@pytest.mark.parametrize("read", [0, 1, 2])
def test_a_segment_that_is_gone_is_damage_until_the_position_is_past_it(tmp_path: Path, read: int) -> None:
    fill(tmp_path, *([str(n) * 200] for n in range(5)), options=ONE_A_SEGMENT)
    read_up(tmp_path, read)
    assert damage_at_start(tmp_path) == [], "segments that were read and removed are not missed"
    (tmp_path / "0000000004.journal").unlink()
    ((number, text),) = damage_at_start(tmp_path)
    assert (number, "gone" in text) == (4, True)
    read_up(tmp_path, 4 - read)  # all but the lost one
    assert damage_at_start(tmp_path) == []


@pytest.mark.parametrize("size", [0, 300, 512])
def test_a_segment_cut_to_less_than_its_header_is_damage_if_it_had_lines(tmp_path: Path, size: int) -> None:
    fill(tmp_path, ["0" * 200], ["1" * 200], options=ONE_A_SEGMENT)
    change(tmp_path / FIRST, lambda content: content.__setitem__(slice(None), bytes(size)))
    ((number, text),) = damage_at_start(tmp_path)
    assert (number, "damaged" in text) == (1, True)
    assert (tmp_path / "0000000001.damaged").exists()
    assert damage_at_start(tmp_path) == [], "it was told, and is kept for people"
    assert lines(tmp_path)[0] == [b"1" * 200]


def test_bytes_that_were_never_acknowledged_are_not_read(tmp_path: Path) -> None:
    """A segment that was left after a failed sync may still hold what it could not sync."""
    fill(tmp_path, ["0" * 200], ["1" * 200], options=ONE_A_SEGMENT)
    change(tmp_path / FIRST, lambda content: content.extend(content[FIRST_FRAME:]))
    assert lines(tmp_path) == ([b"0" * 200, b"1" * 200], 0)


@pytest.mark.parametrize("content", [b"", b"#:Journal vers", bytes(512)])
def test_a_segment_torn_while_it_was_created_is_no_damage(tmp_path: Path, content: bytes) -> None:
    fill(tmp_path, ["0"])
    (tmp_path / SECOND).write_bytes(content)
    (finding,) = recovered(tmp_path).findings
    assert not finding.is_damage
    assert lines(tmp_path) == ([b"0"], 0)


def test_numbers_of_files_that_were_set_aside_are_not_used_again(tmp_path: Path) -> None:
    fill(tmp_path, ["0"])
    (tmp_path / "0000000009.damaged").write_bytes(b"")
    assert recovered(tmp_path).last_number == 9


def test_a_newer_format_stops_the_start(tmp_path: Path) -> None:
    fill(tmp_path, ["0"])

    def upgrade(content: bytearray) -> None:
        text = bytes(content[: content.index(b",crc=")]).replace(b"version=2", b"version=9")
        content[:FIRST_FRAME] = (b"%b,crc=%08x" % (text, crc32(text))).ljust(FIRST_FRAME - 1) + b"\n"

    change(tmp_path / FIRST, upgrade)
    with pytest.raises(UnsupportedFormat, match="version 9"):
        lines(tmp_path)


def test_a_lost_cursor_reads_all_again(tmp_path: Path) -> None:
    fill(tmp_path, ["0"], ["1"])

    async def read_one() -> None:
        async with Journal(tmp_path, "a7") as journal:
            reservation = await journal.read_reserve(1, 60)
            assert reservation
            await journal.read(reservation)
            await journal.rsync(reservation)

    asyncio.run(read_one())
    assert lines(tmp_path)[0] == [b"1"]
    (tmp_path / "cursor").write_bytes(b"\xff" * 1024)
    assert lines(tmp_path)[0] == [b"0", b"1"]
