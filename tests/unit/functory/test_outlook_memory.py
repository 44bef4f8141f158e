"""What is remembered of types that jobs were added to: only what a look does not know that counts."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from functory.execution.outlook import Outlook
from store.base import WaitingType
from tests.support.clocks import FakeClock

LIFE_S = 2.0


class Place:
    """An outlook on a store in which nothing waits, and that answers when it may."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        store: Any = SimpleNamespace(get_waiting_jobtypes=self._waiting)
        self.outlook = Outlook(store, self.clock, LIFE_S, self._meet)

    async def _meet(self, created_ms: Mapping[str, int]) -> None:
        pass

    async def _waiting(self, *, now_ms: int, runnable: bool) -> list[WaitingType]:
        await self.may_answer.wait()
        return []

    @property
    def remembered(self) -> int:
        return len(self.outlook._added) + len(self.outlook._asked) + len(self.outlook._changed)

    def add(self, number: int) -> None:
        for n in range(number):
            self.outlook.added([f"acme-type{n}"])
            self.outlook.forget(f"tenant{n}")


async def test_a_daemon_that_never_looks_remembers_no_types() -> None:
    """One with the role api, say, for as long as it runs: tenants may have new types for ever."""
    place = Place()
    place.add(1000)
    assert place.remembered == 0
    assert not place.outlook.is_clear("acme-x")


async def test_one_that_does_not_look_any_more_remembers_no_new_types() -> None:
    """It is paused, or all of its slots are taken for days."""
    place = Place()
    await place.outlook.look({})
    place.clock.advance(LIFE_S + 0.1)
    place.add(1000)
    assert place.remembered == 0
    await place.outlook.look({})
    assert place.outlook.is_clear("acme-type1")


async def test_what_came_since_a_look_began_is_not_clear_after_it() -> None:
    """Also if the look before that is old, and nothing was clear while it was under way."""
    place = Place()
    await place.outlook.look({})
    assert place.outlook.is_clear("acme-x")
    place.clock.advance(LIFE_S + 0.1)
    place.may_answer.clear()
    looking = asyncio.create_task(place.outlook.look({}))
    await asyncio.sleep(0)
    place.outlook.added(["acme-x"])
    place.outlook.forget("zeta")
    place.may_answer.set()
    await looking
    assert [place.outlook.is_clear(name) for name in ("acme-x", "zeta-y", "acme-y")] == [False, False, True]
    place.outlook.added(["acme-y"])
    assert not place.outlook.is_clear("acme-y")
