"""Daemons of one machine hand out different uids."""

from runner.sandbox.uids import Uids


def test_two_daemons_never_hand_out_the_same_uid() -> None:
    one, two = Uids(), Uids()
    one.claim()
    two.claim()
    try:
        assert not {one.take() for _ in range(100)} & {two.take() for _ in range(100)}
    finally:
        one.free()
        two.free()


def test_a_range_that_was_given_up_is_handed_out_again() -> None:
    first, second = Uids(), Uids()
    first.claim()
    uid = first.take()
    first.free()
    second.claim()
    assert second.take() == uid
    second.free()
    second.free()
