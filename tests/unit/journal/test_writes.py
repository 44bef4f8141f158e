"""Writes on their way to the disk: which of them share a batch, and that a batch says what its frame will say."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal import InvalidWrite, JournalOptions
from journal.format import Frame, decode_frame, decode_records
from journal.ids import IdSource
from journal.payloads import to_payloads
from journal.writes import Write, frame_batches, frame_sizes, lay_out, make_write

OPTIONS = JournalOptions()
SALT = 7


def writes_of(*contents: tuple[str, list[bytes], dict[str, str]]) -> list[Write]:
    ids = IdSource("a7")
    return [
        make_write(ids.take(len(lines), 1_794_700_799_123), jobtype, to_payloads(lines, OPTIONS), attributes, 1)
        for jobtype, lines, attributes in contents
    ]


def lines_of_batches(*contents: tuple[str, list[bytes], dict[str, str]]) -> list[int]:
    return [batch.lines for batch in lay_out(writes_of(*contents))]


def test_short_writes_of_a_kind_share_a_batch() -> None:
    assert lines_of_batches(("a-b", [b"1"], {}), ("a-b", [b"2", b"3"], {}), ("a-b", [b"4"], {})) == [4]


def test_writes_that_differ_do_not_share_one() -> None:
    assert lines_of_batches(("a-b", [b"1"], {}), ("a-c", [b"2"], {}), ("a-b", [b"3"], {})) == [1, 1, 1]
    assert lines_of_batches(("a-b", [b"1"], {}), ("a-b", [b"2"], {"priority": "1"})) == [1, 1]
    assert lines_of_batches(("a-b", [b"text"], {}), ("a-b", [b"\0"], {}), ("a-b", [b"\xff"], {})) == [1, 2]


def test_a_batch_of_several_writes_stays_small() -> None:
    """A damaged sector costs all lines of its batch."""
    batches = lay_out(writes_of(*[("a-b", [b"x" * 1000], {})] * 100))
    assert sum(batch.lines for batch in batches) == 100
    assert all(batch.lines > 1 and len(batch.body) < 20_000 for batch in batches)


def test_a_large_write_has_its_own() -> None:
    assert lines_of_batches(("a-b", [b"1"], {}), ("a-b", [b"x" * 30_000] * 3, {}), ("a-b", [b"2"], {})) == [1, 3, 1]


def test_the_attributes_of_a_write_are_those_of_its_moment() -> None:
    attributes = {"priority": "1"}
    (write,) = writes_of(("a-b", [b"x"], attributes))
    attributes["priority"] = "2"
    (record,) = lay_out([write])[0].records(0, 1)
    assert dict(record.attributes) == {"priority": "1"}


def noted(ids: IdSource, lines: list[bytes], notes: list[str]) -> Write:
    return make_write(ids.take(len(lines), 1), "a-b", to_payloads(lines, OPTIONS), {"priority": "1"}, 1, notes)


@pytest.mark.parametrize("payload", [b"x|y", b"\0|\n", b""])
def test_a_note_belongs_to_its_line(payload: bytes) -> None:
    ids = IdSource("a7")
    writes = [
        noted(ids, [payload] * 2, ["first note", "second"]),
        noted(ids, [payload], ["3"]),
        noted(ids, [payload], []),
    ]
    batches = lay_out(writes)
    assert [batch.lines for batch in batches] == [3, 1], "a write without notes has a batch of its own"
    data, at, found = frame_batches(batches, 512, SALT), 0, []
    for batch in batches:
        frame = decode_frame(data, at, 0, SALT)
        assert isinstance(frame, Frame)
        assert batch.records(1, 3) == decode_records(frame)[1:3]
        assert len(batch.body) == sum(write.size_bytes for write in batch.writes)
        found += decode_records(frame)
        at = frame.end
    assert [(record.note, record.payload) for record in found] == [
        (note, payload) for note in ("first note", "second", "3", "")
    ]
    assert {tuple(record.attributes.items()) for record in found} == {(("priority", "1"),)}


@pytest.mark.parametrize("notes", [["a"], ["a", ""], ["a", "b|c"], ["a\nb", "c"], ["a", "\u0660"], ["a", "b" * 221]])
def test_a_note_that_could_not_be_read_back_is_refused(notes: list[str]) -> None:
    with pytest.raises(InvalidWrite, match="a note of its own"):
        noted(IdSource("a7"), [b"x", b"y"], notes)


KINDS = st.tuples(
    st.sampled_from(["a-b", "a-c"]),
    st.lists(st.binary(max_size=40) | st.just(b"x" * 9000), min_size=1, max_size=5),
    st.sampled_from([{}, {"priority": "1"}]),
)


@given(st.lists(KINDS, min_size=1, max_size=12), st.integers(0, 60), st.integers(1, 60))
def test_what_a_batch_says_is_what_its_frame_says(
    contents: list[tuple[str, list[bytes], dict[str, str]]], begin: int, size: int
) -> None:
    writes = writes_of(*contents)
    batches = lay_out(writes)
    data = frame_batches(batches, 512, SALT)
    at = 0
    found = []
    ends = list(accumulate(frame_sizes(batches, 512)))
    for batch, end in zip(batches, ends, strict=True):
        frame = decode_frame(data, at, 0, SALT)
        assert isinstance(frame, Frame)
        assert frame.end == end
        records = decode_records(frame)
        assert batch.lines == len(records)
        assert batch.records(begin, min(begin + size, batch.lines)) == records[begin : begin + size]
        found += records
        at = end
    assert at == len(data)
    assert [(record.id, record.payload) for record in found] == [
        pair for write in writes for pair in zip(write.ids, write.payloads, strict=True)
    ]
    assert sum(len(batch.body) for batch in batches) == sum(write.size_bytes for write in writes)
