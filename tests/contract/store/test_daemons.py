"""Sysids: unique, short, lapsing, never given twice."""

import asyncio
import re

import pytest

from store.base import Store
from store.errors import InvalidValue, NotFound
from store.names import FORGOTTEN_AFTER_MS, NEWEST_DAEMONS
from store.url import open_store
from tests.support.jobs import T0


async def test_sysids_are_short_unique_and_never_reused(store: Store, store_url: str) -> None:
    seen: list[str] = []
    async with open_store(store_url) as other:
        for n in range(40):
            daemon = await (store, other)[n % 2].reserve_sysid(info="", lease_ms=10, now_ms=T0)
            seen.append(daemon.sysid)
            if n % 3 == 0:
                await store.release_sysid(daemon.sysid)
        await store.expire_records(now_ms=T0 + 100, audit_before_ms=0)
        again = await other.reserve_sysid(info="", lease_ms=10, now_ms=T0 + 100)
    assert again.sysid not in seen
    assert len(set(seen)) == 40
    assert all(re.fullmatch("[a-z0-9]{1,8}", sysid) for sysid in seen)


async def test_many_at_once_get_different_ones(store: Store) -> None:
    daemons = await asyncio.gather(*(store.reserve_sysid(info="", lease_ms=10, now_ms=T0) for _ in range(30)))
    assert len({daemon.sysid for daemon in daemons}) == 30


async def test_a_sysid_lapses_when_it_is_not_renewed(store: Store) -> None:
    one = await store.reserve_sysid(info='{"role": "all"}', lease_ms=100, now_ms=T0)
    two = await store.reserve_sysid(info="two", lease_ms=100, now_ms=T0 + 1)
    assert (one.reserved_ms, one.until_ms, one.paused) == (T0, T0 + 100, False)
    assert await store.list_daemons(now_ms=T0 + 50) == [one, two]
    renewed = await store.renew_sysid(one.sysid, info="up 60 s", lease_ms=100, now_ms=T0 + 60)
    assert (renewed.until_ms, renewed.info, renewed.reserved_ms) == (T0 + 160, "up 60 s", T0)
    assert await store.list_daemons(now_ms=T0 + 120) == [renewed]
    await store.expire_records(now_ms=T0 + 120, audit_before_ms=0)
    back = await store.renew_sysid(two.sysid, info="back", lease_ms=100, now_ms=T0 + 120)
    assert await store.list_daemons(now_ms=T0 + 150) == [renewed, back], "nobody else can have got it"
    await store.release_sysid(one.sysid)
    await store.release_sysid(one.sysid)
    for sysid in (one.sysid, "zzzz"):
        with pytest.raises(NotFound):
            await store.renew_sysid(sysid, info="", lease_ms=100, now_ms=T0 + 120)
    assert await store.list_daemons(now_ms=T0 + 150) == [back]


@pytest.mark.parametrize("way", ["upkeep", "a new daemon"])
async def test_a_daemon_that_never_came_back_is_forgotten(store: Store, way: str) -> None:
    gone = await store.reserve_sysid(info="", lease_ms=100, now_ms=T0)
    lives = await store.reserve_sysid(info="", lease_ms=200, now_ms=T0)
    newer = [await store.reserve_sysid(info="", lease_ms=100, now_ms=T0) for _ in range(NEWEST_DAEMONS)]
    later_ms = T0 + 101 + FORGOTTEN_AFTER_MS
    if way == "upkeep":
        await store.expire_records(now_ms=later_ms, audit_before_ms=0)
    else:
        await store.reserve_sysid(info="", lease_ms=100, now_ms=later_ms)
    with pytest.raises(NotFound):
        await store.renew_sysid(gone.sysid, info="", lease_ms=100, now_ms=later_ms)
    for one in (lives, newer[-1]):
        await store.renew_sysid(one.sysid, info="", lease_ms=100, now_ms=later_ms)


async def test_a_clock_that_is_a_month_ahead_makes_nobody_forget_who_lives(store: Store) -> None:
    here = await store.reserve_sysid(info="", lease_ms=100, now_ms=T0)
    there = await store.reserve_sysid(info="", lease_ms=100, now_ms=T0)
    later_ms = T0 + 101 + 12 * FORGOTTEN_AFTER_MS
    await store.expire_records(now_ms=later_ms, audit_before_ms=0)
    await store.reserve_sysid(info="", lease_ms=100, now_ms=later_ms)
    assert (await store.renew_sysid(here.sysid, info="", lease_ms=100, now_ms=later_ms)).until_ms == later_ms + 100
    assert (await store.renew_sysid(there.sysid, info="", lease_ms=100, now_ms=T0)).until_ms == T0 + 100


async def test_a_daemon_learns_that_it_is_paused(store: Store) -> None:
    daemon = await store.reserve_sysid(info="", lease_ms=100, now_ms=T0)
    await store.set_daemon_paused(daemon.sysid, paused=True)
    assert (await store.renew_sysid(daemon.sysid, info="", lease_ms=100, now_ms=T0)).paused
    await store.set_daemon_paused(daemon.sysid, paused=False)
    assert not (await store.renew_sysid(daemon.sysid, info="", lease_ms=100, now_ms=T0)).paused
    with pytest.raises(NotFound):
        await store.set_daemon_paused("zzzz", paused=True)
    with pytest.raises(InvalidValue):
        await store.renew_sysid("not a sysid", info="", lease_ms=1, now_ms=T0)
