"""Room for bodies: bounded for a tenant and for all, given back, and never a dead end."""

import asyncio

from functory.web.http.body_room import BodyRoom
from tests.support.loop_steps import watched_steps


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_tenant_waits_for_its_own_bodies_and_not_for_those_of_others() -> None:
    room = BodyRoom(in_all_bytes=100, of_one_bytes=30, free_bytes=1)
    inside: list[str] = []
    go_on = asyncio.Event()

    async def read(tenant: str, size_bytes: int) -> None:
        async with room.of(tenant, size_bytes):
            inside.append(tenant)
            await go_on.wait()

    tasks = [asyncio.create_task(read("loud", 15)) for _ in range(5)]
    await settle()
    assert inside == ["loud", "loud"]
    tasks.append(asyncio.create_task(read("quiet", 30)))
    await settle()
    assert inside == ["loud", "loud", "quiet"]
    go_on.set()
    await asyncio.gather(*tasks)
    assert len(inside) == 6


async def test_all_together_are_bounded() -> None:
    room = BodyRoom(in_all_bytes=50, of_one_bytes=30, free_bytes=1)
    async with room.of("a", 30):
        second = asyncio.create_task(_pass(room, "b", 30))
        await settle()
        assert not second.done()
        async with room.of("c", 1):
            pass
    await second


async def test_tenants_that_have_much_under_way_leave_room_for_one_that_has_nothing() -> None:
    """Their bodies may come as slowly as they like."""
    room, never = BodyRoom(in_all_bytes=100, of_one_bytes=50, free_bytes=1), asyncio.Event()
    slow = [
        asyncio.create_task(_pass(room, tenant, size_bytes, never))
        for tenant in ("a", "b")
        for size_bytes in (30, *[10] * 9)
    ]
    await settle()
    async with asyncio.timeout(10):
        await _pass(room, "quiet", 20)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_a_tenant_that_has_nothing_under_way_is_before_those_that_have() -> None:
    room = BodyRoom(in_all_bytes=100, of_one_bytes=60, free_bytes=1)
    ends = [asyncio.Event() for _ in range(3)]
    async with asyncio.TaskGroup() as bodies:
        for tenant, end in zip("aab", ends, strict=True):
            bodies.create_task(_pass(room, tenant, 26, end))
        await settle()
        again = bodies.create_task(_pass(room, "a", 26))
        await settle()
        quiet = bodies.create_task(_pass(room, "quiet", 40, asyncio.Event()))
        await settle()
        assert not quiet.done()
        ends[0].set()
        await settle()
        assert room._taken["quiet"] == 40
        assert not again.done(), "it came first, and its tenant has another body under way"
        quiet.cancel()
        ends[1].set()
        ends[2].set()


async def test_who_stood_back_for_one_that_gives_up_goes_on() -> None:
    room = BodyRoom(in_all_bytes=100, of_one_bytes=60, free_bytes=1)
    async with room.of("a", 30), room.of("b", 30), asyncio.timeout(10):
        first = asyncio.create_task(_pass(room, "quiet", 60))
        await settle()
        second = asyncio.create_task(_pass(room, "a", 20))
        await settle()
        assert not second.done()
        first.cancel()
        await second


async def test_what_is_larger_than_all_room_is_read_alone() -> None:
    room = BodyRoom(in_all_bytes=50, of_one_bytes=30, free_bytes=1)
    async with asyncio.timeout(10):
        await asyncio.gather(*(_pass(room, "a", 1000) for _ in range(3)))


async def test_who_gives_up_leaves_nothing_behind() -> None:
    room = BodyRoom(in_all_bytes=50, of_one_bytes=30, free_bytes=1)
    async with room.of("a", 30):
        waiting = asyncio.create_task(_pass(room, "a", 30))
        await settle()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(10):
        await _pass(room, "a", 30)


async def _pass(room: BodyRoom, tenant: str, size_bytes: int, end: asyncio.Event | None = None) -> None:
    async with room.of(tenant, size_bytes):
        await (asyncio.sleep(0) if end is None else end.wait())


async def test_a_tenant_whose_own_bodies_wait_is_not_before_one_that_has_had_none() -> None:
    """However long theirs have waited: each time one of theirs ends, its tenant has none under way for a moment."""
    room = BodyRoom(in_all_bytes=40, of_one_bytes=20, free_bytes=1)
    ends = {tenant: asyncio.Event() for tenant in "ab"}
    slow = [asyncio.create_task(_pass(room, tenant, 16, ends[tenant])) for tenant in "ab"]
    slow += [asyncio.create_task(_pass(room, tenant, 16, asyncio.Event())) for tenant in "ab" * 3]
    await settle()
    quiet = asyncio.create_task(_pass(room, "quiet", 16))
    await settle()
    assert not quiet.done()
    ends["a"].set()
    async with asyncio.timeout(10):
        await quiet
    await _end(slow)


async def test_tenants_that_take_turns_keep_out_nobody_who_needs_more_room() -> None:
    """Those whose body has ended post the next one at once, and it would fit."""
    room = BodyRoom(in_all_bytes=40, of_one_bytes=20, free_bytes=1)
    ends = [asyncio.Event() for _ in range(3)]
    slow = [asyncio.create_task(_pass(room, *slow)) for slow in zip("abc", (13, 13, 13), ends, strict=True)]
    await settle()
    quiet = asyncio.create_task(_pass(room, "quiet", 16))
    await settle()
    for tenant, end in zip("abc", ends, strict=True):
        end.set()
        await settle()
        slow.append(asyncio.create_task(_pass(room, tenant, 13, asyncio.Event())))
        await settle()
    async with asyncio.timeout(10):
        await quiet
    await _end(slow)


async def test_who_needs_little_passes_one_that_waits_for_much() -> None:
    room = BodyRoom(in_all_bytes=40, of_one_bytes=20, free_bytes=1)
    async with room.of("a", 16), room.of("b", 16), asyncio.timeout(10):
        waiting = asyncio.create_task(_pass(room, "much", 16))
        await settle()
        await _pass(room, "little", 8)
        assert not waiting.done()
    await waiting


async def test_those_who_get_no_room_are_not_woken_when_some_is_given_back() -> None:
    """A tenant may have a thousand that wait, while another posts one after the other."""
    room = BodyRoom(in_all_bytes=100, of_one_bytes=30, free_bytes=1)
    loud = [asyncio.create_task(_pass(room, "loud", 20, asyncio.Event())) for _ in range(200)]
    await settle()
    with watched_steps() as steps:
        for _ in range(3):
            await _pass(room, "quiet", 10)
        loud[-1].cancel()
        await settle()
    assert steps.count < 50
    await _end(loud)


async def test_who_is_stopped_while_it_leaves_leaves_its_room_to_who_waits() -> None:
    room = BodyRoom(in_all_bytes=40, of_one_bytes=40, free_bytes=1)
    end, stay = asyncio.Event(), asyncio.Event()
    leaving = asyncio.create_task(_pass(room, "a", 30, end))
    await settle()
    loud = [asyncio.create_task(_pass(room, "loud", 40, stay)) for _ in range(3)]
    await settle()
    loud[0].cancel()
    end.set()
    await asyncio.sleep(0)
    leaving.cancel()
    loud[1].cancel()
    async with asyncio.timeout(10):
        await settle()
        assert room._taken["loud"] == 40
    stay.set()
    await asyncio.gather(leaving, *loud, return_exceptions=True)
    assert not room._taken.total()


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
