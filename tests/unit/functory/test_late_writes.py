"""Lines of the job log: written whole and in order from a thread; a reader that stands still holds up nobody."""

import fcntl
import logging
import os
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.loops.late_writes import LateWrites, _pieces

PIPE_BYTES = 4096
Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """A pipe that is full after a page."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    yield reading, writing
    os.close(reading)
    os.close(writing)


def waiting_bytes(descriptor: int) -> int:
    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)


def read(descriptor: int, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += os.read(descriptor, size - len(found))
    return found


def test_lines_arrive_in_order(pipe: Pipe) -> None:
    reading, writing = pipe
    writes = LateWrites(writing)
    lines = [f"line {number}\n" for number in range(5000)]
    for line in lines:
        writes.write(line)
    assert read(reading, len("".join(lines))).decode() == "".join(lines)
    writes.close()


def test_a_file_gets_them_too(tmp_path: Path) -> None:
    with (tmp_path / "log").open("ab") as file:
        writes = LateWrites(file.fileno())
        writes.write("one\n")
        writes.write("two\n" * 10_000)
        writes.close(within_s=60)
    assert (tmp_path / "log").read_text() == "one\n" + "two\n" * 10_000


def test_a_reader_that_stands_still_costs_lines_and_holds_up_nobody(
    pipe: Pipe, caplog: pytest.LogCaptureFixture
) -> None:
    reading, writing = pipe
    os.write(writing, b"f" * PIPE_BYTES)
    writes = LateWrites(writing, most=10_000)
    for _ in range(20):
        writes.write("x" * 999 + "\n")  # returns, although nobody reads
    told = threading.Event()

    def tell(_: logging.LogRecord) -> bool:
        told.set()
        return True

    caplog.handler.addFilter(tell)
    with caplog.at_level(logging.WARNING, "functory.job_log"):
        assert read(reading, PIPE_BYTES + 10_000) == b"f" * PIPE_BYTES + (b"x" * 999 + b"\n") * 10
        assert told.wait(60)
    assert [(record.message, record.__dict__["lines"]) for record in caplog.records] == [("job_log.lines_left_out", 10)]
    writes.write("goes on\n")
    assert read(reading, 8) == b"goes on\n"
    writes.close()


def test_lines_of_others_on_the_same_pipe_do_not_come_in_between(pipe: Pipe) -> None:
    reading, writing = pipe
    writes = LateWrites(writing)
    ours, theirs = b"o" * 700 + b"\n", b"theirs\n"
    writes.write((ours * 100).decode())

    def write_theirs() -> None:
        for _ in range(50):
            os.write(writing, theirs)

    others = [threading.Thread(target=write_theirs) for _ in range(2)]
    while waiting_bytes(reading) < len(ours):  # no event tells that its thread has begun
        time.sleep(0.001)
    for other in others:
        other.start()
    found = read(reading, 100 * len(ours) + 100 * len(theirs))
    for other in others:
        other.join()
    writes.close()
    assert sorted(set(found.splitlines(keepends=True))) == [ours, theirs]


def test_close_does_not_wait_for_a_reader_that_stands_still(pipe: Pipe) -> None:
    writes = LateWrites(pipe[1])
    writes.write("x\n" * PIPE_BYTES)
    writes.close(within_s=0.01)
    assert read(pipe[0], 2 * PIPE_BYTES) == b"x\n" * PIPE_BYTES  # the thread ends when it is read


def test_close_writes_what_came_while_others_were_written(pipe: Pipe) -> None:
    reading, writing = pipe
    writes = LateWrites(writing)
    writes.write("x\n" * PIPE_BYTES)
    assert read(reading, 2) == b"x\n"  # it is writing
    writes.write("last\n")
    closing = threading.Thread(target=writes.close, args=(60,))
    closing.start()
    assert read(reading, 2 * PIPE_BYTES + 3).endswith(b"x\nlast\n")
    closing.join()


def test_a_log_that_nobody_can_read_any_more_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    reading, writing = os.pipe()
    writes = LateWrites(writing)
    os.close(reading)
    writes.write("gone\n" * 2000)
    writes.close(within_s=60)
    os.close(writing)
    assert [record.__dict__["lines"] for record in caplog.records] == [2000]


def test_a_descriptor_that_does_not_block_loses_nothing(pipe: Pipe) -> None:
    reading, writing = pipe
    os.set_blocking(writing, False)
    writes = LateWrites(writing)
    writes.write("x\n" * PIPE_BYTES)
    assert read(reading, 2 * PIPE_BYTES) == b"x\n" * PIPE_BYTES
    writes.close()


@given(st.lists(st.binary(max_size=9000).map(lambda line: line.replace(b"\n", b"") + b"\n"), max_size=30))
def test_pieces_are_whole_lines_that_the_kernel_does_not_divide(lines: list[bytes]) -> None:
    text = b"".join(lines)
    pieces = list(_pieces(text))
    assert b"".join(pieces) == text
    for piece in pieces:
        assert piece.endswith(b"\n")
        assert len(piece) <= PIPE_BYTES or piece.count(b"\n") == 1
