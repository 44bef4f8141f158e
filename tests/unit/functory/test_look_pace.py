"""The looks of many consumers of one tenant, one after the other."""

from functory.consumers.look_pace import INDEXES_PER_S, MOST_AHEAD_S, LookPace
from tests.support.clocks import FakeClock


def test_large_windows_of_a_tenant_wait_for_each_other_and_for_nobody_else() -> None:
    clock = FakeClock()
    pace = LookPace(clock)
    now_s = clock.monotonic_s()
    turns_s = [pace.take_turn_s("acme", 10_000) - now_s for _ in range(4)]
    assert turns_s == [number * 10_000 / INDEXES_PER_S for number in range(4)]
    assert pace.take_turn_s("other", 10_000) == now_s
    clock.advance(4 * 10_000 / INDEXES_PER_S)
    assert pace.take_turn_s("acme", 10_000) == clock.monotonic_s()


def test_turns_that_nobody_uses_keep_a_tenant_waiting_for_a_while_only() -> None:
    clock = FakeClock()
    pace = LookPace(clock)
    turns_s = [pace.take_turn_s("acme", 10_000) for _ in range(1000)]
    assert turns_s[-1] == clock.monotonic_s() + MOST_AHEAD_S
