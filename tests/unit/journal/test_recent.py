"""The newest lines in memory: whoever keeps up finds them, whoever does not is sent to the disk."""

from itertools import pairwise

from journal import JournalOptions, Position
from journal.ids import IdSource
from journal.payloads import to_payloads
from journal.recent import Recent
from journal.writes import Batch, lay_out, make_write

OPTIONS = JournalOptions()
IDS = IdSource("a7")
MANY = 1 << 20


def batch(*payloads: bytes) -> Batch:
    (laid_out,) = lay_out([make_write(IDS.take(len(payloads), 1), "a-b", to_payloads(payloads, OPTIONS), {}, 1)])
    return laid_out


def recent(*batches: Batch, max_bytes: int = MANY) -> Recent:
    """They stand at 512, 1024, ... of segment 1."""
    made = Recent(max_bytes)
    for (offset, end), each in zip(pairwise(range(512, 512 * (len(batches) + 2), 512)), batches, strict=True):
        made.add(1, offset, end, each)
    return made


def read(source: Recent, start: Position, max_lines: int = 100, max_bytes: int = MANY) -> tuple[list[bytes], Position]:
    piece = source.read(start, max_lines, max_bytes)
    if piece is None:
        return [], start
    assert piece.start == start
    return [record.payload for record in piece.records], piece.end


def test_a_reader_that_keeps_up_finds_all_of_it() -> None:
    source = recent(batch(b"1", b"2", b"3"), batch(b"4"), batch(b"5", b"6"))
    found, here = read(source, Position(1, 512, 0), 2)
    assert (found, here) == ([b"1", b"2"], Position(1, 512, 2))
    found, here = read(source, here, 3)
    assert (found, here) == ([b"3", b"4", b"5"], Position(1, 1536, 1))
    found, here = read(source, here)
    assert (found, here) == ([b"6"], Position(1, 2048, 0))
    source.add(1, 2048, 2560, batch(b"7"))
    assert read(source, here) == ([b"7"], Position(1, 2560, 0))


def test_what_is_not_here_is_on_disk() -> None:
    source = recent(batch(b"1"), batch(b"2"))
    assert source.read(Position(1, 100, 0), 100, MANY) is None
    assert source.read(Position(1, 1536, 0), 100, MANY) is None
    assert source.read(Position(1, 512, 0), 100, MANY) is None, "passed already"


def test_a_new_segment_is_entered_by_the_disk() -> None:
    """It may be that there is more in the old one: only the files tell."""
    source = recent(batch(b"1"))
    source.add(2, 512, 1024, batch(b"2"))
    assert read(source, Position(1, 512, 0)) == ([b"1"], Position(1, 1024, 0))
    assert source.read(Position(1, 1024, 0), 100, MANY) is None
    assert read(source, Position(2, 512, 0)) == ([b"2"], Position(2, 1024, 0))


def test_a_piece_is_no_larger_than_asked_for() -> None:
    source = recent(batch(b"x" * 500), batch(b"y" * 500))
    assert read(source, Position(1, 512, 0), max_bytes=800)[0] == [b"x" * 500]
    assert source.read(Position(1, 1024, 0), 100, 300) is None


def test_the_oldest_go_first_when_there_is_too_much() -> None:
    source = recent(*[batch(b"x" * 1000)] * 10, max_bytes=7000)
    assert source.read(Position(1, 512, 0), 100, MANY) is None
    found, _ = read(source, Position(1, 512 * 8, 0))
    assert found == [b"x" * 1000] * 3
