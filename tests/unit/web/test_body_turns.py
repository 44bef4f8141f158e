"""Items that take long get a turn of the event loop each, however few and small they are."""

import asyncio

import pytest

from functory.web.http.turns import SLICE_S, Turns


@pytest.mark.parametrize(("item_s", "most"), [(SLICE_S, 1), (SLICE_S / 10, 10), (0.0, 100)])
async def test_a_slice_ends_by_its_time(item_s: float, most: int) -> None:
    now_s = [0.0]
    rounds = [0]

    async def others() -> None:
        while True:
            rounds.append(0)
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    async for _ in Turns(lambda: now_s[0]).slices([b"x"] * 100):
        rounds[-1] += 1
        now_s[0] += item_s
    other.cancel()
    assert max(rounds) == pytest.approx(most, abs=1)
