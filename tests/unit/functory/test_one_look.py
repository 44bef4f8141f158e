"""One look for many: who waits for it for how long, and what they get."""

import asyncio

import pytest

from functory.loops.one_look import PATIENCE_S, OneLook
from tests.support.virtual_time import run_in_virtual_time


class Store:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = asyncio.Event()

    async def look(self) -> str:
        self.asked += 1
        await self.answers.wait()
        return f"answer {self.asked}"


async def timed(looks: OneLook[str, str], store: Store, known: str | None) -> tuple[str, float]:
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    answer = await looks.ask("x", store.look, known=known)
    return answer, loop.time() - begun_s


def test_who_knows_an_answer_waits_for_a_look_as_long_as_one_may_last_and_no_longer() -> None:
    async def ask() -> None:
        looks: OneLook[str, str] = OneLook()
        store = Store()
        stranger = asyncio.ensure_future(looks.ask("x", store.look))
        await asyncio.sleep(PATIENCE_S / 2)
        assert await timed(looks, store, "older") == ("older", PATIENCE_S / 2), "counted from when it began"
        assert await timed(looks, store, "older") == ("older", 0), "nobody else waits for it"
        assert not stranger.done()
        store.answers.set()
        assert await stranger == "answer 1"
        assert await timed(looks, store, "older") == ("answer 2", 0)

    run_in_virtual_time(ask())


def test_a_look_that_nobody_waits_for_any_more_goes_on() -> None:
    async def ask() -> None:
        looks: OneLook[str, str] = OneLook()
        store = Store()
        assert (await timed(looks, store, "older"))[0] == "older"
        assert list(looks.under_way) == ["x"]
        store.answers.set()
        assert await timed(looks, store, "older") == ("answer 1", 0)
        assert not looks.under_way

    run_in_virtual_time(ask())


def test_what_went_wrong_is_told_to_who_knows_an_answer_as_well() -> None:
    async def fail() -> str:
        raise ValueError("no")

    async def ask() -> None:
        with pytest.raises(ValueError, match="no"):
            await OneLook[str, str]().ask("x", fail, known="older")

    run_in_virtual_time(ask())
