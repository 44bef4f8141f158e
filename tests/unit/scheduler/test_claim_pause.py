"""How long to wait before a type is claimed again that had nothing to give."""

import pytest

from scheduler.claim_pause import LEAST_S, pause_s


@pytest.mark.parametrize(
    ("token_s", "expected_s"), [(-1.0, LEAST_S), (0.0, LEAST_S), (0.02, 0.02), (0.9, 0.9), (60.0, 1.0)]
)
def test_the_time_that_the_store_says_holds_within_bounds(token_s: float, expected_s: float) -> None:
    for in_vain_s in (0.0, 0.05, 0.1):
        assert pause_s(in_vain_s, token_s) == expected_s


def test_types_that_share_a_token_are_tried_less_and_less_if_others_are_quicker() -> None:
    assert [pause_s(in_vain_s, 0.01) for in_vain_s in (0.0, 1.0, 10.0, 60.0)] == [0.01, 0.05, 0.5, 1.0]


def test_where_keys_have_a_cap_it_is_tried_before_that_too() -> None:
    assert pause_s(0.1, 0.9, has_cap=True) == pause_s(0.1)
    assert pause_s(0.2, 0.02, has_cap=True) == 0.02
