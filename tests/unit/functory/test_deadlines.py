"""Deadlines that share a timer: each is kept, whatever the others are, and who has an answer keeps it."""

import asyncio

from functory.loops.deadlines import Deadlines


async def test_each_is_told_at_its_time_whatever_order_they_came_in() -> None:
    deadlines, loop, order = Deadlines[str](), asyncio.get_running_loop(), list[str]()
    now_s = loop.time()
    waiting: list[asyncio.Future[str]] = []
    for name, after_s in (("later", 0.03), ("last", 0.05), ("first", 0.01)):
        told = loop.create_future()
        told.add_done_callback(lambda it: order.append(it.result()))
        deadlines.add(now_s + after_s, told, name)
        waiting.append(told)
    assert await asyncio.gather(*waiting) == ["later", "last", "first"]
    assert loop.time() >= now_s + 0.05 - 0.001
    assert order == ["first", "later", "last"]


async def test_who_has_an_answer_or_has_left_is_told_nothing() -> None:
    deadlines, loop = Deadlines[bool](), asyncio.get_running_loop()
    answered, left, waits = (loop.create_future() for _ in range(3))
    for told in (answered, left, waits):
        deadlines.add(loop.time(), told, False)
    answered.set_result(True)
    left.cancel()
    assert await waits is False
    assert answered.result() is True
    assert left.cancelled()


async def test_those_that_have_their_answer_do_not_pile_up_behind_one_that_waits() -> None:
    deadlines, loop = Deadlines[bool](), asyncio.get_running_loop()
    waits = loop.create_future()
    deadlines.add(loop.time() + 1000, waits, False)
    for _ in range(10_000):
        told = loop.create_future()
        deadlines.add(loop.time() + 2000, told, False)
        told.set_result(True)
    assert len(deadlines._waiting) < 3000
    deadlines.close()
    assert not waits.done()
