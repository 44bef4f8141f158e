"""Room for bodies: bounded for a tenant and for all, given back, and never a dead end."""

import asyncio

from functory.web.http.body_room import BodyRoom


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
