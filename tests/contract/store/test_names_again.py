"""Between any two steps of whoever removes what is under a name the name is given again: what the new tenant has stays,
or all of it goes."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from store.base import ApiKey, NewHandler, Store, Tenant
from store.errors import Conflict
from tests.support.jobs import JOBTYPE, T0, TENANT, new_jobs
from tests.support.turns import interleave, open_pair

NEW = Tenant(TENANT, T0, weight=7)
Removal = Callable[[Store], Awaitable[object]]


async def make(number: int, store: Store) -> bool:
    """A tenant with something of most kinds; False if the name is taken."""
    try:
        await store.create_tenant(NEW)
    except Conflict:
        return False
    await store.add_key(ApiKey(f"new-{number}", TENANT, b"hash", ("read",), T0))
    await store.add_jobs(new_jobs(3, 10 * number), now_ms=T0)
    await store.set_handler(TENANT, NewHandler(JOBTYPE, "sh", b"true", T0))
    await store.put_once(TENANT, "k", b"new", expires_ms=T0 + 9, now_ms=T0)
    return True


async def belongings(number: int, store: Store) -> list[bool]:
    return [
        await store.get_tenant(TENANT) == NEW,
        [key.key_id for key in await store.list_keys(TENANT)] == [f"new-{number}"],
        (await store.get_usage(TENANT)).jobs == 3,
        await store.get_handler(TENANT, JOBTYPE) is not None,
        await store.get_once(TENANT, "k", now_ms=T0) == b"new",
        [row.waiting for row in await store.get_counters(TENANT, now_ms=T0)] == [3],
    ]


async def delete(store: Store) -> None:
    while (await store.delete_tenant(TENANT)).more:
        pass


async def remove_leftovers(store: Store) -> object:
    return await store.delete_tenant(TENANT, only_leftovers=True)


async def go_on_deleting(store: Store) -> object:
    return await store.delete_tenant(TENANT, only_deleting=True)


async def delete_in_a_step(store: Store) -> object:
    return await store.delete_tenant(TENANT)


async def count_steps(store: Store) -> int:
    """How many it takes until only the record of an old tenant is left."""
    await make_old(0, store)
    steps = 0
    while (await store.delete_tenant(TENANT, limit=1)).more:
        steps += 1
    return steps


async def make_old(number: int, store: Store) -> None:
    await store.create_tenant(NEW._replace(weight=1))
    await store.add_jobs(new_jobs(1, number), now_ms=T0)


async def replace(number: int, store: Store) -> bool:
    """Another daemon brings the deletion to its end, and somebody creates a tenant of the name."""
    await delete(store)
    return await make(number, store)


@pytest.mark.parametrize("between", [make, replace])
@pytest.mark.parametrize("removal", [remove_leftovers, go_on_deleting, delete_in_a_step])
async def test_who_removes_late_leaves_the_next_tenant_of_the_name_alone(
    store_url: str, removal: Removal, between: Callable[[int, Store], Awaitable[bool]]
) -> None:
    async with open_pair(store_url) as pair:
        store, stop_at, was_stopped = pair.other, 0, True
        steps = await count_steps(store)
        while was_stopped:
            stop_at += 1
            if removal is go_on_deleting and between is replace:
                await make_old(10 * stop_at + 9, store)
                for _ in range(steps):
                    assert (await store.delete_tenant(TENANT, limit=1)).more
            elif removal is delete_in_a_step and between is replace:
                await store.create_tenant(NEW._replace(weight=1))
                await store.add_key(ApiKey(f"old-{stop_at}", TENANT, b"hash", ("read",), T0))
            _, is_made, was_stopped = await interleave(pair, removal, partial(between, stop_at), stop_at)
            has = await belongings(stop_at, store)
            if is_made and removal is not delete_in_a_step:
                assert all(has), f"before step {stop_at}: {has}"
            else:
                assert all(has) or not any(has), f"before step {stop_at}: {has}"
            await delete(store)
            assert not any(await belongings(stop_at, store))
        assert stop_at > 1


@pytest.mark.parametrize("only_deleting", [False, True])
async def test_a_removal_that_was_interrupted_is_completed(store: Store, only_deleting: bool) -> None:
    await store.add_jobs(new_jobs(5), now_ms=T0)
    assert (await store.delete_tenant(TENANT, limit=2, only_leftovers=True)).more
    while (await store.delete_tenant(TENANT, only_leftovers=not only_deleting, only_deleting=only_deleting)).more:
        pass
    assert await make(1, store)


async def test_a_tenant_that_nobody_deletes_is_left_alone(store: Store) -> None:
    assert await make(1, store)
    assert await store.delete_tenant(TENANT, only_deleting=True) == (0, False)
    assert all(await belongings(1, store))
    assert (await store.delete_tenant(TENANT, limit=1)).more
    while (await store.delete_tenant(TENANT, only_deleting=True)).more:
        pass
    assert not any(await belongings(1, store))
