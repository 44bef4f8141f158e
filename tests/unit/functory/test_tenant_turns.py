"""Turns by tenant: one that asks for many stands before nobody."""

import asyncio

from functory.loops.tenant_turns import TenantTurns


async def test_a_tenant_that_asks_for_many_stands_before_nobody() -> None:
    turns = TenantTurns(asyncio.Semaphore(1), of_one=1)
    order: list[str] = []

    async def take(tenant: str) -> None:
        async with turns.of(tenant):
            order.append(tenant)
            await asyncio.sleep(0)

    await asyncio.gather(*(take("loud") for _ in range(10)), take("quiet"))
    assert order.index("quiet") == 1
    assert len(order) == 11
    assert not turns._tenants


async def test_one_that_gives_up_leaves_its_turn() -> None:
    turns = TenantTurns(asyncio.Semaphore(1), of_one=1)
    async with turns.of("acme"):
        waits = asyncio.create_task(_pass(turns))
        await asyncio.sleep(0)
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)
    await _pass(turns)
    assert not turns._tenants


async def _pass(turns: TenantTurns) -> None:
    async with turns.of("acme"):
        pass
