"""Races by construction: between any two steps of a verb another store does any other verb, and the result is that of
doing one after the other.

What one after the other gives is taken from SQLite, where every verb is one transaction, so the back ends also check
each other.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pymongo import MongoClient

from store.base import Store
from store.errors import StoreError
from store.url import open_store
from tests.support.jobs import TENANT
from tests.support.store_audit import check_counters, run_to_the_end
from tests.support.turns import Pair, interleave, open_pair

ALL_PAIRS = os.environ.get("FUNCTORY_RACES") == "all"
"""Where verbs have many steps all pairs take minutes: `make races`. Otherwise each meets some of the others."""

Verb = Callable[[Store], Awaitable[Any]]


class Scene(NamedTuple):
    """What there is before two verbs meet, and when they do."""

    set_up: Callable[[Store], Awaitable[None]]
    now_ms: int


class Result(NamedTuple):
    one: Any
    other: Any
    jobs: Any


async def result_of(verb: Verb, store: Store) -> Any:
    try:
        return await verb(store)
    except StoreError as error:
        return type(error).__name__


async def look(store: Store, one: Any, other: Any, now_ms: int) -> Result:
    return Result(one, other, await check_counters(store, TENANT, now_ms))


async def one_after_the_other(scene: Scene, one: Verb, other: Verb, folder: Path) -> list[Result]:
    results = []
    for is_swapped in (False, True):
        name = f"{one.__name__}-{other.__name__}-{is_swapped}"
        async with open_store(f"sqlite://{folder}/{name}.db") as store:
            await scene.set_up(store)
            if is_swapped:
                second = await result_of(other, store)
                first = await result_of(one, store)
            else:
                first = await result_of(one, store)
                second = await result_of(other, store)
            results.append(await look(store, first, second, scene.now_ms))
    return results


class Arena:
    """Pairs of stores on a database as its scene has it. To open a store on a server takes long, so those stay."""

    def __init__(self, scene: Scene, url: str, stack: AsyncExitStack) -> None:
        self.scene = scene
        self._url = url
        self._stack = stack
        self._pair: Pair | None = None
        self._number = 0
        self.is_quick = url.startswith("sqlite")

    async def fresh_pair(self) -> Pair:
        if self.is_quick:
            self._number += 1
            url = self._url.replace("store.db", f"race-{self._number}.db")
            self._pair = await self._stack.enter_async_context(open_pair(url))
        elif self._pair is None:
            self._pair = await self._stack.enter_async_context(open_pair(self._url))
            self._client: MongoClient[dict[str, Any]] = await asyncio.to_thread(MongoClient, self._url)
            self._stack.push_async_callback(asyncio.to_thread, self._client.close)
        else:
            await asyncio.to_thread(self._empty)
        self._pair.turn.arm(0)
        await self.scene.set_up(self._pair.first)
        return self._pair

    def _empty(self) -> None:
        database = self._client.get_default_database()
        for name in ("jobs", "names", "types", "counters", "once"):
            database[name].delete_many({})


Serial = dict[tuple[Verb, Verb], list[Result]]
"""What two verbs give one after the other, in either order, as far as somebody has asked."""


async def meet(arena: Arena, one: Verb, other: Verb, serial: Serial, folder: Path, *, is_weaker: bool = False) -> int:
    """Have the other verb come between any two steps of the one, and compare what they give with what they give one
    after the other; with is_weaker see that the counters are right and that all jobs come to an end. Returns how many
    steps there were."""
    stop_at = 2  # before the first step it would be one after the other
    while True:
        pair = await arena.fresh_pair()
        first, second, was_stopped = await interleave(pair, partial(result_of, one), partial(result_of, other), stop_at)
        if not was_stopped:
            return stop_at - 1
        result = await look(pair.other, first, second, arena.scene.now_ms)
        if (one, other) not in serial:
            serial[one, other] = await one_after_the_other(arena.scene, one, other, folder)
        where = f"{other.__name__} before step {stop_at} of {one.__name__}"
        if is_weaker:
            left = await run_to_the_end(pair.other, TENANT, arena.scene.now_ms)
            assert not left, f"{where}: these wait in vain"
        else:
            assert result in serial[one, other], where
        stop_at += 1
