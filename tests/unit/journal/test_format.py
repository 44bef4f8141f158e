"""The text format: what it looks like, what it refuses, what damage does to it."""

from zlib import crc32

import pytest

from journal import InvalidWrite, JournalOptions, LimitExceeded, UnsupportedFormat
from journal.format import (
    BODY_LIMIT,
    HEADER_LIMIT,
    SECTOR_BYTES,
    Frame,
    SegmentHeader,
    decode_frame,
    decode_records,
    decode_segment_header,
    encode_segment_header,
)
from journal.ids import IdRange
from journal.payloads import to_payloads
from journal.writes import Batch, check_jobtype, frame_batches, lay_out, make_write

OPTIONS = JournalOptions()
NOW_MS = 1_794_700_799_123
HEADER = SegmentHeader(17, "2026-11-14T23:59:59.123Z", "a7", 0x1234ABCD, NOW_MS, 16, 4096)


def batch_of(*payloads: bytes, jobtype: str = "acme-resize", **attributes: str) -> Batch:
    ids = IdRange(b"20261114T235959123Z-a7-", 0, len(payloads))
    (batch,) = lay_out([make_write(ids, jobtype, to_payloads(payloads, OPTIONS), attributes, NOW_MS)])
    return batch


def test_a_frame_reads_as_text() -> None:
    data = frame_batches([batch_of(b"first", b"a|b", priority="500")], sync=512, salt=7)
    head, first, second, end = data.decode().splitlines()
    assert head.startswith(
        "#:Batch date=2026-11-14T23:59:59.123Z,bytes=94,lines=2,jobtype=acme-resize,priority=500,pad="
    )
    assert first == "20261114T235959123Z-a7-000000|acme-resize|first"
    assert second == "20261114T235959123Z-a7-000001|acme-resize|a|b"
    assert end.rstrip() == "#:EndBatch"


def test_the_frames_of_a_sync_end_with_a_sector() -> None:
    for count in range(1, 40):
        data = frame_batches([batch_of(b"x" * count), batch_of(b"y")], sync=1024, salt=7)
        assert len(data) % SECTOR_BYTES == 0
        first = decode_frame(data, 0, 1024, 7)
        assert isinstance(first, Frame)
        second = decode_frame(data, first.end - 1024, 1024, 7)
        assert isinstance(second, Frame)
        assert (first.sync, second.sync, second.end) == (1024, 1024, 1024 + len(data))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"a\nb",
        b"\r\n",
        b"\0",
        b"|",
        b"#:EndBatch\n#:Batch ",
        b"\xff\xfe",
        "\ud800".encode("utf-8", "surrogatepass"),
    ],
)
def test_any_payload_survives_in_one_line(payload: bytes) -> None:
    data = frame_batches([batch_of(payload, b"plain")], 0, 7)
    assert data.count(b"\n") == 4
    frame = decode_frame(data, 0, 0, 7)
    assert isinstance(frame, Frame)
    assert [record.payload for record in decode_records(frame)] == [payload, b"plain"]


def test_text_stays_readable_and_binary_is_marked() -> None:
    assert b",enc=b64" not in batch_of("grüße".encode()).head
    assert b",enc=b64" in batch_of(b"\xff").head


def test_attributes_survive_whatever_they_hold() -> None:
    attributes = {"dt": "2026-11-14T00:00:00Z", "key": "a,b=c\n#:Batch %", "name": "grüße\ud800", "empty": ""}
    frame = decode_frame(frame_batches([batch_of(b"x", **attributes)], 0, 7), 0, 0, 7)
    assert isinstance(frame, Frame)
    assert dict(frame.attributes) == attributes


@pytest.mark.parametrize("name", ["crc", "sync", "pad", "Upper", "", "a,b", "a" * 33, "a=b"])
def test_a_bad_attribute_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidWrite, match="attribute"):
        batch_of(b"x", **{name: "1"})


