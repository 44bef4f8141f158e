"""A large body becomes lines in slices: the same lines, and others have their turn between two slices."""

import asyncio

import pytest

from functory.web.api import submission
from functory.web.api.submission import split_lines, split_many
from functory.web.http.turns import SLICE_BYTES, Turns
from journal import LimitExceeded

MANY = 1_000_000


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n",
        b"one",
        b"one\ntwo\n\n#three\n",
        b"x\n" * 200,
        b"#x\n\n" * 200 + b"y",
        b"x" * 500 + b"\n" + b"y" * 10 + b"\n" + b"z" * 500,
        b"x\n" * 50 + b"#" * 500 + b"\n" + b"y#\n" * 50,
    ],
)
async def test_in_slices_the_lines_are_the_same(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    monkeypatch.setattr(submission, "SPLIT_BYTES", 16)
    assert await split_many(body, MANY, Turns()) == split_lines(body, MANY)


async def test_too_many_lines_are_counted_in_all_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "SPLIT_BYTES", 16)
    with pytest.raises(LimitExceeded) as refused:
        await split_many(b"x\n" * 100, 99, Turns())
    assert "100" in str(refused.value)


async def test_in_a_round_of_the_loop_one_slice_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    split = [0]

    def count(piece: bytes, max_jobs: int) -> list[bytes]:
        split[-1] += len(piece)
        return split_lines(piece, max_jobs)

    async def others() -> None:
        while True:
            split.append(0)
            await asyncio.sleep(0)

    monkeypatch.setattr(submission, "split_lines", count)
    other = asyncio.create_task(others())
    await split_many(b"x" * 99 + b"\n" + b"y\n" * MANY, 2 * MANY, Turns())
    other.cancel()
    assert sum(split) == 100 + 2 * MANY
    assert max(split) <= SLICE_BYTES + 100
