"""Uids of contexts: never two at a time, the one just released comes last."""

import pytest

from runner.errors import LaunchError
from runner.sandbox.uids import Uids


def test_no_uid_is_given_twice_while_it_is_taken() -> None:
    uids = Uids(base=1000, count=3)
    assert [uids.take(), uids.take(), uids.take()] == [1000, 1001, 1002]
    with pytest.raises(LaunchError, match="all 3 uids"):
        uids.take()
    uids.release(1001)
    assert uids.take() == 1001


def test_a_released_uid_is_the_last_to_come_again() -> None:
    uids = Uids(base=1000, count=3)
    uids.release(uids.take())
    assert [uids.take(), uids.take(), uids.take()] == [1001, 1002, 1000]
