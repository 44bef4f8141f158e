"""How much begins in one turn of the event loop."""

import asyncio

from functory.loops.courtesy import SHORT_STEP
from functory.loops.turns import Turns


async def test_what_begins_in_a_turn_is_no_more_than_a_short_step() -> None:
    told: list[str] = []
    turns = Turns(lambda: told.append("next"))
    for size, most in [(SHORT_STEP, 1), (SHORT_STEP - 1, 1), (SHORT_STEP // 2, 1), (1, 4)]:
        begun = 0
        while turns.take(size):
            begun += 1
        assert begun == most, f"steps of {size} jobs"
        told.clear()
        await asyncio.sleep(0)
        assert told == ["next"]


async def test_a_step_that_is_larger_than_a_turn_has_one_for_itself() -> None:
    turns = Turns(lambda: None)
    assert turns.take(10 * SHORT_STEP)
    assert not turns.take(1)
    await asyncio.sleep(0)
    assert turns.take(1)