def test_a_frame_of_another_segment_is_not_believed() -> None:
    data = frame_batches([batch_of(b"x")], 0, salt=7)
    assert decode_frame(data, 0, 0, salt=8) is None


def test_a_frame_that_is_cut_asks_for_the_rest() -> None:
    data = frame_batches([batch_of(b"x" * 2000)], 0, 7)
    assert decode_frame(data[:300], 0, 0, 7) == len(data)
    assert decode_frame(data[:20], 0, 0, 7) == 4096


@pytest.mark.parametrize(
    "jobtype",
    [
        "",
        "acme",
        "acme-",
        "-x",
        "Acme-x",
        "ac me-x",
        "acme-x|y",
        "acme-x,y",
        "acme-x\n",
        "acme-é",
        "acme--x",
        "acme-x\0",
        33 * "a" + "-x",
        "acme-" + 128 * "x",
    ],
)
def test_a_bad_jobtype_is_refused(jobtype: str) -> None:
    with pytest.raises(InvalidWrite, match="jobtype"):
        check_jobtype(jobtype)


@pytest.mark.parametrize("jobtype", ["a-b", "acme_1-resize.v2:big-one", "0" * 32 + "-" + "Z" * 127])
def test_a_good_jobtype_is_taken(jobtype: str) -> None:
    check_jobtype(jobtype)


def test_limits_are_named() -> None:
    small = JournalOptions(max_payload_bytes=10, max_batch_lines=3, max_batch_bytes=29)
    with pytest.raises(LimitExceeded, match="max_payload_bytes=10"):
        to_payloads([b"x" * 11], small)
    with pytest.raises(LimitExceeded, match="max_batch_lines=3"):
        to_payloads(["x"] * 4, small)
    with pytest.raises(LimitExceeded, match="max_batch_bytes=29"):
        to_payloads(["x" * 10] * 3, small)
    with pytest.raises(LimitExceeded, match="attributes"):
        batch_of(b"x", a="y" * 4000)


def test_the_largest_write_is_no_larger_than_a_reader_takes() -> None:
    prefix, jobtype = "20261114T235959123Z-zzzzzzzz-", "t" * 32 + "-" + "x" * 127
    line_bytes = len(f"{prefix}000000|{jobtype}|\n") + 4  # base64 fills up a group of four
    body_bytes = OPTIONS.max_batch_bytes * 4 // 3 + OPTIONS.max_batch_lines * line_bytes
    assert HEADER_LIMIT + body_bytes + 2 * SECTOR_BYTES <= BODY_LIMIT


@pytest.mark.parametrize("lines", ["abc", b"abc", []])
def test_lines_must_be_a_list_of_lines(lines: list[str]) -> None:
    with pytest.raises(InvalidWrite, match="line"):
        to_payloads(lines, OPTIONS)


def test_a_line_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidWrite, match="str or bytes"):
        to_payloads([1], OPTIONS)  # type: ignore[arg-type]  # what the types forbid, an untyped caller can do


def test_the_segment_header_fills_one_sector_and_survives() -> None:
    data = encode_segment_header(HEADER)
    assert len(data) == SECTOR_BYTES
    assert data.startswith(b"#:Journal version=2,segment=17,")
    assert decode_segment_header(data) == HEADER


def test_a_damaged_segment_header_is_noticed_in_every_bit() -> None:
    data = encode_segment_header(HEADER)
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert decode_segment_header(bytes(damaged)) is None


def test_the_version_before_is_read() -> None:
    text = encode_segment_header(HEADER).partition(b",crc=")[0].replace(b"version=2", b"version=1")
    data = (b"%b,crc=%08x" % (text, crc32(text))).ljust(SECTOR_BYTES - 1) + b"\n"
    assert decode_segment_header(data) == HEADER


def test_a_newer_format_is_refused_with_advice() -> None:
    text = b"#:Journal version=3,whatever=it says"
    data = b"%b,crc=%08x  \n" % (text, crc32(text))
    with pytest.raises(UnsupportedFormat, match="upgrade"):
        decode_segment_header(data)
