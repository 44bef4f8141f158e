"""What is dear to search for secrets: a tenant has a share of the event loop for that, and the rest is searched beside
it, in its order."""

from typing import NamedTuple

import pytest

from runner.flow import Flow
from runner.launch import Level
from runner.masking import MaskedReports, Masker, SearchTurns
from runner.outcome import Stopped
from runner.search_accounts import SearchAccounts
from tests.support.clocks import FakeClock

NEAR = Masker(["a" * size for size in range(8, 300)])
"""Each place of a row of `a` may be the beginning of any of its forms."""


class Desk(NamedTuple):
    """The reports of a tenant, and what came through."""

    reports: MaskedReports
    seen: list[Stopped]

    def put(self, *results: bytes) -> None:
        self.reports.put([Stopped(str(at), "ok", 200, text, b"", 1.0, (), Level.L0) for at, text in enumerate(results)])

    @property
    def ids(self) -> list[str]:
        return [one.id for one in self.seen]


def desk(flow: Flow, tenant: str = "loud", masker: Masker = NEAR) -> Desk:
    seen: list[Stopped] = []
    made = MaskedReports(seen.extend, 1 << 20, SearchTurns(), flow, tenant)
    made.masker = masker
    return Desk(made, seen)


def flow_at(clock: FakeClock) -> Flow:
    return Flow(searches=SearchAccounts(clock.monotonic_s))


async def use_up(flow: Flow, tenant: str = "loud") -> None:
    """The tenant's share of the loop."""
    one = desk(flow, tenant)
    for _ in range(20):
        one.put(b"a" * 10_000)
        await one.reports.finish()
    assert len(one.seen) == 20


async def test_who_has_used_up_its_share_is_searched_beside_the_loop() -> None:
    clock = FakeClock()
    flow = flow_at(clock)
    loud, quiet = desk(flow), desk(flow, "quiet")
    loud.put(b"a" * 1000)
    assert loud.ids == ["0"], "what is saved may be used"
    await use_up(flow)
    loud.put(b"a" * 10)
    loud.put(b"plain")
    assert loud.ids == ["0"]
    quiet.put(b"a" * 1000)
    assert quiet.ids == ["0"], "that is nobody else's"
    await loud.reports.finish()
    assert [one.result for one in loud.seen[1:]] == [b"***", b"plain"]
    clock.advance(11.0)
    loud.put(b"a" * 10)
    assert len(loud.seen) == 4, "it was paid off"


async def test_as_long_as_its_texts_are_dear_they_are_searched_beside_the_loop() -> None:
    clock = FakeClock()
    flow = flow_at(clock)
    await use_up(flow)
    loud = desk(flow)
    for count in range(10):
        clock.advance(0.05)
        loud.put(b"a" * 15_000)
        assert len(loud.seen) == count
        await loud.reports.finish()
    assert len(loud.seen) == 10


async def test_of_many_small_results_only_the_first_are_searched_on_the_loop() -> None:
    loud = desk(flow_at(FakeClock()))
    loud.put(*[b"a" * 16] * 900)
    assert 0 < len(loud.seen) < 300
    await loud.reports.finish()
    assert loud.ids == [str(number) for number in range(900)]
    assert {one.result for one in loud.seen} == {b"***"}


async def test_plain_texts_cost_nothing_however_many_they_are() -> None:
    def never() -> float:
        raise AssertionError("a clock was read")

    masker = Masker([f"correct-horse-battery-{number}" for number in range(500)])
    plain = desk(Flow(searches=SearchAccounts(never)), masker=masker)
    for _ in range(20):
        plain.put(*[b'{"hello":"Ada"}'] * 100, b"x" * 10_000)
    assert len(plain.seen) == 20 * 101
    assert masker.steps == 0


def test_to_look_for_the_rest_of_a_long_form_costs_something() -> None:
    """An error is a text of which a part may have been cut off."""
    masker = Masker(["b" * 60_000])
    assert masker.hide_cut(b"c" * 10_000) == b"c" * 10_000
    assert masker.steps > 10_000


def test_a_debt_ends() -> None:
    clock = FakeClock()
    accounts = SearchAccounts(clock.monotonic_s)
    accounts.take("loud", 1_000_000_000)
    assert 0.0 < accounts.wait_s("loud") <= 10.0
    clock.advance(accounts.wait_s("loud"))
    assert accounts.wait_s("loud") == pytest.approx(0.0, abs=1e-6)


def test_who_owes_nothing_is_forgotten() -> None:
    clock = FakeClock()
    accounts = SearchAccounts(clock.monotonic_s)
    for number in range(1000):
        accounts.take(f"t{number}", 1000)
        clock.advance(1.0)
    assert len(accounts._paid_s) <= 101
