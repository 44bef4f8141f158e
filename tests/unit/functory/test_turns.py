"""Large bodies take turns, so that something else is served between two of them."""

import asyncio
import itertools

from functory.web.http.turns import LARGE_BYTES, Turns


async def test_between_two_large_bodies_others_have_a_round() -> None:
    turns = Turns()
    story: list[str] = []

    async def large(name: str) -> None:
        await turns.take(LARGE_BYTES + 1)
        story.append(name)

    async def ticking() -> None:
        while len([it for it in story if it != "tick"]) < 3:
            story.append("tick")
            await asyncio.sleep(0)

    await asyncio.gather(large("a"), large("b"), large("c"), ticking())
    at = [story.index(name) for name in "abc"]
    assert at == sorted(at), "in the order in which they came"
    assert all("tick" in story[first:second] for first, second in itertools.pairwise(at)), story


async def test_a_small_body_waits_for_nobody() -> None:
    turns = Turns()
    story: list[str] = []

    async def of(name: str, size_bytes: int) -> None:
        await turns.take(size_bytes)
        story.append(name)

    await asyncio.gather(of("large", LARGE_BYTES + 1), of("small", LARGE_BYTES))
    assert story == ["small", "large"]
