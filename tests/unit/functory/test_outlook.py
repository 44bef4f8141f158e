"""How often a type is tried whose jobs may not run: less and less, and hardly later than it could."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from functory.execution.outlook import Outlook
from store.base import WaitingType
from tests.support.clocks import FakeClock

TYPES = [f"acme-t{number}" for number in range(30)]


class Place:
    """An outlook on jobs that wait in each type."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.tries: list[float] = []
        self.looks = 0
        self.waiting = dict.fromkeys(TYPES, 1)
        self._wakes = {0.0}
        store: Any = SimpleNamespace(get_waiting_jobtypes=self._waiting)
        self.outlook = Outlook(store, self.clock, 2.0, self._meet)

    async def _meet(self, created_ms: Mapping[str, int]) -> None:
        pass

    async def _waiting(self, *, now_ms: int, runnable: bool) -> list[WaitingType]:
        assert runnable
        return [WaitingType(jobtype, count, now_ms, 1) for jobtype, count in self.waiting.items()]

    async def try_until(self, end_s: float) -> None:
        """Look and claim as often as the outlook says, and find nothing."""
        while (at_s := min(self._wakes)) < end_s:
            self._wakes = {wake_s for wake_s in self._wakes if wake_s > at_s + 0.001}  # the others are one step
            self.clock.advance(at_s + 0.001 - self.clock.elapsed_s)
            self.looks += 1
            for each in await self.outlook.look({}):
                self.tries.append(self.clock.elapsed_s)
                self.clock.advance(0.0001)
                self._wakes.add(self.clock.elapsed_s + self.outlook.rest(each.jobtype))


async def test_types_that_may_not_run_are_tried_less_and_less() -> None:
    place = Place()
    await place.try_until(60.0)
    place.tries.clear()
    place.looks = 0
    await place.try_until(70.0)
    assert len(place.tries) <= 12 * len(TYPES)
    assert place.looks <= 2 * 12, "they are looked for together"


@pytest.mark.parametrize("token_s", [0.3, 2.0, 10.0, 45.0])
async def test_what_may_run_at_last_is_tried_soon(token_s: float) -> None:
    place = Place()
    await place.try_until(token_s + 2.0)
    late_s = next(tried_s for tried_s in place.tries if tried_s >= token_s) - token_s
    assert late_s <= max(0.15, token_s / 20 + 0.01)


@pytest.mark.parametrize("rate_per_s", [1.0, 5.0, 20.0, 50.0])
async def test_a_bucket_of_one_token_gives_nearly_its_rate_and_few_tries_are_in_vain(rate_per_s: float) -> None:
    """Each token is taken when it is tried for, and the next begins to fill then."""
    place = Place()
    now_s, tries, jobs = 0.0, 0, 100
    for _ in range(jobs):
        place.outlook.taken(TYPES[0], 1)
        token_s = now_s + 1 / rate_per_s
        while now_s < token_s:
            tries += 1
            pause_s = place.outlook.rest(TYPES[0])
            place.clock.advance(pause_s)
            now_s += pause_s
    assert jobs / now_s >= 0.8 * rate_per_s
    assert tries <= 30 * jobs


async def test_a_job_that_comes_due_meanwhile_is_tried_at_the_next_look() -> None:
    """It may have another rate domain than those that wait in vain."""
    place = Place()
    await place.try_until(60.0)
    first, second, third = TYPES[:3]
    for jobtype in (first, second, third):
        assert place.outlook.rest(jobtype) > 0.5
    place.waiting[first] += 1
    claiming = {first: 1, second: 1}  # what claims under way take waits in the store
    assert [each.jobtype for each in await place.outlook.look(claiming)] == [first]
    assert place.outlook.rest(first) > 0.5
    assert await place.outlook.look({}) == []


async def test_a_type_that_was_served_is_tried_soon_again() -> None:
    place = Place()
    await place.try_until(60.0)
    assert place.outlook.rest(TYPES[0]) > 0.5
    place.outlook.taken(TYPES[0], 0)
    assert place.outlook.rest(TYPES[0]) > 0.5
    place.outlook.taken(TYPES[0], 1)
    assert place.outlook.rest(TYPES[0]) < 0.11


async def test_a_type_that_waits_for_its_token_is_left_out_until_then_and_known_when_it_comes() -> None:
    place = Place()
    await place.outlook.look({})
    jobtype = TYPES[0]
    assert place.outlook.rest(jobtype, place.clock.now_ms() + 50) == pytest.approx(0.05)
    assert jobtype not in [each.jobtype for each in await place.outlook.look({})]
    assert place.outlook.claimable(jobtype) == 0
    place.outlook.rested([jobtype])
    assert place.outlook.claimable(jobtype) == 1
    assert place.outlook.versions[jobtype] == 1
    place.outlook.unable[jobtype] = 1
    assert place.outlook.claimable(jobtype) == 0


@pytest.mark.parametrize(("tenant", "is_tried"), [("acme", True), ("", True), ("other", False)])
async def test_a_change_ends_the_rest_of_all_types_of_its_tenant(tenant: str, is_tried: bool) -> None:
    place = Place()
    await place.outlook.look({})
    place.outlook.rest(TYPES[0], place.clock.now_ms() + 60_000)
    place.outlook.forget(tenant)
    assert (TYPES[0] in [each.jobtype for each in await place.outlook.look({})]) == is_tried


async def test_a_job_that_comes_after_some_were_taken_ends_the_rest_of_its_type() -> None:
    place = Place()
    place.waiting = {TYPES[0]: 3}
    await place.outlook.look({})
    place.outlook.taken(TYPES[0], 1)
    place.outlook.rest(TYPES[0], place.clock.now_ms() + 60_000)
    place.waiting = {TYPES[0]: 2}
    assert await place.outlook.look({}) == [], "the two that wait for a token"
    place.waiting = {TYPES[0]: 3}
    assert [each.jobtype for each in await place.outlook.look({})] == [TYPES[0]]
