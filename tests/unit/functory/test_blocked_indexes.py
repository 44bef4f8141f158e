"""What blocks a consumer, and ends while somebody asks for its job."""

from functory.consumers.blocked_indexes import MOST, BlockedIndexes
from scheduler.retry import RetryPolicy
from store.base import Code, IndexEnd
from tests.support.clocks import FakeClock


def test_an_index_that_is_done_meanwhile_does_not_block_again() -> None:
    clock = FakeClock()
    blocked = BlockedIndexes(clock, RetryPolicy(), ())
    for index in (1, 2):
        assert blocked.ended(IndexEnd(index, f"job-{index}", Code.FAILED), Code.FAILED)
    clock.advance(3600)
    assert [it.index for it in blocked.due()] == [1, 2]
    assert blocked.free(1)
    assert blocked.free(2)
    blocked.queued(1)
    blocked.put_off(2, "its name is taken")
    assert (len(blocked), blocked.due()) == (0, [])


def test_of_very_many_the_lowest_are_known_and_the_others_have_their_turn_later() -> None:
    blocked = BlockedIndexes(FakeClock(), RetryPolicy(), ())

    def fail(index: int) -> bool:
        return blocked.ended(IndexEnd(index, f"job-{index}", Code.FAILED), Code.FAILED) is not None

    assert all(fail(index) for index in range(2 * MOST, MOST, -1))
    assert all(fail(index) for index in range(MOST, 0, -1)), "progress waits for the lowest"
    assert (len(blocked), blocked.lowest()[0].index) == (MOST, 1)
    assert not any(fail(index) for index in range(1, 2 * MOST + 1)), "there is no room for more"
    assert blocked.free(1)
    assert [index for index in range(2, 2 * MOST + 1) if fail(index)] == [MOST + 1]
    assert len(blocked) == MOST
