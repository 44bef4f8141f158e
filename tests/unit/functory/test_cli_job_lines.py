"""`functory job add` sends the lines of standard input while it reads them, in requests of bounded size."""

import io
import sys

import pytest

from functory.cli import job_adding as jobs


async def sent(text: str, monkeypatch: pytest.MonkeyPatch) -> list[list[str | bytes]]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))
    return [list(batch) async for batch in jobs._batches([])]


async def test_every_line_is_sent_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_BYTES_A_READ", 50)
    lines = [f"line {number}" for number in range(2500)]
    batches = await sent("\n".join(lines), monkeypatch)
    assert [len(batch) for batch in batches] == [1000, 1000, 500]
    assert [line for batch in batches for line in batch] == lines


async def test_blank_lines_and_comments_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await sent("a\n\n#b\n \n c \r\n", monkeypatch) == [["a", " c "]]
    assert await sent("", monkeypatch) == []


async def test_payloads_of_the_command_line_are_sent_without_reading_input() -> None:
    assert [list(batch) async for batch in jobs._batches(["#1", ""])] == [["#1", ""]]
