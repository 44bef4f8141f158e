"""The line in front of the SQLite writer."""

import hypothesis.strategies as st
from hypothesis import given

from store.sqlite.file.writer_queue import MOST_PASSED, WriterQueue


def taken(line: WriterQueue[str]) -> list[str]:
    found = []
    while (operation := line.take_now()) is not None:
        found.append(operation)
    return found


def test_short_operations_pass_bulk_ones() -> None:
    line: WriterQueue[str] = WriterQueue()
    for name in ("B1", "B2", "s1", "s2"):
        line.put(name, bulk=name.startswith("B"))
    assert line.take() == "s1"
    line.put("s3", bulk=False)
    assert [line.take_now(short_only=True) for _ in range(3)] == ["s2", "s3", None]
    assert taken(line) == ["B1", "B2"]


def test_bulk_has_its_turn_however_many_short_ones_come() -> None:
    line: WriterQueue[str] = WriterQueue()
    for name in ("B1", "B2"):
        line.put(name, bulk=True)
    order = []
    for number in range(3 * MOST_PASSED):
        line.put(f"s{number}", bulk=False)
        order.append(line.take())
    assert [order.index(name) for name in ("B1", "B2")] == [MOST_PASSED, 2 * MOST_PASSED + 1]


@given(st.lists(st.booleans(), max_size=300))
def test_nothing_is_lost_and_each_kind_keeps_its_order(kinds: list[bool]) -> None:
    line: WriterQueue[tuple[int, bool]] = WriterQueue()
    put = list(enumerate(kinds))
    for operation in put:
        line.put(operation, bulk=operation[1])
    got = [line.take() for _ in put]
    assert line.take_now() is None
    for kind in (True, False):
        assert [each for each in got if each[1] is kind] == [each for each in put if each[1] is kind]
