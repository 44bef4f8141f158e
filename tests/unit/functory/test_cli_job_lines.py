"""`functory job add` sends the lines of standard input while it reads them, in requests of bounded size."""

import pytest

from functory.cli import job_adding as jobs
from functory.cli import standard_input
from tests.support.terminal import given_input


async def sent(data: bytes) -> list[list[bytes]]:
    async with given_input(data):
        return [list(batch) async for batch in jobs._batches([])]


async def test_every_line_is_sent_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standard_input, "_BYTES_A_READ", 50)
    lines = [b"line %d" % number for number in range(2500)]
    batches = await sent(b"\n".join(lines))
    assert [len(batch) for batch in batches] == [1000, 1000, 500]
    assert [line for batch in batches for line in batch] == lines


async def test_blank_lines_and_comments_are_left_out() -> None:
    assert await sent(b"a\n\n#b\n \n c \r\n") == [[b"a", b" c "]]
    assert await sent(b"") == []


async def test_lines_are_bytes() -> None:
    assert await sent(b"a\xffb\nc\xe2\x80\xa8d") == [[b"a\xffb", b"c\xe2\x80\xa8d"]]


async def test_payloads_of_the_command_line_are_sent_without_reading_input() -> None:
    assert [list(batch) async for batch in jobs._batches([b"#1", b""])] == [[b"#1", b""]]
