"""Many lines are looked at in parts: the same is found out about them, and nobody waits for more than a part."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from journal import InvalidWrite, JournalError, JournalOptions, LimitExceeded
from journal import payloads as module
from journal.payloads import Lines, to_payloads, to_payloads_in_parts

OPTIONS = JournalOptions(max_payload_bytes=40, max_batch_bytes=200, max_batch_lines=30)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_LINES", 4)
    monkeypatch.setattr(module, "PART_BYTES", 12)


@pytest.mark.parametrize(
    "lines",
    [
        [b"x"],
        [b"x"] * 30,
        ["text", b"bytes", "é"] * 5,
        [b"x"] * 20 + [b"a\nb"],
        [b"\0", *[b"x"] * 20],
        [*[b"x"] * 9, b"\xff", *[b"x"] * 9],
        ["é".encode()[:1], "é".encode()[1:]] * 5,
        [b"", b"y" * 40, *[b""] * 7, b"y" * 40, b"z" * 13],
        (b"x",) * 9,
    ],
)
async def test_in_parts_the_same_is_found_out(lines: Lines) -> None:
    assert await to_payloads_in_parts(lines, OPTIONS) == to_payloads(lines, OPTIONS)


@pytest.mark.parametrize(
    ("lines", "refusal"),
    [
        ([b"x"] * 31, LimitExceeded),
        ([*[b"x"] * 20, b"y" * 41], LimitExceeded),
        ([b"y" * 41, *[b"x"] * 20], LimitExceeded),
        ([b"y" * 39] * 6, LimitExceeded),
        ([], InvalidWrite),
        ("text", InvalidWrite),
        ([*[b"x"] * 9, 1], InvalidWrite),
    ],
)
async def test_in_parts_the_same_is_refused(lines: Lines, refusal: type[JournalError]) -> None:
    with pytest.raises(refusal) as at_once:
        to_payloads(lines, OPTIONS)
    with pytest.raises(refusal) as in_parts:
        await to_payloads_in_parts(lines, OPTIONS)
    assert str(in_parts.value) == str(at_once.value)


@pytest.mark.parametrize("line", [b"x", b"xxxxx", b"x" * 30, b"\xff", b"\xff" * 30])
async def test_in_a_round_of_the_loop_one_part_is_looked_at(monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    """A part is a few lines, and one line if that is large. Two things are found out about lines that are no text."""
    now, looked = [0], Counter[tuple[str, int]]()

    def count(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def counted(lines: list[bytes], *more: int) -> Any:
            assert len(lines) == 1 or (len(lines) <= 4 and sum(map(len, lines)) <= 12)
            looked[name, now[0]] += 1
            return real(lines, *more)

        return counted

    for name in ("_look_at", "_encoded_bytes"):
        monkeypatch.setattr(module, name, count(name, getattr(module, name)))

    async def others() -> None:
        while True:
            now[0] += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    await to_payloads_in_parts([line] * 30, JournalOptions())
    other.cancel()
    assert len(looked) >= 8
    assert set(looked.values()) == {1}
