"""What blocks a consumer, and ends while somebody asks for its job."""

from functory.consumers.blocked_indexes import BlockedIndexes
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
